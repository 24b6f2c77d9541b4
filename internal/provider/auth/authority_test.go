package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority is a throw-away CA.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "canary CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10 * 365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = sign(t, template, template, a.key.Public(), a.key)
	return a
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// client issues a client certificate for a key, changed by edit.
func (a *authority) client(t testing.TB, key crypto.Signer, edit func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "canary-client"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if edit != nil {
		edit(template)
	}
	return sign(t, template, a.cert, key.Public(), a.key)
}

// server issues a server certificate for bao.test.
func (a *authority) server(t testing.TB) tls.Certificate {
	t.Helper()
	key := newKey(t)
	cert := a.client(t, key, func(c *x509.Certificate) {
		c.DNSNames, c.ExtKeyUsage = []string{"bao.test"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func certPEM(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

func keyPEM(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func write(t testing.TB, path string, content []byte, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// material is a pair of files.
type material struct{ certFile, keyFile string }

func newMaterial(t testing.TB) material {
	t.Helper()
	dir := t.TempDir()
	return material{filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")}
}

// issue writes a new certificate of the CA and its key, and returns it.
func (m material) issue(t testing.TB, ca *authority, edit func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	key := newKey(t)
	cert := ca.client(t, key, edit)
	write(t, m.certFile, certPEM(cert, ca.cert), 0o644)
	write(t, m.keyFile, keyPEM(t, key), 0o600)
	return cert
}

func (m material) options() CertOptions {
	return CertOptions{
		MountPath: "auth/canary-mount", Name: canaryRole,
		CertificateFile: m.certFile, KeyFile: m.keyFile, MinRemaining: 24 * time.Hour,
	}
}
