package kms

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// The limits of KMS v2 and of this provider, in bytes (handbook: kms-v2-contract,
// limits). "below" means that the value itself is too much.
const (
	maxMessage       = 65536 // a gRPC message, in either direction
	belowCiphertext  = 1024
	belowKeyID       = 1024
	belowAnnotations = 32768 // keys and values together
	maxUID           = 1024  // ours: the contract sets none

	// maxPlaintext is what fits a DecryptResponse of maxMessage bytes: one byte
	// for the field's tag and three for its length come on top.
	maxPlaintext = maxMessage - 4
)

func invalid(op, detail string) error { return fault.New(fault.FieldInvalid, op, "%s", detail) }

// checkEncryptRequest bounds an Encrypt request. The plaintext's upper bound is
// that of the message.
func checkEncryptRequest(req *kmsapi.EncryptRequest) error {
	if len(req.Plaintext) == 0 {
		return invalid(opEncrypt, "plaintext is empty")
	}
	return checkUID(opEncrypt, req.Uid)
}

// checkDecryptRequest bounds a Decrypt request: sizes first, then UTF-8.
func checkDecryptRequest(req *kmsapi.DecryptRequest) error {
	switch {
	case len(req.Ciphertext) == 0:
		return invalid(opDecrypt, "ciphertext is empty")
	case len(req.Ciphertext) >= belowCiphertext:
		return invalid(opDecrypt, "ciphertext has 1024 bytes or more")
	case len(req.KeyId) == 0:
		return invalid(opDecrypt, "key_id is empty")
	case len(req.KeyId) >= belowKeyID:
		return invalid(opDecrypt, "key_id has 1024 bytes or more")
	case annotationsSize(req.Annotations) >= belowAnnotations:
		return invalid(opDecrypt, "annotations have 32768 bytes or more")
	case !utf8.ValidString(req.KeyId):
		return invalid(opDecrypt, "key_id is not valid UTF-8")
	}
	for key, value := range req.Annotations {
		if !utf8.ValidString(key) || !utf8.Valid(value) {
			return invalid(opDecrypt, "an annotation is not valid UTF-8")
		}
	}
	return checkUID(opDecrypt, req.Uid)
}

func checkUID(op, uid string) error {
	switch {
	case len(uid) > maxUID:
		return invalid(op, "uid has more than 1024 bytes")
	case !utf8.ValidString(uid):
		return invalid(op, "uid is not valid UTF-8")
	}
	return nil
}

func annotationsSize(annotations map[string][]byte) (size int) {
	for key, value := range annotations {
		size += len(key) + len(value)
	}
	return size
}

// checkAnswer holds what Transit made of an Encrypt against the limits that the
// API server will apply, and against the version that was asked for.
func checkAnswer(ciphertext []byte, version int) error {
	over := func(detail string) error { return fault.New(fault.ResponseOverLimit, opEncrypt, "%s", detail) }
	switch {
	case len(ciphertext) == 0:
		return over("the ciphertext is empty")
	case len(ciphertext) >= belowCiphertext:
		return over("the ciphertext has 1024 bytes or more: the plaintext is too large for KMS v2")
	}
	switch got := ciphertextVersion(ciphertext); got {
	case version:
		return nil
	case 0:
		return over("the ciphertext has no version prefix")
	default:
		return fault.New(fault.ResponseOverLimit, opEncrypt, "the ciphertext is of Transit version %d, version %d was asked for", got, version)
	}
}

// checkPlaintext holds what Transit made of a Decrypt against the limits. What
// this provider encrypted was never empty.
func checkPlaintext(plaintext []byte) error {
	switch {
	case len(plaintext) == 0:
		return fault.New(fault.ResponseOverLimit, opDecrypt, "the plaintext is empty")
	case len(plaintext) > maxPlaintext:
		return fault.New(fault.ResponseOverLimit, opDecrypt, "the plaintext does not fit a message of 65536 bytes")
	}
	return nil
}

// maxVersionDigits keeps a version within an int everywhere.
const maxVersionDigits = 9

// ciphertextVersion is N of a ciphertext "vault:vN:…", or 0 when the prefix is
// anything else, N has a leading zero, or nothing follows.
func ciphertextVersion(ciphertext []byte) int {
	rest, found := bytes.CutPrefix(ciphertext, []byte("vault:v"))
	if !found {
		return 0
	}
	end := bytes.IndexByte(rest, ':')
	if end < 1 || end > maxVersionDigits || end == len(rest)-1 || rest[0] == '0' {
		return 0
	}
	for _, digit := range rest[:end] {
		if digit < '0' || digit > '9' {
			return 0
		}
	}
	version, err := strconv.Atoi(string(rest[:end]))
	if err != nil {
		return 0
	}
	return version
}
