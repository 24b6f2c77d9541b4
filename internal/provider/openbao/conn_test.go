package openbao

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var quiet = log.New(io.Discard, "", 0)

func TestNewRefusesOptions(t *testing.T) {
	ca := newAuthority(t)
	good := Options{Address: "https://bao.test:8200", CAFile: ca.file(t), ServerName: "bao.test", Timeout: time.Second}
	if _, err := New(good); err != nil {
		t.Fatalf("the good options are refused: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(good.CAFile, link); err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	junk := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("junk")})
	cut := bytes.TrimSuffix(ca.pem(), []byte("-----END CERTIFICATE-----\n"))

	for name, c := range map[string]struct {
		edit func(*Options)
		want string
	}{
		"no address":        {func(o *Options) { o.Address = "" }, "openbao.address: not a URL"},
		"no scheme":         {func(o *Options) { o.Address = "bao.test:8200" }, "openbao.address"},
		"other scheme":      {func(o *Options) { o.Address = "unix:///run/bao.sock" }, "openbao.address"},
		"ftp":               {func(o *Options) { o.Address = "ftp://bao.test" }, "must be https"},
		"user":              {func(o *Options) { o.Address = "https://me:secret@bao.test" }, "only scheme, host and port"},
		"path":              {func(o *Options) { o.Address = "https://bao.test/v1" }, "only scheme, host and port"},
		"query":             {func(o *Options) { o.Address = "https://bao.test?x=1" }, "only scheme, host and port"},
		"plain HTTP":        {func(o *Options) { o.Address = "http://127.0.0.1:1" }, "plain HTTP is refused"},
		"plain, not local":  {func(o *Options) { o.Address = "http://10.0.0.1:1"; o.AllowPlainHTTP = true }, "only for loopback"},
		"plain, name":       {func(o *Options) { o.Address = "http://bao.test"; o.AllowPlainHTTP = true }, "only for loopback"},
		"no server name":    {func(o *Options) { o.ServerName = "" }, "openbao.tlsServerName"},
		"no timeout":        {func(o *Options) { o.Timeout = 0 }, "openbao.timeout"},
		"negative timeout":  {func(o *Options) { o.Timeout = -1 }, "openbao.timeout"},
		"negative pool":     {func(o *Options) { o.MaxConns = -1 }, "connections"},
		"no CA file":        {func(o *Options) { o.CAFile = "" }, "openbao.caCertFile"},
		"relative CA file":  {func(o *Options) { o.CAFile = "ca.pem" }, "relative"},
		"missing CA file":   {func(o *Options) { o.CAFile += ".gone" }, "does not exist"},
		"linked CA file":    {func(o *Options) { o.CAFile = link }, "symbolic link"},
		"writable CA file":  {func(o *Options) { o.CAFile = writeFile(t, ca.pem(), 0o664) }, "chmod 0644"},
		"empty CA file":     {func(o *Options) { o.CAFile = writeFile(t, nil, 0o644) }, "no certificate"},
		"text CA file":      {func(o *Options) { o.CAFile = writeFile(t, []byte("hello\n"), 0o644) }, "no certificate"},
		"key in CA file":    {func(o *Options) { o.CAFile = writeFile(t, append(ca.pem(), keyPEM...), 0o644) }, "block 2 is no certificate"},
		"damaged CA file":   {func(o *Options) { o.CAFile = writeFile(t, append(ca.pem(), cut...), 0o644) }, "block 2 is damaged"},
		"junk certificate":  {func(o *Options) { o.CAFile = writeFile(t, append(ca.pem(), junk...), 0o644) }, "block 2 cannot be parsed"},
		"oversized CA file": {func(o *Options) { o.CAFile = writeFile(t, bytes.Repeat([]byte("\n"), maxCAFile+1), 0o644) }, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			c.edit(&o)
			_, err := New(o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New: %v, want %q in it", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error %q repeats the address", err)
			}
		})
	}
}

func TestEndpointRefusesPaths(t *testing.T) {
	c := open(t, serve(t, nil))
	for _, path := range []string{"", "/transit", "transit/", "a//b", "a/../b", ".", "a\nb", "a\x7f"} {
		if _, err := c.Endpoint(Encrypt, http.MethodPost, path, "keys"); err == nil || !strings.Contains(err.Error(), "transit.mountPath") {
			t.Errorf("Endpoint(%q): %v, want an error that names transit.mountPath", path, err)
		}
	}
}

// observed records what an Observer is told.
type observed struct {
	mu   sync.Mutex
	list []string
}

func (o *observed) RequestDone(_ context.Context, d Done) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d.Took <= 0 {
		d.Status = "without a duration"
	}
	o.list = append(o.list, string(d.Operation)+" "+d.Status)
}

func TestCallSendsExactlyWhatItShould(t *testing.T) {
	type request struct{ method, path, body, token, namespace, marker, contentType string }
	var got request
	o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = request{r.Method, r.URL.EscapedPath(), string(body), r.Header.Get("X-Vault-Token"),
			r.Header.Get("X-Vault-Namespace"), r.Header.Get("X-Vault-Request"), r.Header.Get("Content-Type")}
		_, _ = io.WriteString(w, "answer")
	})
	o.Namespace = "team/a"
	watch := &observed{}
	o.Observer = watch
	c := open(t, o)

	write, err := c.Endpoint(Encrypt, http.MethodPost, "a/b", "encrypt", "odd key?#%")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Call(t.Context(), write, NewSecret("t1"), post())
	if err != nil || string(answer.B) != "answer" {
		t.Fatalf("Call: %v, want the answer", err)
	}
	answer.Release()
	want := request{"POST", "/v1/a/b/encrypt/odd%20key%3F%23%25", canaryBody, "t1", "team/a", "true", "application/json"}
	if got != want {
		t.Errorf("the server saw %+v, want %+v", got, want)
	}

	read, err := c.Endpoint(UpsertRead, http.MethodGet, "a/b", "config", "keys")
	if err != nil {
		t.Fatal(err)
	}
	if answer, err = c.Call(t.Context(), read, NewSecret("t2"), nil); err != nil {
		t.Fatal(err)
	}
	answer.Release()
	if want = (request{"GET", "/v1/a/b/config/keys", "", "t2", "team/a", "true", ""}); got != want {
		t.Errorf("the server saw %+v, want %+v", got, want)
	}
	if list := strings.Join(watch.list, ", "); list != "transit_encrypt ok, transit_disable_upsert_read ok" {
		t.Errorf("observed %q", list)
	}
}

func TestPlainHTTPOnLoopback(t *testing.T) {
	addr := listen(t, httpScript("200 OK", "plain"))
	for _, host := range []string{addr.String(), strings.Replace(addr.String(), "127.0.0.1", "localhost", 1)} {
		c := open(t, Options{Address: "http://" + host, AllowPlainHTTP: true, Timeout: 10 * time.Second})
		if got, err := call(t, c); err != nil || got != "plain" {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
}

func TestDialPlainRefusesOtherHosts(t *testing.T) {
	// The check is on the address that a name resolved to, before connecting.
	conn, err := dialPlain(time.Second)(t.Context(), "tcp", "192.0.2.1:1")
	if err == nil {
		conn.Close()
		t.Fatal("a dial to another host was not refused")
	}
	cause, detail := exchange{}.classifyTransport(err)
	if cause.Class() != "openbao_connection_failed" || !strings.Contains(detail, "loopback") {
		t.Errorf("classified as %q %q", cause.Class(), detail)
	}
}

func TestConnectionsAreReusedAndPooled(t *testing.T) {
	const callers = 32
	var conns sync.Map
	var arrived atomic.Int32
	all := make(chan struct{})
	o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conns.Store(r.RemoteAddr, true)
		if arrived.Add(1) == callers {
			close(all)
		}
		<-all
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	o.MaxConns = callers
	c := open(t, o)
	for range 5 {
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				if got, err := call(t, c); err != nil || got != canaryBody {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		group.Wait()
	}
	n := 0
	conns.Range(func(any, any) bool { n++; return true })
	if n != callers {
		t.Errorf("160 calls from 32 callers used %d connections, want 32", n)
	}
}

// A server that answers before it has read the request leaves net/http copying
// the request body while Call has returned: each request must still carry its
// own body, whatever its buffer is used for next.
func TestEarlyAnswersDoNotMixBodies(t *testing.T) {
	const size = 48 << 10
	var bad atomic.Int32
	o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).EnableFullDuplex()
		_ = http.NewResponseController(w).Flush()
		body, err := io.ReadAll(r.Body)
		if err == nil && bytes.Count(body, body[:1]) != size {
			bad.Add(1)
		}
	})
	c := open(t, o)
	e := endpoint(t, c, Encrypt)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			for range 20 {
				b := NewBuffer(size)
				b.B = append(b.B, bytes.Repeat([]byte{byte('a' + i)}, size)...)
				answer, err := c.Call(t.Context(), e, NewSecret(canaryToken), b)
				if err == nil {
					answer.Release()
				}
			}
		})
	}
	group.Wait()
	if bad.Load() != 0 {
		t.Errorf("%d requests arrived with foreign bytes", bad.Load())
	}
}
