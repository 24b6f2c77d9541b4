package transit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/baokms/baokms/internal/provider/openbao"
)

// required is a JSON field that must be there exactly once and not be null.
// encoding/json alone would take the last of several and leave a missing one
// at zero.
type required[T any] struct {
	set   bool
	value T
}

// shapeError says what is wrong with an answer, in words of this package only.
type shapeError string

func (e shapeError) Error() string { return string(e) }

func (r *required[T]) UnmarshalJSON(b []byte) error {
	if err := r.once(b); err != nil {
		return err
	}
	return json.Unmarshal(b, &r.value)
}

func (r *required[T]) once(b []byte) error {
	switch {
	case r.set:
		return shapeError("a field appears twice")
	case isNull(b):
		return shapeError("a field is null")
	}
	r.set = true
	return nil
}

func isNull(b []byte) bool { return string(b) == "null" }

// requiredText is a required string as bytes in fresh memory.
type requiredText struct{ required[[]byte] }

func (r *requiredText) UnmarshalJSON(b []byte) error {
	if err := r.once(b); err != nil {
		return err
	}
	if text, ok := plainString(b); ok {
		r.value = bytes.Clone(text)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	r.value = []byte(s)
	return nil
}

// requiredBase64 is a required string of base64, decoded into fresh memory.
type requiredBase64 struct{ required[[]byte] }

func (r *requiredBase64) UnmarshalJSON(b []byte) error {
	if err := r.once(b); err != nil {
		return err
	}
	text, ok := plainString(b)
	if !ok {
		return json.Unmarshal(b, &r.value)
	}
	// Exactly as much memory as the content needs, so that the caller can
	// overwrite all of it.
	value := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(value, text)
	if err != nil {
		clear(value)
		return shapeError("a field is not base64")
	}
	r.value = value[:n]
	return nil
}

// plainString returns the content of a JSON string without escapes, which is
// how OpenBao writes base64. It lies in b.
func plainString(b []byte) ([]byte, bool) {
	if len(b) < 2 || b[0] != '"' || bytes.IndexByte(b, '\\') >= 0 {
		return nil, false
	}
	return b[1 : len(b)-1], true
}

// decode unmarshals an answer. encoding/json's errors may quote the answer and
// are dropped.
func decode(op openbao.Operation, answer []byte, into any) error {
	err := json.Unmarshal(answer, into)
	if err == nil {
		return nil
	}
	why := shapeError("it is not the JSON that was expected")
	errors.As(err, &why)
	return nonsense(op, "%s: check what answers at openbao.address", string(why))
}

func missing(op openbao.Operation, field string) error {
	return nonsense(op, "the answer has no field %s: check what answers at openbao.address", field)
}

func decodeEncrypt(answer []byte, version int) ([]byte, error) {
	var a struct {
		Data struct {
			Ciphertext requiredText `json:"ciphertext"`
		} `json:"data"`
	}
	if err := decode(openbao.Encrypt, answer, &a); err != nil {
		return nil, err
	}
	ciphertext := a.Data.Ciphertext
	if !ciphertext.set {
		return nil, missing(openbao.Encrypt, "data.ciphertext")
	}
	if err := checkCiphertext(ciphertext.value, version); err != nil {
		return nil, err
	}
	return ciphertext.value, nil
}

func decodeDecrypt(answer []byte) ([]byte, error) {
	var a struct {
		Data struct {
			Plaintext requiredBase64 `json:"plaintext"`
		} `json:"data"`
	}
	if err := decode(openbao.Decrypt, answer, &a); err != nil {
		clear(a.Data.Plaintext.value)
		return nil, err
	}
	plaintext := a.Data.Plaintext
	switch {
	case !plaintext.set:
		return nil, missing(openbao.Decrypt, "data.plaintext")
	case len(plaintext.value) == 0:
		// Nothing empty is ever encrypted.
		return nil, nonsense(openbao.Decrypt, "the plaintext in the answer is empty: check what answers at openbao.address")
	}
	return plaintext.value, nil
}
