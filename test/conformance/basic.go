package conformance

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

func healthyStatus(t *testing.T, s *subject) {
	first := s.status(t)
	for range 50 {
		if r := s.status(t); r.KeyId != first.KeyId {
			t.Fatalf("key_id changed from %q to %q without a rotation", first.KeyId, r.KeyId)
		}
	}
}

// domainName is what the API server demands of an annotation's key: labels of DNS-1123, two at least.
var domainName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.?$`)

// checkEncrypted holds an Encrypt response against the limits of KMS v2.
func checkEncrypted(t *testing.T, r *kmsapi.EncryptResponse, plaintext []byte) {
	t.Helper()
	if n := len(r.Ciphertext); n < 1 || n >= 1024 {
		t.Errorf("the ciphertext has %d bytes; want 1 to 1023", n)
	}
	if n := len(r.KeyId); n < 1 || n >= 1024 {
		t.Errorf("the key_id has %d bytes; want 1 to 1023", n)
	}
	size := 0
	for key, value := range r.Annotations {
		size += len(key) + len(value)
		if len(key) > 253 || !domainName.MatchString(key) {
			t.Errorf("the annotation key %q is not a fully qualified domain name", key)
		}
		if !utf8.Valid(value) {
			t.Errorf("the annotation %s is not valid UTF-8", key)
		}
	}
	if size >= 32768 {
		t.Errorf("the annotations have %d bytes; want fewer than 32768", size)
	}
	// A short plaintext can be in there by chance.
	if len(plaintext) >= 8 {
		if text := r.String(); bytes.Contains(r.Ciphertext, plaintext) || strings.Contains(text, string(plaintext)) {
			t.Error("the response holds the plaintext")
		}
	}
}

func encryptWithinLimits(t *testing.T, s *subject) {
	for _, size := range []int{1, 2, 16, 32, 48, 64, 128, 256} {
		before := s.status(t).KeyId
		if r := s.encrypt(t, plaintextOf(size)); r.KeyId != before {
			t.Errorf("Encrypt of %d bytes names key_id %q, Status %q", size, r.KeyId, before)
		}
		if after := s.status(t).KeyId; after != before {
			t.Errorf("key_id changed from %q to %q without a rotation", before, after)
		}
	}
}

func roundTrips(t *testing.T, s *subject) {
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	plaintexts := [][]byte{{0}, {0xff}, make([]byte, 32), everyByte, []byte("vault:v1:AAAA"), []byte("\xff\xfe no text"), plaintextOf(32), plaintextOf(300)}
	for i, plaintext := range plaintexts {
		t.Run(fmt.Sprintf("plaintext %d", i), func(t *testing.T) {
			r := s.encrypt(t, plaintext)
			s.decrypts(t, decryptRequest(r), plaintext)
			// Again, as an API server does after its restart; without a uid too.
			again := decryptRequest(r)
			again.Uid = ""
			s.decrypts(t, again, plaintext)
		})
	}
}

func concurrentRoundTrips(t *testing.T, s *subject) {
	keyID := s.status(t).KeyId
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 10 {
				plaintext := plaintextOf(64)
				r, err := s.kms.Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: plaintext, Uid: uid()})
				if err != nil {
					t.Errorf("Encrypt: %v", err)
					return
				}
				if r.KeyId != keyID {
					t.Errorf("key_id %q, Status names %q", r.KeyId, keyID)
				}
				d, err := s.kms.Decrypt(t.Context(), decryptRequest(r))
				if err != nil || !bytes.Equal(d.Plaintext, plaintext) {
					t.Errorf("Decrypt does not give back what this caller encrypted (error %v)", err)
				}
			}
		})
	}
	callers.Wait()
}

func refusedFields(t *testing.T, s *subject) {
	r := s.encrypt(t, plaintextOf(32))
	filler := map[string][]byte{"filler.example.com": bytes.Repeat([]byte("x"), 32768)}
	for _, c := range []struct {
		name   string
		change func(*kmsapi.DecryptRequest)
	}{
		{"empty ciphertext", func(r *kmsapi.DecryptRequest) { r.Ciphertext = nil }},
		{"ciphertext of 1024 bytes", func(r *kmsapi.DecryptRequest) {
			r.Ciphertext = append(r.Ciphertext, bytes.Repeat([]byte("A"), 1024-len(r.Ciphertext))...)
		}},
		{"empty key_id", func(r *kmsapi.DecryptRequest) { r.KeyId = "" }},
		{"key_id of 1024 bytes", func(r *kmsapi.DecryptRequest) { r.KeyId += strings.Repeat("A", 1024-len(r.KeyId)) }},
		{"annotations of 32 KiB", func(r *kmsapi.DecryptRequest) { r.Annotations = filler }},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := decryptRequest(r)
			c.change(request)
			s.untouched(t, func() {
				_, err := s.kms.Decrypt(limited(t), request)
				s.refused(t, err, fault.FieldInvalid)
			})
		})
	}
}

// unknownID is well-formed by the wire contract and nobody's.
const unknownID = "obk2.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func refusedKeyIDs(t *testing.T, s *subject) {
	r := s.encrypt(t, plaintextOf(32))
	own, digest := r.KeyId, strings.TrimPrefix(r.KeyId, "obk2.")
	for _, c := range []struct{ name, keyID string }{
		{"free text", "no key_id of anybody"},
		{"a byte less", own[:len(own)-1]},
		{"a byte more", own + "A"},
		{"padded", own + "="},
		{"no prefix", digest},
		{"the prefix only", "obk2."},
		{"another prefix", "obk1." + digest},
		{"a prefix in capitals", "OBK2." + digest},
		{"a space before", " " + own},
		{"a line break after", own + "\n"},
		{"standard base64", "obk2." + strings.Repeat("+", 43)},
		{"trailing bits", "obk2." + strings.Repeat("A", 42) + "B"},
		{"the last below 1024 bytes", strings.Repeat("k", 1023)},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := decryptRequest(r)
			request.KeyId = c.keyID
			s.untouched(t, func() {
				_, err := s.kms.Decrypt(limited(t), request)
				s.refused(t, err, fault.KeyIDMalformed)
			})
		})
	}
	t.Run("well-formed and unknown", func(t *testing.T) {
		request := decryptRequest(r)
		request.KeyId = unknownID
		_, err := s.kms.Decrypt(limited(t), request)
		s.refused(t, err, fault.KeyIDUnknown)
	})
}

func alteredCiphertexts(t *testing.T, s *subject) {
	plaintext := plaintextOf(48)
	r := s.encrypt(t, plaintext)
	// The last byte of base64 may stand for bits that nobody reads, so the middle and the beginning of the data are altered.
	start := bytes.LastIndexByte(r.Ciphertext, ':') + 1
	flip := func(at int) func([]byte) []byte {
		return func(c []byte) []byte {
			if c[at] == 'A' {
				c[at] = 'B'
			} else {
				c[at] = 'A'
			}
			return c
		}
	}
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
	}{
		{"first byte", flip(start)},
		{"in the middle", flip(start + (len(r.Ciphertext)-start)/2)},
		{"cut by a group", func(c []byte) []byte { return c[:len(c)-4] }},
		{"cut to the half", func(c []byte) []byte { return c[:start+(len(c)-start)/8*4] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := decryptRequest(r)
			request.Ciphertext = c.change(request.Ciphertext)
			_, err := s.kms.Decrypt(limited(t), request)
			s.refused(t, err, fault.CiphertextRefused)
		})
	}
	s.decrypts(t, decryptRequest(r), plaintext)
}

func unknownMethod(t *testing.T, s *subject) {
	for _, method := range []string{"Rotate", "status"} {
		_, err := s.send(context.WithoutCancel(limited(t)), method, nil)
		if code := grpcstatus.Code(err); code != codes.Unimplemented {
			t.Errorf("method %s: %v; want %v", method, err, codes.Unimplemented)
		}
	}
}
