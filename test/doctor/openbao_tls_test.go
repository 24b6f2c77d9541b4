package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/test/conformance/interpose"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// between puts a proxy between the node and its Transit, with a certificate of this life from an authority of that life.
func (w *world) between(t *testing.T, life, authority time.Duration) {
	t.Helper()
	certificate, ca := issue(t, w.transit.ServerName(), life, authority)
	w.proxy = interpose.Start(t, interpose.Upstream{
		Address: w.transit.Address(), Roots: w.transit.CA().Pool(), ServerName: w.transit.ServerName(), Certificate: certificate,
	})
	file := filepath.Join(w.files.Dir, "proxy-ca.crt")
	must(t, os.WriteFile(file, ca, 0o600))
	w.configure(t, map[string]any{"openbao.address": w.proxy.Address(), "openbao.caCertFile": file})
}

// issue makes a server's certificate and the authority that it is from, as PEM. Both are half a year old.
func issue(t *testing.T, name string, life, authority time.Duration) (tls.Certificate, []byte) {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	begin := time.Now().Add(-year / 2)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "doctor's authority"}, NotBefore: begin, NotAfter: time.Now().Add(authority),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca, err := x509.CreateCertificate(rand.Reader, root, root, caKey.Public(), caKey)
	must(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotBefore: begin, NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), caKey)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})
}

// year is the life of a certificate that nobody has to think of.
const year = 365 * 24 * time.Hour

// TestOpenBaoTLS breaks what secures the connection. The host is reachable all the same.
func TestOpenBaoTLS(t *testing.T) {
	t.Parallel()
	shared := stacktest.Transit(t, stack.TransitOptions{Mount: mount, Key: key})
	other := stacktest.CA(t)
	plain := listener(t)
	go func() { // ends with the listener
		_ = (&http.Server{ReadHeaderTimeout: time.Second}).Serve(plain)
	}()
	for _, c := range []struct {
		name   string
		fields map[string]any
		spoil  func(t *testing.T, w *world)
		words  []string
	}{
		{name: "another authority", fields: map[string]any{"openbao.caCertFile": other.CertFile()}, words: []string{"no certificate in openbao.caCertFile has signed", "put its CA into that file"}},
		{name: "another name", fields: map[string]any{"openbao.tlsServerName": "elsewhere.stack.test"}, words: []string{"openbao.tlsServerName"}},
		{name: "no TLS", fields: map[string]any{"openbao.address": "https://" + plain.Addr().String()}, words: []string{"does not speak TLS", "openbao.address"}},
		{name: "an old TLS", spoil: func(t *testing.T, w *world) {
			certificate, ca := issue(t, w.transit.ServerName(), year, year)
			old := tls.NewListener(listener(t), &tls.Config{Certificates: []tls.Certificate{certificate}, MaxVersion: tls.VersionTLS11})
			go func() { // ends with the listener
				_ = (&http.Server{ReadHeaderTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0)}).Serve(old)
			}()
			file := filepath.Join(w.files.Dir, "old-ca.crt")
			must(t, os.WriteFile(file, ca, 0o600))
			w.configure(t, map[string]any{"openbao.address": "https://" + old.Addr().String(), "openbao.caCertFile": file})
		}, words: []string{"TLS 1.2 or newer"}},
		{name: "expired", spoil: func(t *testing.T, w *world) { w.between(t, -time.Hour, year) }, words: []string{"has expired"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNode(t, shared, worldOptions{fields: c.fields})
			if c.spoil != nil {
				c.spoil(t, w)
			}
			r := examine(t, w)
			expect(t, r, "openbao.tls", command.Fail, "openbao_tls_failed", c.words...)
			onlyFails(t, r, "openbao.tls")
			passes(t, r, "openbao.reachable", "auth.material")
			skippedBecause(t, r, "clock.skew", "openbao.tls")
			skippedBecause(t, r, "auth.login", "openbao.tls")
		})
	}
	const soon = 10*24*time.Hour + time.Hour
	for _, c := range []struct {
		name            string
		life, authority time.Duration
		reason          string
		words           []string
	}{
		{"ends soon", soon, year, "certificate_expires_soon", []string{"OpenBao's certificate ends in 10 days", "renewed"}},
		{"the authority ends soon", year, soon, "authority_expires_soon", []string{"the authority in openbao.caCertFile", "ends in 10 days", "on every node"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNode(t, shared, worldOptions{})
			w.between(t, c.life, c.authority)
			r := examine(t, w)
			expect(t, r, "openbao.tls", command.Warn, c.reason, c.words...)
			onlyFails(t, r, "openbao.tls")
			passes(t, r, "auth.login", "transit.key")
		})
	}
}

// TestCAFile breaks the file of the authorities: no way to OpenBao can even be opened.
func TestCAFile(t *testing.T) {
	t.Parallel()
	shared := stacktest.Transit(t, stack.TransitOptions{Mount: mount, Key: key})
	good, err := os.ReadFile(shared.CAFile())
	must(t, err)
	for _, c := range []struct {
		name  string
		write func(t *testing.T, path string)
		words []string
	}{
		{"missing", func(*testing.T, string) {}, []string{"openbao.caCertFile does not exist; put the PEM of the authority"}},
		{"empty", content("", 0o600), []string{"openbao.caCertFile: no certificate in it"}},
		{"no PEM", content("CA", 0o600), []string{"openbao.caCertFile: no certificate in it"}},
		{"damaged", content(string(good[:len(good)-40]), 0o600), []string{"PEM block 1 is damaged"}},
		{"for everybody to write", content(string(good), 0o666), []string{"openbao.caCertFile has mode 0666", "run chmod 0644 on it"}},
		{"of another user", func(t *testing.T, path string) {
			content(string(good), 0o600)(t, path)
			must(t, os.Chown(path, 12345, -1))
		}, []string{"belongs to user 12345", "run this command as the provider's user"}},
		{"a link", func(t *testing.T, path string) { must(t, os.Symlink(shared.CAFile(), path)) }, []string{"is a symbolic link"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNode(t, shared, worldOptions{})
			path := filepath.Join(w.files.Dir, "ca.pem")
			c.write(t, path)
			w.configure(t, map[string]any{"openbao.caCertFile": path})
			r := examine(t, w)
			expect(t, r, "openbao.tls", command.Fail, "ca_file_unusable", c.words...)
			onlyFails(t, r, "openbao.tls")
			for _, id := range []string{"openbao.reachable", "clock.skew", "auth.material", "auth.login"} {
				skippedBecause(t, r, id, "openbao.tls")
			}
		})
	}
}

// content writes a file.
func content(text string, mode os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		must(t, os.WriteFile(path, []byte(text), mode))
		must(t, os.Chmod(path, mode)) // whatever the umask is
	}
}
