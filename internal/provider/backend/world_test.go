package backend_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/config"
)

// pair is a certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue signs a certificate; a nil issuer makes a CA.
func issue(t *testing.T, by *pair, life time.Duration, names ...string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if by == nil {
		by = &pair{template, key}
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage, template.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return pair{cert, key}
}

func (p pair) certPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.cert.Raw})
}

func (p pair) keyPEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// seen is a request as it arrived.
type seen struct {
	path, token, namespace string
	body                   map[string]any
	certificate            bool
}

// world is a scripted OpenBao over TLS and a directory for files.
type world struct {
	t       *testing.T
	dir     string
	ca      pair
	address string
	dials   atomic.Int32
	// lease is the life of tokens in seconds. Set before the first request.
	lease int

	mu   sync.Mutex
	list []seen
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), ca: issue(t, nil, time.Hour), lease: 3600}
	own := issue(t, &w.ca, time.Hour, "bao.test")
	server := httptest.NewUnstartedServer(w)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{own.cert.Raw}, PrivateKey: own.key}},
		ClientAuth:   tls.RequestClientCert,
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			w.dials.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	w.address = server.URL
	w.write("ca.pem", w.ca.certPEM(), 0o644)
	return w
}

func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	s := seen{path: r.URL.Path, token: r.Header.Get("X-Vault-Token"), namespace: r.Header.Get("X-Vault-Namespace"), certificate: len(r.TLS.PeerCertificates) > 0}
	_ = json.NewDecoder(r.Body).Decode(&s.body)
	w.mu.Lock()
	w.list = append(w.list, s)
	w.mu.Unlock()
	answer := map[string]any{"data": map[string]any{"disable_upsert": true}}
	if strings.HasSuffix(s.path, "/login") || strings.HasSuffix(s.path, "/renew-self") {
		answer = map[string]any{"auth": map[string]any{"client_token": "hvs.one", "lease_duration": w.lease, "renewable": true}}
	}
	_ = json.NewEncoder(out).Encode(answer)
}

// requests are those that arrived until now.
func (w *world) requests() []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]seen(nil), w.list...)
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name string, content []byte, mode os.FileMode) {
	w.t.Helper()
	if err := os.WriteFile(w.file(name), content, mode); err != nil {
		w.t.Fatal(err)
	}
}

// writeJWT writes one with these claims over good ones.
func (w *world) writeJWT(claims map[string]any) {
	w.t.Helper()
	all := map[string]any{"exp": time.Now().Add(time.Hour).Unix(), "iss": "issuer", "aud": "audience", "sub": "subject"}
	for name, value := range claims {
		all[name] = value
	}
	body, err := json.Marshal(all)
	if err != nil {
		w.t.Fatal(err)
	}
	enc := base64.RawURLEncoding.EncodeToString
	w.write("jwt", []byte(enc([]byte(`{"alg":"ES256"}`))+"."+enc(body)+"."+enc([]byte("x"))), 0o600)
}

// configuration is one for this world, with further lines, as the file would be
// read.
func (w *world) configuration(auth string) *config.Config {
	w.t.Helper()
	text := `
configVersion: v1alpha1
server: {socketGroup: "0"}
openbao: {address: "` + w.address + `", caCertFile: "` + w.file("ca.pem") + `", tlsServerName: bao.test, instanceId: bao-a, namespace: team, timeout: 3s}
transit:
  mountPath: transit/kms
  keyName: cluster-key
  keyIdScope: {providerName: bao-kms, clusterId: cluster-a, transitMountId: mount-a, keyLineageId: lineage-a}
auth:
  loginBeforeTokenExpiry: 2m
  tokenRenewalIncrement: 20m
` + auth
	c, err := config.Parse([]byte(text), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) jwt() *config.Config {
	w.t.Helper()
	return w.configuration(`
  jwt: {mountPath: auth/jwt-kms, role: kms-role, jwtFile: "` + w.file("jwt") + `", minRemainingTtl: 10m, clockSkewLeeway: 20s,
    expectedIssuer: issuer, expectedAudience: audience, expectedSubject: subject}
`)
}

func (w *world) cert() *config.Config {
	w.t.Helper()
	return w.configuration(`
  method: cert
  cert: {mountPath: auth/cert-kms, name: cert-role, certificateFile: "` + w.file("tls.crt") + `", keyFile: "` + w.file("tls.key") + `", minRemainingTtl: 48h}
`)
}
