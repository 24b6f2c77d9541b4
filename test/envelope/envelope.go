// Package envelope reads what kube-apiserver puts into etcd for an object that a
// KMS v2 provider encrypts: the prefix and the protobuf message after it, as the
// API server's envelope encryption writes them. It reads for the demo and the
// tests and decrypts nothing.
package envelope

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

const prefix = "k8s:enc:kms:v2:"

// Envelope is one encrypted object.
type Envelope struct {
	// Provider is the provider's name in the EncryptionConfiguration.
	Provider string
	KeyID    string
	// Data is the object, encrypted with a key that is derived from the seed.
	Data []byte
	// WrappedSeed is what our Encrypt answered with: Transit's ciphertext.
	WrappedSeed []byte
	Annotations map[string][]byte
}

// ErrPlain is returned for a value that is not encrypted by KMS v2.
var ErrPlain = errors.New("the value has no k8s:enc:kms:v2: prefix: it is not encrypted by a KMS v2 provider")

// Fields of the API server's EncryptedObject message.
const (
	fieldData        = 1
	fieldKeyID       = 2
	fieldWrappedSeed = 3
	fieldAnnotations = 4
)

// Parse takes a raw value from etcd apart.
func Parse(value []byte) (Envelope, error) {
	rest, ok := bytes.CutPrefix(value, []byte(prefix))
	if !ok {
		return Envelope{}, ErrPlain
	}
	name, message, ok := bytes.Cut(rest, []byte(":"))
	if !ok {
		return Envelope{}, errors.New("the prefix names no provider")
	}
	e := Envelope{Provider: string(name), Annotations: map[string][]byte{}}
	err := eachBytesField(message, func(field protowire.Number, b []byte) error {
		switch field {
		case fieldData:
			e.Data = b
		case fieldKeyID:
			e.KeyID = string(b)
		case fieldWrappedSeed:
			e.WrappedSeed = b
		case fieldAnnotations:
			return e.annotate(b)
		}
		return nil
	})
	return e, err
}

// annotate reads one map entry: key in field 1, value in field 2.
func (e *Envelope) annotate(entry []byte) error {
	var key string
	var value []byte
	err := eachBytesField(entry, func(field protowire.Number, b []byte) error {
		switch field {
		case 1:
			key = string(b)
		case 2:
			value = b
		}
		return nil
	})
	e.Annotations[key] = value
	return err
}

// eachBytesField calls f for every length-delimited field and skips the others.
func eachBytesField(message []byte, f func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("the message is damaged: %w", protowire.ParseError(n))
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
				return fmt.Errorf("the message is damaged: %w", protowire.ParseError(n))
			}
			message = message[n:]
			continue
		}
		b, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return fmt.Errorf("the message is damaged: %w", protowire.ParseError(n))
		}
		if err := f(field, b); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}
