package openbao

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// Canaries: whatever a failure prints, it holds none of them.
const (
	canaryToken = "hvs.CANARY-token"
	canaryMount = "canary-mount/inner"
	canaryKey   = "canary-key"
	canaryBody  = `{"plaintext":"Q0FOQVJZ"}`
	canaryText  = "CANARY-text-of-openbao"
)

func assertClean(t *testing.T, err error) {
	t.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		text := strings.ToLower(e.Error())
		for _, canary := range []string{"canary", "q0foqvj", "/v1/"} {
			if strings.Contains(text, canary) {
				t.Errorf("the error %q holds %q", e, canary)
			}
		}
	}
}

// authority is a throw-away CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test CA"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	a.cert = sign(t, template, template, a.key, a.key)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// issue returns a server certificate for bao.test, changed by edit.
func (a *authority) issue(t testing.TB, edit func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		DNSNames:     []string{"bao.test"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if edit != nil {
		edit(template)
	}
	cert := sign(t, template, a.cert, key, a.key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) file(t testing.TB) string {
	t.Helper()
	return writeFile(t, a.pem(), 0o644)
}

func writeFile(t testing.TB, content []byte, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts an HTTPS server with a good certificate and returns the options
// to reach it.
func serve(t testing.TB, handler http.HandlerFunc) Options {
	t.Helper()
	ca := newAuthority(t)
	return serveTLS(t, ca, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}}, handler)
}

func serveTLS(t testing.TB, ca *authority, config *tls.Config, handler http.HandlerFunc) Options {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Listener = lingering{server.Listener}
	server.Config.ErrorLog = quiet
	server.TLS = config
	server.StartTLS()
	t.Cleanup(server.Close)
	return Options{
		Address:    server.URL,
		CAFile:     ca.file(t),
		ServerName: "bao.test",
		Timeout:    10 * time.Second,
	}
}

// lingering makes each connection wait for the client's end before it closes.
// A kernel that closes a connection with unread bytes resets it, and a reset
// overtakes an alert that the client has not read yet: which of the two a client
// sees would be chance.
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

// listen starts a TCP peer that handles each connection with script.
func listen(t testing.TB, script func(net.Conn)) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				script(conn)
			}()
		}
	}()
	return l.Addr()
}

// scripted starts a TLS peer that reads a request and then does what script
// says with the connection. The connection is reset at the end.
func scripted(t testing.TB, script func(io.Writer)) Options {
	t.Helper()
	ca := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}}
	addr := listen(t, func(raw net.Conn) {
		conn := tls.Server(raw, config)
		if _, err := conn.Read(make([]byte, 64<<10)); err != nil {
			return
		}
		script(conn)
		_ = raw.(*net.TCPConn).SetLinger(0)
	})
	return Options{
		Address:    "https://" + addr.String(),
		CAFile:     ca.file(t),
		ServerName: "bao.test",
		Timeout:    10 * time.Second,
	}
}

func open(t testing.TB, o Options) *Conn {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// endpoint returns the endpoint of an operation on the canary key.
func endpoint(t testing.TB, c *Conn, op Operation) *Endpoint {
	t.Helper()
	method := http.MethodPost
	if op == MetadataRead || op == UpsertRead {
		method = http.MethodGet
	}
	e, err := c.Endpoint(op, method, canaryMount, "any", canaryKey)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// post returns a body for one request.
func post() *Buffer {
	b := NewBuffer(len(canaryBody))
	b.B = append(b.B, canaryBody...)
	return b
}

// call makes one encrypt request and returns the answer as a string.
func call(t testing.TB, c *Conn) (string, error) {
	t.Helper()
	answer, err := c.Call(t.Context(), endpoint(t, c, Encrypt), NewSecret(canaryToken), post())
	if err != nil {
		return "", err
	}
	defer answer.Release()
	return string(answer.B), nil
}

// assertFault checks an error's cause, a fragment of its text, and that it holds
// no canary.
func assertFault(t testing.TB, err error, want fault.Cause, fragment string) {
	t.Helper()
	if got := fault.CauseOf(err); got != want {
		t.Errorf("cause is %q (%v), want %q", got.Text(), err, want.Text())
	}
	if err == nil || !strings.Contains(err.Error(), fragment) {
		t.Errorf("error is %v, want %q in it", err, fragment)
	}
	if tt, ok := t.(*testing.T); ok {
		assertClean(tt, err)
	}
}
