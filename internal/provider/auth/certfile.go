package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/securefile"
)

// Largest accepted files in bytes: a chain of a dozen certificates, and any key.
const (
	maxCertificateFile = 256 << 10
	maxKeyFile         = 64 << 10
)

const (
	opCheckCert = "check the client certificate"

	fieldCert    = "auth.cert.certificateFile"
	fieldKey     = "auth.cert.keyFile"
	fieldMinimum = "auth.cert.minRemainingTtl"
)

// read reads both files and makes the local checks of design openbao, auth, at
// the moment now. Its errors name the field or the file and the next step.
func (o CertOptions) read(now time.Time) (openbao.ClientCertificate, time.Time, error) {
	var none openbao.ClientCertificate
	chain, leaf, err := o.readChain()
	if err != nil {
		return none, time.Time{}, err
	}
	if err := checkCertificate(leaf, now); err != nil {
		return none, time.Time{}, err
	}
	key, err := o.readKey()
	if err != nil {
		return none, time.Time{}, err
	}
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(leaf.PublicKey) {
		return none, time.Time{}, unusable("%s is not the key of the first certificate in %s: "+
			"replace both files together, and put the client's own certificate before its chain", fieldKey, fieldCert)
	}
	return openbao.NewClientCertificate(chain, key), leaf.NotAfter, nil
}

func (o CertOptions) readChain() ([][]byte, *x509.Certificate, error) {
	content, err := securefile.Read(o.CertificateFile, securefile.Rule{
		What:    "client certificate file (" + fieldCert + ")",
		Forbid:  securefile.PublicReadOnly,
		MaxSize: maxCertificateFile,
	})
	if err != nil {
		// securefile's text holds the path and the next step, never content.
		return nil, nil, unusable("%s", err.Error())
	}
	return parseChain(content)
}

func (o CertOptions) readKey() (crypto.Signer, error) {
	content, err := securefile.Read(o.KeyFile, securefile.Rule{
		What:    "client key file (" + fieldKey + ")",
		Forbid:  securefile.Private,
		MaxSize: maxKeyFile,
	})
	if err != nil {
		return nil, unusable("%s", err.Error())
	}
	defer clear(content)
	return parseKey(content)
}

// parseChain returns the certificates of a PEM file in their order, and the
// first of them, which is the client's own.
func parseChain(content []byte) (chain [][]byte, leaf *x509.Certificate, err error) {
	for n := 1; ; n++ {
		var block *pem.Block
		block, content = pem.Decode(content)
		switch {
		case block == nil && damaged(content):
			return nil, nil, unusable("%s: PEM block %d is damaged: write the file again", fieldCert, n)
		case block == nil && leaf == nil:
			return nil, nil, unusable("%s: no certificate in it: write the client's certificate there in PEM form", fieldCert)
		case block == nil:
			return chain, leaf, nil
		case block.Type != "CERTIFICATE":
			clear(block.Bytes) // it may be a key
			return nil, nil, unusable("%s: PEM block %d is no certificate: leave only certificates in the file", fieldCert, n)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, unusable("%s: the certificate in PEM block %d cannot be parsed: replace it", fieldCert, n)
		}
		if leaf == nil {
			leaf = certificate
		}
		chain = append(chain, block.Bytes)
	}
}

// parseKey returns the private key of a PEM file that holds one and nothing else.
func parseKey(content []byte) (key crypto.Signer, err error) {
	for n := 1; ; n++ {
		var block *pem.Block
		block, content = pem.Decode(content)
		switch {
		case block == nil && damaged(content):
			return nil, unusable("%s: PEM block %d is damaged: write the file again", fieldKey, n)
		case block == nil && key == nil:
			return nil, unusable("%s: no private key in it: write the client's key there in PEM form", fieldKey)
		case block == nil:
			return key, nil
		case block.Type == "EC PARAMETERS": // openssl writes it before the key
			continue
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			return nil, unusable("%s: the key is encrypted: write it without a passphrase, readable by the provider alone", fieldKey)
		case key != nil:
			clear(block.Bytes)
			return nil, unusable("%s: PEM block %d follows the key: leave only one private key in the file", fieldKey, n)
		}
		if key, err = parseKeyBlock(block); err != nil {
			return nil, unusable("%s: PEM block %d is no private key that TLS can use: write an RSA, ECDSA or Ed25519 key in PKCS#8 form", fieldKey, n)
		}
	}
}

func parseKeyBlock(block *pem.Block) (crypto.Signer, error) {
	defer clear(block.Bytes)
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		err = fmt.Errorf("a block of another type")
	}
	if err != nil {
		return nil, err
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		return key, nil
	case ed25519.PrivateKey:
		return key, nil
	}
	return nil, fmt.Errorf("a key of another kind")
}

// damaged reports whether what pem.Decode did not take begins a block.
func damaged(rest []byte) bool { return bytes.Contains(rest, []byte("-----BEGIN")) }

// checkCertificate makes the checks that need no key. A certificate that names
// no extended usage may be used for any (RFC 5280), and OpenBao takes it.
func checkCertificate(c *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(c.NotBefore):
		return unusable("%s: the certificate is not valid yet: correct this host's clock, or issue another", fieldCert)
	case now.After(c.NotAfter):
		return unusable("%s: the certificate has expired: replace the file and %s, or correct this host's clock", fieldCert, fieldKey)
	case !mayAuthenticateClient(c):
		return unusable("%s: the certificate's extended key usage does not allow client authentication: issue one with clientAuth", fieldCert)
	}
	return nil
}

func mayAuthenticateClient(c *x509.Certificate) bool {
	if len(c.ExtKeyUsage) == 0 && len(c.UnknownExtKeyUsage) == 0 {
		return true
	}
	return slices.ContainsFunc(c.ExtKeyUsage, func(u x509.ExtKeyUsage) bool {
		return u == x509.ExtKeyUsageClientAuth || u == x509.ExtKeyUsageAny
	})
}

func unusable(format string, args ...any) error { return local(opCheckCert, format, args...) }

// local is a credential that failed its local check: nothing was sent.
func local(op, format string, args ...any) error {
	f := fault.New(fault.LoginRejected, op, format, args...)
	f.Err = errLocal
	return f
}
