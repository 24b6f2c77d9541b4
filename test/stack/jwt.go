package stack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"time"
)

// What the JWTs of an Issuer say, and what the role that Transit is set up with requires.
const (
	JWTIssuer   = "https://issuer.stack.test"
	JWTAudience = "openbao"
	JWTSubject  = "control-plane-node"
)

// Issuer signs JWTs (ES256) with a key of its own.
type Issuer struct {
	key *ecdsa.PrivateKey
}

// NewIssuer makes an issuer with a new key.
func NewIssuer() (*Issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the JWT issuer's key: %w", err)
	}
	return &Issuer{key: key}, nil
}

// PublicKeyPEM is what OpenBao verifies the JWTs with.
func (i *Issuer) PublicKeyPEM() (string, error) {
	der, err := x509.MarshalPKIXPublicKey(i.key.Public())
	if err != nil {
		return "", fmt.Errorf("encoding the JWT issuer's public key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}

// Mint signs a JWT: issuer, audience and subject as above, issued now, valid for an hour. A claim in overrides replaces the default; nil
// leaves it out.
func (i *Issuer) Mint(overrides map[string]any) (string, error) {
	now := time.Now()
	claims := map[string]any{
		"iss": JWTIssuer, "aud": JWTAudience, "sub": JWTSubject,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(claims, overrides)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encoding the JWT's claims: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + encode(payload)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, digest[:])
	if err != nil {
		return "", fmt.Errorf("signing a JWT: %w", err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + encode(signature), nil
}
