package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

func TestCertificateLimits(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		begins, ends time.Duration
		want         string // empty if accepted
	}{
		"begins now":         {0, 2 * day, ""},
		"begins in a second": {time.Second, 2 * day, "not valid yet"},
		"ends in a second":   {-day, time.Second, ""},
		"ends now":           {-day, 0, ""},
		"ended a second ago": {-day, -time.Second, "has expired"},
	} {
		cert := &x509.Certificate{
			NotBefore: now.Add(c.begins), NotAfter: now.Add(c.ends), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		err := checkCertificate(cert, now)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: refused: %v", name, err)
			}
			continue
		}
		assertFault(t, err, fault.LoginRejected, c.want)
		assertFault(t, err, fault.LoginRejected, fieldCert)
	}
}

// A certificate that ends soon is used, and said to end soon.
func TestCertificateThatEndsSoon(t *testing.T) {
	for name, c := range map[string]struct {
		left, minimum time.Duration
		warned        bool
	}{
		"enough":     {25 * time.Hour, 24 * time.Hour, false},
		"too little": {23 * time.Hour, 24 * time.Hour, true},
		"no minimum": {time.Minute, 0, false},
	} {
		m := newMaterial(t)
		m.issue(t, newAuthority(t), func(cert *x509.Certificate) { cert.NotAfter = time.Now().Add(c.left) })
		o := m.options()
		o.MinRemaining = c.minimum
		var log bytes.Buffer
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		if _, err := NewCert(nil, o).present(); err != nil {
			t.Errorf("%s: refused: %v", name, err)
		}
		if got := strings.Contains(log.String(), "auth.certificate"); got != c.warned {
			t.Errorf("%s: warned %v, want %v: %s", name, got, c.warned, &log)
		}
		if c.warned && !strings.Contains(log.String(), fieldMinimum) {
			t.Errorf("%s: the warning does not name the field: %s", name, &log)
		}
	}
}

func TestCertificateUsage(t *testing.T) {
	for name, c := range map[string]struct {
		usage   []x509.ExtKeyUsage
		unknown []asn1.ObjectIdentifier
		ok      bool
	}{
		"client":            {[]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, nil, true},
		"server and client": {[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, nil, true},
		"any":               {[]x509.ExtKeyUsage{x509.ExtKeyUsageAny}, nil, true},
		"none named":        {nil, nil, true},
		"server":            {[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, nil, false},
		"one of its own":    {nil, []asn1.ObjectIdentifier{{1, 2, 3}}, false},
	} {
		cert := &x509.Certificate{
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			ExtKeyUsage: c.usage, UnknownExtKeyUsage: c.unknown,
		}
		err := checkCertificate(cert, time.Now())
		if c.ok && err != nil {
			t.Errorf("%s: refused: %v", name, err)
		} else if !c.ok {
			assertFault(t, err, fault.LoginRejected, "clientAuth")
		}
	}
}

func TestKeyForms(t *testing.T) {
	ca := newAuthority(t)
	m := newMaterial(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ec := newKey(t).(*ecdsa.PrivateKey)
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key  crypto.Signer
		file []byte
	}{
		"RSA in PKCS#8":     {rsaKey, keyPEM(t, rsaKey)},
		"RSA in PKCS#1":     {rsaKey, block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey))},
		"ECDSA in PKCS#8":   {ec, keyPEM(t, ec)},
		"ECDSA in SEC 1":    {ec, block("EC PRIVATE KEY", sec1)},
		"ECDSA by openssl":  {ec, append(block("EC PARAMETERS", []byte{6, 0}), block("EC PRIVATE KEY", sec1)...)},
		"Ed25519 in PKCS#8": {ed, keyPEM(t, ed)},
		"text around":       {ec, []byte("canary\n" + string(keyPEM(t, ec)) + "canary\n")},
	} {
		cert := ca.client(t, c.key, nil)
		write(t, m.certFile, certPEM(cert), 0o644)
		write(t, m.keyFile, c.file, 0o640)
		certificate, notAfter, err := m.options().read(time.Now())
		if err != nil || !notAfter.Equal(cert.NotAfter) {
			t.Errorf("%s: until %v, %v", name, notAfter, err)
		}
		if printed := fmt.Sprintf("%v %+v %#v %s %d", certificate, certificate, certificate, certificate, certificate); printed != strings.TrimSpace(strings.Repeat("[redacted] ", 5)) {
			t.Errorf("%s prints as %q", name, printed)
		}
	}
}

// Each failure names the field or the file and the next step, prints nothing of
// the files and reaches nobody.
func TestCertLocalFailures(t *testing.T) {
	ca := newAuthority(t)
	key := newKey(t)
	cert := ca.client(t, key, nil)
	goodCert, goodKey := certPEM(cert, ca.cert), keyPEM(t, key)
	weird, err := x509.MarshalPKCS8PrivateKey(func() any {
		k, err := ecdhKey()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}())
	if err != nil {
		t.Fatal(err)
	}
	conn := closedConn(t)
	for name, c := range map[string]struct {
		cert, key         []byte
		certMode, keyMode os.FileMode
		want              []string
	}{
		"certificate missing":            {nil, goodKey, 0, 0o600, []string{fieldCert, "does not exist", "create it"}},
		"key missing":                    {goodCert, nil, 0o644, 0, []string{fieldKey, "does not exist", "create it"}},
		"certificate writable by group":  {goodCert, goodKey, 0o664, 0o600, []string{fieldCert, "chmod 0644"}},
		"certificate writable by others": {goodCert, goodKey, 0o646, 0o600, []string{fieldCert, "chmod 0644"}},
		"key readable by others":         {goodCert, goodKey, 0o644, 0o604, []string{fieldKey, "chmod 0600"}},
		"key writable by group":          {goodCert, goodKey, 0o644, 0o660, []string{fieldKey, "chmod 0640"}},
		"certificate empty":              {[]byte{}, goodKey, 0o644, 0o600, []string{fieldCert, "no certificate in it"}},
		"certificate is text":            {[]byte("canary"), goodKey, 0o644, 0o600, []string{fieldCert, "no certificate in it"}},
		"certificate damaged":            {goodCert[:len(goodCert)-40], goodKey, 0o644, 0o600, []string{fieldCert, "PEM block 2 is damaged", "write the file again"}},
		"certificate is noise":           {block("CERTIFICATE", []byte("canary")), goodKey, 0o644, 0o600, []string{fieldCert, "PEM block 1 cannot be parsed", "replace it"}},
		"chain is noise":                 {append(certPEM(cert), block("CERTIFICATE", []byte("canary"))...), goodKey, 0o644, 0o600, []string{fieldCert, "PEM block 2"}},
		"key in the certificate file":    {append(certPEM(cert), goodKey...), goodKey, 0o644, 0o600, []string{fieldCert, "PEM block 2 is no certificate", "leave only"}},
		"certificate too large":          {bytes.Repeat([]byte("x"), maxCertificateFile+1), goodKey, 0o644, 0o600, []string{fieldCert, "larger than"}},
		"key too large":                  {goodCert, bytes.Repeat([]byte("x"), maxKeyFile+1), 0o644, 0o600, []string{fieldKey, "larger than"}},
		"key empty":                      {goodCert, []byte{}, 0o644, 0o600, []string{fieldKey, "no private key in it"}},
		"key damaged":                    {goodCert, goodKey[:len(goodKey)-20], 0o644, 0o600, []string{fieldKey, "PEM block 1 is damaged"}},
		"key is noise":                   {goodCert, block("PRIVATE KEY", []byte("canary")), 0o644, 0o600, []string{fieldKey, "no private key that TLS can use"}},
		"key is a certificate":           {goodCert, goodCert, 0o644, 0o600, []string{fieldKey, "no private key that TLS can use"}},
		"key of another kind":            {goodCert, block("PRIVATE KEY", weird), 0o644, 0o600, []string{fieldKey, "RSA, ECDSA or Ed25519"}},
		"two keys":                       {goodCert, append(bytes.Clone(goodKey), goodKey...), 0o644, 0o600, []string{fieldKey, "PEM block 2 follows the key", "only one"}},
		"key encrypted":                  {goodCert, block("ENCRYPTED PRIVATE KEY", []byte("canary")), 0o644, 0o600, []string{fieldKey, "is encrypted", "without a passphrase"}},
		"key encrypted, old form": {goodCert, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,canary"}, Bytes: []byte("canary")}), 0o644, 0o600, []string{fieldKey, "is encrypted"}},
		"key of another certificate": {goodCert, keyPEM(t, newKey(t)), 0o644, 0o600, []string{fieldKey, fieldCert, "replace both"}},
		"chain before leaf":          {certPEM(ca.cert, cert), goodKey, 0o644, 0o600, []string{fieldKey, "before its chain"}},
		"expired": {certPEM(ca.client(t, key, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })), goodKey, 0o644, 0o600,
			[]string{fieldCert, "has expired", "replace the file"}},
		"a server's": {certPEM(ca.client(t, key, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })), goodKey, 0o644, 0o600,
			[]string{fieldCert, "clientAuth"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMaterial(t)
			if c.cert != nil {
				write(t, m.certFile, c.cert, c.certMode)
			}
			if c.key != nil {
				write(t, m.keyFile, c.key, c.keyMode)
			}
			login := NewCert(conn, m.options())
			_, loginErr := login.Login(t.Context())
			_, renewErr := login.Renew(t.Context(), openbao.NewSecret("canary"), time.Hour)
			for _, err := range []error{loginErr, renewErr, login.Check()} {
				for _, part := range c.want {
					assertFault(t, err, fault.LoginRejected, part)
				}
				if !isLocal(err) {
					t.Errorf("%v is not marked as local", err)
				}
				if err != nil && strings.Contains(err.Error(), "BEGIN") {
					t.Errorf("%q shows PEM", err)
				}
			}
			if at, used := login.NotAfter(); used {
				t.Errorf("a certificate until %v was used", at)
			}
		})
	}
	m := newMaterial(t)
	m.issue(t, ca, nil)
	for want, o := range map[string]CertOptions{
		"no path is given": {CertificateFile: "", KeyFile: m.keyFile},
		"is relative":      {CertificateFile: "client.crt", KeyFile: m.keyFile},
		"simplest form":    {CertificateFile: m.certFile, KeyFile: filepath.Dir(m.keyFile) + "/./client.key"},
		"symbolic link":    {CertificateFile: link(t, m.certFile), KeyFile: m.keyFile},
		"a symbolic link":  {CertificateFile: m.certFile, KeyFile: link(t, m.keyFile)},
		"regular file":     {CertificateFile: filepath.Dir(m.certFile), KeyFile: m.keyFile},
	} {
		assertFault(t, NewCert(conn, o).Check(), fault.LoginRejected, want)
	}
	if err := NewCert(conn, m.options()).Check(); err != nil {
		t.Errorf("good files are refused: %v", err)
	}
}

func link(t *testing.T, target string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func FuzzClientCertificate(f *testing.F) {
	ca := newAuthority(f)
	key := newKey(f)
	cert := ca.client(f, key, nil)
	f.Add(certPEM(cert, ca.cert), keyPEM(f, key))
	f.Add(certPEM(cert), append(block("EC PARAMETERS", []byte{6, 0}), keyPEM(f, key)...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----"), []byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"))
	f.Add([]byte{}, []byte{})
	now := time.Now()
	f.Fuzz(func(t *testing.T, certs, key []byte) {
		chain, leaf, err := parseChain(certs)
		switch {
		case err != nil:
			checkFuzzed(t, err)
		case leaf == nil || len(chain) == 0 || !bytes.Equal(chain[0], leaf.Raw):
			t.Errorf("a chain of %d certificates without its leaf", len(chain))
		default:
			if err := checkCertificate(leaf, now); err != nil {
				checkFuzzed(t, err)
			}
		}
		signer, err := parseKey(key)
		if err != nil {
			checkFuzzed(t, err)
		} else if signer == nil || signer.Public() == nil {
			t.Error("neither a key nor an error")
		}
	})
}

func checkFuzzed(t *testing.T, err error) {
	t.Helper()
	if fault.CauseOf(err) != fault.LoginRejected || !isLocal(err) || len(err.Error()) > 300 {
		t.Errorf("unexpected error %q", err)
	}
}
