package stack

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// CA is a throw-away certificate authority (ECDSA P-256). Its files and those of what it issues are in one directory, mode 0600.
type CA struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	// onceMu guards issued, which holds what once has issued.
	onceMu sync.Mutex
	issued map[string]Pair
}

// Pair are the PEM files of a certificate and its key (PKCS #8).
type Pair struct {
	CertFile string
	KeyFile  string
}

// CertRequest says what certificate to issue. The zero value is a client certificate for nobody, valid for a day.
type CertRequest struct {
	CommonName    string
	Organizations []string
	// Hosts makes it a server's certificate as well: names or IP addresses.
	Hosts []string
	// Lifetime is how long it is valid from now; 0 is 24 h. Negative gives one that has expired.
	Lifetime time.Duration
}

// NewCA makes a CA whose files are in dir, which is made (mode 0700) when it is not there.
func NewCA(dir string) (*CA, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the CA's directory: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the CA's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "throw-away test CA"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(48 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the CA's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the CA's certificate back: %w", err)
	}
	ca := &CA{dir: dir, cert: cert, key: key, issued: map[string]Pair{}}
	return ca, writePEM(ca.CertFile(), "CERTIFICATE", der)
}

// CertFile is the CA's certificate.
func (ca *CA) CertFile() string { return filepath.Join(ca.dir, "ca.crt") }

// Pool holds the CA's certificate only.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// Issue writes a new certificate and key as name.crt and name.key, over what was there under that name.
func (ca *CA) Issue(name string, r CertRequest) (Pair, error) {
	pair := Pair{CertFile: filepath.Join(ca.dir, name+".crt"), KeyFile: filepath.Join(ca.dir, name+".key")}
	template, err := r.template()
	if err != nil {
		return Pair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making the key of certificate %s: %w", name, err)
	}
	// As real authorities do. OpenBao binds a token to it.
	if template.SubjectKeyId, err = keyID(key.Public()); err != nil {
		return Pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing certificate %s: %w", name, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encoding the key of certificate %s: %w", name, err)
	}
	if err := writePEM(pair.KeyFile, "PRIVATE KEY", keyDER); err != nil {
		return Pair{}, err
	}
	return pair, writePEM(pair.CertFile, "CERTIFICATE", der)
}

// keyID names a public key in certificates.
func keyID(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a certificate's public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return sum[:20], nil
}

// once issues a certificate unless one of that name is there.
func (ca *CA) once(name string, r CertRequest) (Pair, error) {
	ca.onceMu.Lock()
	defer ca.onceMu.Unlock()
	if pair, ok := ca.issued[name]; ok {
		return pair, nil
	}
	pair, err := ca.Issue(name, r)
	if err != nil {
		return Pair{}, err
	}
	ca.issued[name] = pair
	return pair, nil
}

// server issues a certificate for a server on loopback that also answers to the names.
func (ca *CA) server(name string, names ...string) (Pair, error) {
	return ca.Issue(name, CertRequest{CommonName: name, Hosts: append([]string{"127.0.0.1", "::1", "localhost"}, names...)})
}

func (r CertRequest) template() (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	lifetime := r.Lifetime
	if lifetime == 0 {
		lifetime = 24 * time.Hour
	}
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: r.CommonName, Organization: r.Organizations},
		NotBefore:    time.Now().Add(min(0, lifetime) - time.Hour),
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, host := range r.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	if len(r.Hosts) > 0 {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return t, nil
}

func writePEM(file, kind string, der []byte) error {
	return writeFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// writeFile replaces a file as a whole, mode 0600, so that a server that reads it meanwhile sees the old or the new one.
func writeFile(file string, content []byte) error {
	temporary := file + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(file), err)
	}
	if err := os.Rename(temporary, file); err != nil {
		return fmt.Errorf("putting %s in place: %w", filepath.Base(file), err)
	}
	return nil
}
