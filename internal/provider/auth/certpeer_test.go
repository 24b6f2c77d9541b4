package auth

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

func ecdhKey() (*ecdh.PrivateKey, error) { return ecdh.X25519().GenerateKey(rand.Reader) }

func isLocal(err error) bool { return errors.Is(err, errLocal) }

// closedConn is a TLS connection to nowhere: whatever reaches it fails the test
// by its cause.
func closedConn(t *testing.T) *openbao.Conn {
	t.Helper()
	return dialTo(t, newAuthority(t), "https://127.0.0.1:1")
}

func dialTo(t *testing.T, ca *authority, address string) *openbao.Conn {
	t.Helper()
	conn, err := openbao.New(openbao.Options{
		Address: address, ServerName: "bao.test", Timeout: 10 * time.Second, Namespace: "team",
		CAFile: write(t, filepath.Join(t.TempDir(), "ca"), certPEM(ca.cert), 0o644),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// request is what a bao saw.
type request struct {
	method, path, token, namespace string
	body                           map[string]any
	// presented is the serial number of the client certificate, empty for none.
	presented string
	remote    string
}

func (r request) String() string {
	return fmt.Sprintf("%s %s token=%q certificate=%q", r.method, r.path, r.token, r.presented)
}

// bao is a scripted OpenBao over TLS.
type bao struct {
	mu     sync.Mutex
	seen   []request
	answer func(request) (status int, body string)
}

func startBao(t *testing.T, ca *authority, edit func(*tls.Config), answer func(request) (int, string)) (*bao, *openbao.Conn) {
	t.Helper()
	b := &bao{answer: answer}
	server := httptest.NewUnstartedServer(b)
	server.Listener = lingering{server.Listener}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.server(t)}, ClientAuth: tls.RequestClientCert}
	if edit != nil {
		edit(server.TLS)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return b, dialTo(t, ca, server.URL)
}

// lingering makes a server wait for its client's end before it closes: else a
// reset might overtake the alert that a test is about.
type lingering struct{ net.Listener }

func (l lingering) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return lingeringConn{conn.(*net.TCPConn)}, nil
}

type lingeringConn struct{ *net.TCPConn }

func (c lingeringConn) Close() error {
	if c.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.Copy(io.Discard, c.TCPConn)
	}
	return c.TCPConn.Close()
}

func (b *bao) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	got := request{
		method: r.Method, path: r.URL.Path, token: r.Header.Get("X-Vault-Token"), namespace: r.Header.Get("X-Vault-Namespace"),
		remote: r.RemoteAddr,
	}
	if raw, _ := io.ReadAll(r.Body); len(raw) > 0 {
		_ = json.Unmarshal(raw, &got.body)
	}
	if certs := r.TLS.PeerCertificates; len(certs) > 0 {
		got.presented = certs[0].SerialNumber.String()
	}
	b.mu.Lock()
	b.seen = append(b.seen, got)
	status, body := b.answer(got)
	b.mu.Unlock()
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (b *bao) requests() []request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]request(nil), b.seen...)
}

func granted(token string, ttl int) (int, string) {
	return 200, fmt.Sprintf(`{"auth":{"client_token":%q,"lease_duration":%d,"renewable":true,"token_type":"service"}}`, token, ttl)
}

// dataCall makes a call as transit does.
func dataCall(t *testing.T, conn *openbao.Conn, token openbao.Secret) error {
	t.Helper()
	e, err := conn.Endpoint(openbao.MetadataRead, http.MethodGet, "transit", "keys", "k")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := conn.Call(t.Context(), e, token, nil)
	if err == nil {
		answer.Release()
	}
	return err
}

// The certificate is presented at login and renewal, as it is on disk by then,
// on a connection of its own, and never on a data call.
func TestCertLogin(t *testing.T) {
	ca := newAuthority(t)
	m := newMaterial(t)
	first := m.issue(t, ca, nil)
	b, conn := startBao(t, ca, nil, func(r request) (int, string) {
		switch {
		case strings.HasSuffix(r.path, "/login"):
			return granted("canary-"+r.presented, 3600)
		case strings.HasSuffix(r.path, "/renew-self"):
			return granted(r.token, 7200)
		}
		return 200, `{"data":{}}`
	})
	login := NewCert(conn, m.options())
	if _, used := login.NotAfter(); used {
		t.Error("a certificate was used before the first login")
	}
	if err := dataCall(t, conn, openbao.NewSecret("canary")); err != nil {
		t.Fatal(err)
	}
	grant, err := login.Login(t.Context())
	if err != nil || grant.Token.Reveal() != "canary-"+first.SerialNumber.String() || grant.TTL != time.Hour || !grant.Renewable {
		t.Fatalf("granted %v for %v, %v", grant.Token.Reveal(), grant.TTL, err)
	}
	if at, used := login.NotAfter(); !used || !at.Equal(first.NotAfter) {
		t.Errorf("it was used until %v, want %v", at, first.NotAfter)
	}
	if err := dataCall(t, conn, grant.Token); err != nil {
		t.Fatal(err)
	}
	renewed, err := login.Renew(t.Context(), grant.Token, 90*time.Minute)
	if err != nil || renewed.TTL != 2*time.Hour || renewed.Token.Reveal() != grant.Token.Reveal() {
		t.Errorf("renewed %v, %v", renewed.TTL, err)
	}

	// Replaced on disk: the next of each presents the new one.
	second := m.issue(t, ca, func(c *x509.Certificate) {
		c.SerialNumber.SetInt64(77)
		c.NotAfter = c.NotAfter.Add(time.Hour)
	})
	if grant, err = login.Login(t.Context()); err != nil || grant.Token.Reveal() != "canary-77" {
		t.Errorf("after the files were replaced: %v", err)
	}
	if _, err := login.Renew(t.Context(), grant.Token, 1500*time.Millisecond); err != nil {
		t.Error(err)
	}
	if err := dataCall(t, conn, grant.Token); err != nil {
		t.Fatal(err)
	}
	if at, _ := login.NotAfter(); !at.Equal(second.NotAfter) {
		t.Errorf("the new one is used until %v", at)
	}

	var got []string
	connections := map[string]string{}
	for _, r := range b.requests() {
		got = append(got, r.String())
		if r.namespace != "team" {
			t.Errorf("%v went to the namespace %q", r, r.namespace)
		}
		if known, ok := connections[r.remote]; r.presented != "" && ok {
			t.Errorf("%v used a connection that served %q", r, known)
		}
		connections[r.remote] = r.String()
		switch {
		case strings.HasSuffix(r.path, "/login") && (len(r.body) != 1 || r.body["name"] != canaryRole):
			t.Errorf("the login said %v", r.body)
		case strings.HasSuffix(r.path, "/renew-self") && r.presented == "2" && r.body["increment"] != 5400.0,
			strings.HasSuffix(r.path, "/renew-self") && r.presented == "77" && r.body["increment"] != 2.0:
			t.Errorf("the renewal asked for %v", r.body)
		}
	}
	const data = `GET /v1/transit/keys/k token=%q certificate=""`
	want := []string{
		fmt.Sprintf(data, "canary"),
		`PUT /v1/auth/canary-mount/login token="" certificate="2"`,
		fmt.Sprintf(data, "canary-2"),
		`PUT /v1/auth/token/renew-self token="canary-2" certificate="2"`,
		`PUT /v1/auth/canary-mount/login token="" certificate="77"`,
		`PUT /v1/auth/token/renew-self token="canary-77" certificate="77"`,
		fmt.Sprintf(data, "canary-77"),
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("OpenBao saw\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCertLoginWithoutAName(t *testing.T) {
	ca := newAuthority(t)
	m := newMaterial(t)
	m.issue(t, ca, nil)
	b, conn := startBao(t, ca, nil, func(request) (int, string) { return granted("canary", 60) })
	o := m.options()
	o.Name = ""
	if _, err := NewCert(conn, o).Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seen := b.requests(); len(seen) != 1 || len(seen[0].body) != 0 {
		t.Errorf("the login said %v", seen)
	}
}

// What OpenBao says to no certificate, to a wrong one and to a wrong role reads
// well, whether it is a TLS alert or an answer.
func TestCertRefusals(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	pool := func(a *authority) *x509.CertPool {
		p := x509.NewCertPool()
		p.AddCert(a.cert)
		return p
	}
	refuse := func(status int, text string) func(request) (int, string) {
		return func(request) (int, string) { return status, `{"errors":["` + text + ` canary"]}` }
	}
	require := func(version uint16) func(*tls.Config) {
		return func(c *tls.Config) {
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool(other)
			c.MinVersion, c.MaxVersion = version, version
		}
	}
	for name, c := range map[string]struct {
		edit   func(*tls.Config)
		answer func(request) (int, string)
		cause  fault.Cause
		want   string
	}{
		"not asked for": {func(c *tls.Config) { c.ClientAuth = tls.NoClientCert }, refuse(400, "client certificate must be supplied"),
			fault.LoginRejected, "tls_disable_client_certs"},
		"no role":         {nil, refuse(400, "invalid certificate or no client certificate supplied"), fault.LoginRejected, "auth.cert.name"},
		"denied":          {nil, refuse(403, "permission denied"), fault.LoginRejected, "auth.cert.certificateFile"},
		"nothing mounted": {nil, refuse(404, "no handler for route"), fault.LoginRejected, "auth.cert.mountPath"},
		"sealed":          {nil, refuse(503, "Vault is sealed"), fault.Sealed, "unseal"},
		"rate limit":      {nil, refuse(429, ""), fault.RateLimited, "quota"},
		"unknown CA, 1.3": {require(tls.VersionTLS13), nil, fault.TLSFailed, "tls_client_ca_file"},
		"unknown CA, 1.2": {require(tls.VersionTLS12), nil, fault.TLSFailed, "tls_client_ca_file"},
		"own verification": {func(c *tls.Config) {
			c.VerifyConnection = func(tls.ConnectionState) error { return errors.New("canary") }
		}, nil, fault.TLSFailed, "client certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMaterial(t)
			m.issue(t, ca, nil)
			b, conn := startBao(t, ca, c.edit, c.answer)
			_, err := NewCert(conn, m.options()).Login(t.Context())
			assertFault(t, err, c.cause, c.want)
			if isLocal(err) {
				t.Errorf("%v is marked as local", err)
			}
			if n := len(b.requests()); (c.answer == nil) != (n == 0) {
				t.Errorf("%d requests reached OpenBao", n)
			}
			// The data connection knows nothing of certificates.
			if err := dataCall(t, conn, openbao.NewSecret("canary")); strings.Contains(fmt.Sprint(err), "auth.cert") {
				t.Errorf("a data call says %v", err)
			}
		})
	}
}

// An expired certificate that the provider's clock finds good.
func TestCertThatOnlyOpenBaoFindsExpired(t *testing.T) {
	ca := newAuthority(t)
	m := newMaterial(t)
	m.issue(t, ca, nil)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	_, conn := startBao(t, ca, func(c *tls.Config) {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool
		c.Time = func() time.Time { return time.Now().Add(72 * time.Hour) }
	}, nil)
	_, err := NewCert(conn, m.options()).Login(t.Context())
	assertFault(t, err, fault.TLSFailed, "expired or not valid yet")
}

func TestCertNeedsTLS(t *testing.T) {
	m := newMaterial(t)
	m.issue(t, newAuthority(t), nil)
	conn := server(t, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	_, err := NewCert(conn, m.options()).Login(t.Context())
	assertFault(t, err, fault.LoginRejected, "openbao.address")
}

func TestCertLoginEndsWithItsContext(t *testing.T) {
	ca := newAuthority(t)
	m := newMaterial(t)
	m.issue(t, ca, nil)
	_, conn := startBao(t, ca, nil, func(request) (int, string) { return granted("canary", 60) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewCert(conn, m.options()).Login(ctx)
	assertFault(t, err, fault.Canceled, "")
}

// A session over the files: replaced certificates heal it without a restart.
func TestCertSession(t *testing.T) {
	ca := newAuthority(t)
	m := newMaterial(t)
	m.issue(t, ca, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) })
	b, conn := startBao(t, ca, nil, func(r request) (int, string) { return granted("canary-"+r.presented, 3600) })
	s := newSession(t, NewCert(conn, m.options()), time.Minute)
	_, err := s.Token(t.Context())
	assertFault(t, err, fault.LoginRejected, "has expired")
	m.issue(t, ca, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	for {
		token, err := s.Token(ctx)
		if err == nil {
			if token.Reveal() != "canary-2" {
				t.Errorf("the token is %q", token.Reveal())
			}
			break
		}
		<-tick.C
	}
	if took := time.Since(start); took > 3*localDelay {
		t.Errorf("it took %v to heal", took)
	}
	if n := len(b.requests()); n != 1 {
		t.Errorf("%d logins reached OpenBao, want 1", n)
	}
}
