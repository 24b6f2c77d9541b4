package conformance

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// ciphertextSize is the length of Transit's ciphertext of a plaintext: a prefix, and base64 of a nonce of 12 bytes, the data and a tag of
// 16 bytes.
func ciphertextSize(prefix, plaintext int) int { return prefix + (12+plaintext+16+2)/3*4 }

func plaintextSizes(t *testing.T, s *subject) {
	prefix := bytes.LastIndexByte(s.encrypt(t, plaintextOf(32)).Ciphertext, ':') + 1
	largest := 1
	for ciphertextSize(prefix, largest+1) < 1024 {
		largest++
	}
	t.Run("empty", func(t *testing.T) {
		s.untouched(t, func() {
			_, err := s.kms.Encrypt(limited(t), &kmsapi.EncryptRequest{Uid: uid()})
			s.refused(t, err, fault.FieldInvalid)
		})
	})
	for _, size := range []int{1, largest - 1, largest} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			s.touched(t, pathEncrypt, func() {
				r := s.encrypt(t, plaintextOf(size))
				if got, want := len(r.Ciphertext), ciphertextSize(prefix, size); got != want {
					t.Errorf("the ciphertext has %d bytes, want %d", got, want)
				}
			})
			plaintext := plaintextOf(size)
			s.decrypts(t, decryptRequest(s.encrypt(t, plaintext)), plaintext)
		})
	}
	for _, size := range []int{largest + 1, 2 * largest} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			_, err := s.kms.Encrypt(limited(t), &kmsapi.EncryptRequest{Plaintext: plaintextOf(size), Uid: uid()})
			s.refused(t, err, fault.ResponseOverLimit)
		})
	}
}

func decryptFieldSizes(t *testing.T, s *subject) {
	plaintext := plaintextOf(48)
	r := s.encrypt(t, plaintext)
	filled := func(total int) func(*kmsapi.DecryptRequest) {
		return func(r *kmsapi.DecryptRequest) {
			const key = "filler.example.com"
			size := len(key)
			for k, v := range r.Annotations {
				size += len(k) + len(v)
			}
			r.Annotations[key] = bytes.Repeat([]byte("x"), total-size)
		}
	}
	ciphertext := func(size int) func(*kmsapi.DecryptRequest) {
		return func(r *kmsapi.DecryptRequest) {
			r.Ciphertext = append(r.Ciphertext, bytes.Repeat([]byte("A"), size-len(r.Ciphertext))...)
		}
	}
	keyID := func(size int) func(*kmsapi.DecryptRequest) {
		return func(r *kmsapi.DecryptRequest) { r.KeyId = strings.Repeat("k", size) }
	}
	for _, c := range []struct {
		name   string
		change func(*kmsapi.DecryptRequest)
		want   fault.Cause
		sent   bool // it reaches Transit
	}{
		{"annotations of 32767 bytes", filled(32767), fault.None, true},
		{"annotations of 32768 bytes", filled(32768), fault.FieldInvalid, false},
		{"annotations of 32769 bytes", filled(32769), fault.FieldInvalid, false},
		{"no ciphertext", func(r *kmsapi.DecryptRequest) { r.Ciphertext = nil }, fault.FieldInvalid, false},
		{"ciphertext of 1023 bytes", ciphertext(1023), fault.CiphertextRefused, true},
		{"ciphertext of 1024 bytes", ciphertext(1024), fault.FieldInvalid, false},
		{"ciphertext of 1025 bytes", ciphertext(1025), fault.FieldInvalid, false},
		{"no key_id", keyID(0), fault.FieldInvalid, false},
		{"key_id of 1023 bytes", keyID(1023), fault.KeyIDMalformed, false},
		{"key_id of 1024 bytes", keyID(1024), fault.FieldInvalid, false},
		{"key_id of 1025 bytes", keyID(1025), fault.FieldInvalid, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := decryptRequest(r)
			c.change(request)
			s.decryptsAs(t, request, plaintext, c.want, c.sent)
		})
	}
}

// decryptsAs asserts what becomes of a Decrypt, and whether it reaches Transit.
func (s *subject) decryptsAs(t *testing.T, request *kmsapi.DecryptRequest, plaintext []byte, want fault.Cause, sent bool) {
	t.Helper()
	call := func() {
		t.Helper()
		if want == fault.None {
			s.decrypts(t, request, plaintext)
			return
		}
		_, err := s.kms.Decrypt(limited(t), request)
		s.refused(t, err, want)
	}
	if sent {
		s.touched(t, pathDecrypt, call)
	} else {
		s.untouched(t, call)
	}
}

func uidSizes(t *testing.T, s *subject) {
	plaintext := plaintextOf(32)
	request := decryptRequest(s.encrypt(t, plaintext))
	for _, c := range []struct {
		size int
		want fault.Cause
	}{{0, fault.None}, {1023, fault.None}, {1024, fault.None}, {1025, fault.FieldInvalid}} {
		t.Run(fmt.Sprintf("%d bytes", c.size), func(t *testing.T) {
			request.Uid = strings.Repeat("u", c.size)
			s.decryptsAs(t, request, plaintext, c.want, c.want == fault.None)
			if c.want == fault.None {
				return
			}
			s.untouched(t, func() {
				_, err := s.kms.Encrypt(limited(t), &kmsapi.EncryptRequest{Plaintext: plaintext, Uid: request.Uid})
				s.refused(t, err, c.want)
			})
		})
	}
}

// maxMessage is the largest message, in bytes, in either direction.
const maxMessage = 65536

func messageSizes(t *testing.T, s *subject) {
	plaintext := plaintextOf(32)
	decrypt := decryptRequest(s.encrypt(t, plaintext))
	for _, c := range []struct {
		method  string
		message proto.Message
	}{
		{"Status", &kmsapi.StatusRequest{}},
		{"Encrypt", &kmsapi.EncryptRequest{Plaintext: plaintext, Uid: uid()}},
		{"Decrypt", decrypt},
	} {
		for _, size := range []int{maxMessage - 1, maxMessage} {
			t.Run(fmt.Sprintf("%s of %d bytes", c.method, size), func(t *testing.T) {
				if _, err := s.send(limited(t), c.method, padded(t, c.message, size)); err != nil {
					t.Errorf("refused: %v", err)
				}
			})
		}
		for _, size := range []int{maxMessage + 1, 4 * maxMessage} {
			t.Run(fmt.Sprintf("%s of %d bytes", c.method, size), func(t *testing.T) {
				s.untouched(t, func() {
					_, err := s.send(limited(t), c.method, padded(t, c.message, size))
					// gRPC refuses it before anything is decoded, with its own words.
					st := grpcstatus.Convert(err)
					want := fmt.Sprintf("grpc: received message larger than max (%d vs. %d)", size, maxMessage)
					if st.Code() != codes.ResourceExhausted || st.Message() != want {
						t.Errorf("answered with %v; want %v: %s", err, codes.ResourceExhausted, want)
					}
				})
			})
		}
	}
	t.Run("Encrypt of a plaintext that fills it", func(t *testing.T) {
		message := appendField(nil, encryptPlaintext, string(plaintextOf(maxMessage-4)))
		if len(message) != maxMessage {
			t.Fatalf("the message has %d bytes", len(message))
		}
		_, err := s.send(limited(t), "Encrypt", message)
		s.refused(t, err, fault.ResponseOverLimit)
	})
}

func malformedMessages(t *testing.T, s *subject) {
	const bad = "bad \xff\xfe text"
	r := decryptRequest(s.encrypt(t, plaintextOf(32)))
	notUTF8 := func(field protowire.Number) []byte {
		return appendField(appendField(nil, encryptPlaintext, "0123456789"), field, bad)
	}
	valid := rawDecrypt(r, r.KeyId, "uid", "", "")
	for _, c := range []struct {
		name, method string
		message      []byte
	}{
		{"Encrypt, uid is not UTF-8", "Encrypt", notUTF8(encryptUID)},
		{"Encrypt, cut off", "Encrypt", appendField(nil, encryptPlaintext, "0123456789")[:8]},
		{"Encrypt, no protobuf", "Encrypt", []byte("\xff\xff\xff\xff")},
		{"Decrypt, key_id is not UTF-8", "Decrypt", rawDecrypt(r, bad, "uid", "", "")},
		{"Decrypt, uid is not UTF-8", "Decrypt", rawDecrypt(r, r.KeyId, bad, "", "")},
		{"Decrypt, annotation key is not UTF-8", "Decrypt", rawDecrypt(r, r.KeyId, "uid", bad, "value")},
		{"Decrypt, annotation value is not UTF-8", "Decrypt", rawDecrypt(r, r.KeyId, "uid", "note.example.com", bad)},
		{"Decrypt, cut off", "Decrypt", valid[:len(valid)-3]},
		{"Decrypt, no protobuf", "Decrypt", []byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")},
		{"Status, no protobuf", "Status", []byte("\xff\xff\xff\xff")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.untouched(t, func() {
				_, err := s.send(limited(t), c.method, c.message)
				s.refused(t, err, fault.FieldInvalid)
			})
		})
	}
	t.Run("the same put together well", func(t *testing.T) {
		if _, err := s.send(limited(t), "Decrypt", valid); err != nil {
			t.Errorf("refused: %v", err)
		}
	})
}
