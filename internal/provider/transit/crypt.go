package transit

import (
	"bytes"
	"context"
	"encoding/base64"
	"strconv"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// MaxCiphertext is the size in bytes that a ciphertext must stay below (design:
// kms-service, encrypt; the KMS v2 contract's limits).
const MaxCiphertext = 1024

// Pieces of the request bodies. Their lengths with base64 and a decimal number
// are what a buffer is asked for, so that it never grows.
const (
	bodyPlaintext  = `{"plaintext":"`
	bodyVersion    = `","key_version":`
	bodyCiphertext = `{"ciphertext":"`
	bodyAAD        = `,"associated_data":"`
	bodyQuote      = `"`
	bodyEnd        = `"}`
	maxDecimal     = 20
)

// Encrypt encrypts plaintext under exactly the binding's version with its
// associated data, and returns the ciphertext: shorter than MaxCiphertext, with
// the prefix of that version.
func (c *Client) Encrypt(ctx context.Context, k Binding, plaintext []byte) ([]byte, error) {
	if len(plaintext) == 0 {
		return nil, fault.New(fault.FieldInvalid, openbao.Encrypt.Words(), "there is no plaintext")
	}
	answer, err := c.call(ctx, &c.encrypt, func() *openbao.Buffer { return encryptBody(k, plaintext) })
	if err != nil {
		return nil, err
	}
	defer answer.Release()
	return decodeEncrypt(answer.B, k.Version())
}

func encryptBody(k Binding, plaintext []byte) *openbao.Buffer {
	aad := k.AssociatedDataBase64()
	b := openbao.NewBuffer(encryptRoom(len(plaintext), len(aad)))
	b.B = append(b.B, bodyPlaintext...)
	b.B = base64.StdEncoding.AppendEncode(b.B, plaintext)
	b.B = append(b.B, bodyVersion...)
	b.B = strconv.AppendInt(b.B, int64(k.Version()), 10)
	b.B = append(b.B, bodyAAD...)
	b.B = append(b.B, aad...)
	b.B = append(b.B, bodyEnd...)
	return b
}

// encryptRoom and decryptRoom are at least the sizes of the bodies, given the
// sizes of their variable parts.
func encryptRoom(plaintext, aad int) int {
	return len(bodyPlaintext) + base64.StdEncoding.EncodedLen(plaintext) + len(bodyVersion) + maxDecimal +
		len(bodyAAD) + aad + len(bodyEnd)
}

func decryptRoom(ciphertext, aad int) int {
	return len(bodyCiphertext) + ciphertext + len(bodyQuote) + len(bodyAAD) + aad + len(bodyEnd)
}

// checkCiphertext makes the checks of design kms-service, encrypt.
func checkCiphertext(ciphertext []byte, version int) error {
	if len(ciphertext) >= MaxCiphertext {
		return fault.New(fault.ResponseOverLimit, openbao.Encrypt.Words(),
			"the ciphertext has %d bytes and must have fewer than %d", len(ciphertext), MaxCiphertext)
	}
	var room [32]byte // on the stack: this runs for every Encrypt
	prefix := strconv.AppendInt(append(room[:0], "vault:v"...), int64(version), 10)
	prefix = append(prefix, ':')
	rest, ok := bytes.CutPrefix(ciphertext, prefix)
	switch {
	case !ok:
		return nonsense(openbao.Encrypt, "the ciphertext does not carry the key version that was asked for: "+
			"check that transit.mountPath is a Transit mount and nothing in between changes answers")
	case len(rest) == 0 || !isCiphertext(rest):
		return nonsense(openbao.Encrypt, "the ciphertext is empty or not in Transit's form: check what answers at openbao.address")
	}
	return nil
}

// isCiphertext reports whether b consists of what Transit's ciphertexts consist
// of: the prefix's characters and base64. Such bytes need no escaping in JSON.
func isCiphertext(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == ':', c == '+', c == '/', c == '=':
		default:
			return false
		}
	}
	return true
}

// Decrypt decrypts a ciphertext with the binding's associated data. The result
// is fresh memory that the caller owns and should overwrite after use.
//
// What Transit refuses is fault.CiphertextRefused; so is, without asking it, a
// ciphertext that is not in its form. That the ciphertext carries the binding's
// version is the caller's check (design: identity, order of checks).
func (c *Client) Decrypt(ctx context.Context, k Binding, ciphertext []byte) ([]byte, error) {
	if len(ciphertext) == 0 || !isCiphertext(ciphertext) {
		return nil, fault.New(fault.CiphertextRefused, openbao.Decrypt.Words(), "it is not in Transit's form")
	}
	answer, err := c.call(ctx, &c.decrypt, func() *openbao.Buffer { return decryptBody(k, ciphertext) })
	if err != nil {
		return nil, err
	}
	// The answer holds the plaintext: Release overwrites it.
	defer answer.Release()
	return decodeDecrypt(answer.B)
}

func decryptBody(k Binding, ciphertext []byte) *openbao.Buffer {
	aad := k.AssociatedDataBase64()
	b := openbao.NewBuffer(decryptRoom(len(ciphertext), len(aad)))
	b.B = append(b.B, bodyCiphertext...)
	b.B = append(b.B, ciphertext...)
	b.B = append(b.B, bodyQuote...)
	b.B = append(b.B, bodyAAD...)
	b.B = append(b.B, aad...)
	b.B = append(b.B, bodyEnd...)
	return b
}
