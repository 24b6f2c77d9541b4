package kms

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kmsapi "k8s.io/kms/apis/v2"
	"pgregory.net/rapid"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
)

// pad fills a ciphertext of the active version to n bytes.
func pad(n int) []byte {
	prefix := ciphertextOf(kmstest.Active, nil)
	return append(prefix, bytes.Repeat([]byte{'x'}, n-len(prefix))...)
}

// fill adds a foreign annotation so that keys and values have n bytes.
func fill(req *kmsapi.DecryptRequest, n int) {
	const key = "filler.example.com"
	req.Annotations[key] = bytes.Repeat([]byte{'x'}, n-annotationsSize(req.Annotations)-len(key))
}

func TestDecryptLimits(t *testing.T) {
	cases := []struct {
		name   string
		change func(*kmsapi.DecryptRequest)
		cause  fault.Cause
	}{
		{"untouched", func(*kmsapi.DecryptRequest) {}, fault.None},
		{"ciphertext empty", func(r *kmsapi.DecryptRequest) { r.Ciphertext = nil }, fault.FieldInvalid},
		{"ciphertext 1023", func(r *kmsapi.DecryptRequest) { r.Ciphertext = pad(1023) }, fault.None},
		{"ciphertext 1024", func(r *kmsapi.DecryptRequest) { r.Ciphertext = pad(1024) }, fault.FieldInvalid},
		{"ciphertext 1025", func(r *kmsapi.DecryptRequest) { r.Ciphertext = pad(1025) }, fault.FieldInvalid},
		{"key_id empty", func(r *kmsapi.DecryptRequest) { r.KeyId = "" }, fault.FieldInvalid},
		{"key_id 1023", func(r *kmsapi.DecryptRequest) { r.KeyId = strings.Repeat("k", 1023) }, fault.KeyIDMalformed},
		{"key_id 1024", func(r *kmsapi.DecryptRequest) { r.KeyId = strings.Repeat("k", 1024) }, fault.FieldInvalid},
		{"key_id 1025", func(r *kmsapi.DecryptRequest) { r.KeyId = strings.Repeat("k", 1025) }, fault.FieldInvalid},
		{"annotations 32767", func(r *kmsapi.DecryptRequest) { fill(r, 32767) }, fault.None},
		{"annotations 32768", func(r *kmsapi.DecryptRequest) { fill(r, 32768) }, fault.FieldInvalid},
		{"annotations 32769", func(r *kmsapi.DecryptRequest) { fill(r, 32769) }, fault.FieldInvalid},
		{"annotation value not UTF-8", func(r *kmsapi.DecryptRequest) { r.Annotations["a.example.com"] = []byte{0xff} }, fault.FieldInvalid},
		{"uid empty", func(r *kmsapi.DecryptRequest) { r.Uid = "" }, fault.None},
		{"uid 1024", func(r *kmsapi.DecryptRequest) { r.Uid = strings.Repeat("u", 1024) }, fault.None},
		{"uid 1025", func(r *kmsapi.DecryptRequest) { r.Uid = strings.Repeat("u", 1025) }, fault.FieldInvalid},
		{"everything wrong: the limit is told first", func(r *kmsapi.DecryptRequest) {
			r.KeyId, r.Annotations, r.Ciphertext = "nonsense", nil, pad(1024)
		}, fault.FieldInvalid},
	}
	f := start(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := len(f.transit.called())
			req := f.decryptRequest(t, kmstest.Active)
			c.change(req)
			_, err := f.client.Decrypt(context.Background(), req)
			if c.cause == fault.None {
				if err != nil || len(f.transit.called()) != before+1 {
					t.Errorf("Decrypt = %v with %d calls of Transit, want an answer from it", err, len(f.transit.called())-before)
				}
				return
			}
			f.wantError(t, err, "Decrypt", c.cause)
			if len(f.transit.called()) != before {
				t.Error("Transit was called")
			}
		})
	}
}

func TestDecryptChecksWhatProtobufWouldHaveCaught(t *testing.T) {
	f := start(t)
	for name, change := range map[string]func(*kmsapi.DecryptRequest){
		"key_id":         func(r *kmsapi.DecryptRequest) { r.KeyId = "obk2.\xff" },
		"uid":            func(r *kmsapi.DecryptRequest) { r.Uid = "\xff" },
		"annotation key": func(r *kmsapi.DecryptRequest) { r.Annotations["\xff.example.com"] = nil },
	} {
		req := f.decryptRequest(t, kmstest.Active)
		change(req)
		_, err := f.service.Decrypt(context.Background(), req)
		if got := grpcstatus.Code(err); got != codes.InvalidArgument {
			t.Errorf("%s that is not UTF-8: %v, want InvalidArgument", name, err)
		}
		f.wantError(t, err, "Decrypt", fault.FieldInvalid)
	}
}

func TestEncryptLimits(t *testing.T) {
	cases := []struct {
		name      string
		plaintext []byte
		uid       string
		answer    []byte // Transit's, nil for an honest one
		cause     fault.Cause
	}{
		{name: "one byte", plaintext: []byte{1}, cause: fault.None},
		{name: "empty", cause: fault.FieldInvalid},
		{name: "uid 1024", plaintext: []byte{1}, uid: strings.Repeat("u", 1024), cause: fault.None},
		{name: "uid 1025", plaintext: []byte{1}, uid: strings.Repeat("u", 1025), cause: fault.FieldInvalid},
		{name: "answer empty", plaintext: []byte{1}, answer: []byte{}, cause: fault.ResponseOverLimit},
		{name: "answer 1023", plaintext: []byte{1}, answer: pad(1023), cause: fault.None},
		{name: "answer 1024", plaintext: []byte{1}, answer: pad(1024), cause: fault.ResponseOverLimit},
		{name: "answer 1025", plaintext: []byte{1}, answer: pad(1025), cause: fault.ResponseOverLimit},
		{name: "answer of another version", plaintext: []byte{1}, answer: ciphertextOf(kmstest.Pending, []byte("x")), cause: fault.ResponseOverLimit},
		{name: "answer of version 33", plaintext: []byte{1}, answer: ciphertextOf(33, []byte("x")), cause: fault.ResponseOverLimit},
		{name: "answer without prefix", plaintext: []byte{1}, answer: []byte("bare"), cause: fault.ResponseOverLimit},
		{name: "answer of a prefix only", plaintext: []byte{1}, answer: ciphertextOf(kmstest.Active, nil), cause: fault.ResponseOverLimit},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			if c.answer != nil {
				f.transit.encrypt = func(context.Context, *identity.Binding, []byte) ([]byte, error) { return c.answer, nil }
			}
			_, err := f.client.Encrypt(context.Background(), &kmsapi.EncryptRequest{Plaintext: c.plaintext, Uid: c.uid})
			if c.cause == fault.None {
				if err != nil {
					t.Errorf("Encrypt = %v, want an answer", err)
				}
				return
			}
			f.wantError(t, err, "Encrypt", c.cause)
		})
	}
}

func TestDecryptAnswerLimits(t *testing.T) {
	for size, cause := range map[int]fault.Cause{0: fault.ResponseOverLimit, 1: fault.None, 65532: fault.None, 65533: fault.ResponseOverLimit} {
		f := start(t)
		answer := bytes.Repeat([]byte{7}, size)
		f.transit.decrypt = func(context.Context, *identity.Binding, []byte) ([]byte, error) { return answer, nil }
		got, err := f.client.Decrypt(context.Background(), f.decryptRequest(t, kmstest.Active))
		if cause != fault.None {
			f.wantError(t, err, "Decrypt", cause)
			if !bytes.Equal(answer, make([]byte, size)) {
				t.Errorf("%d bytes: the refused plaintext was not overwritten", size)
			}
			continue
		}
		if err != nil || len(got.Plaintext) != size {
			t.Errorf("%d bytes: Decrypt = %d bytes, %v", size, len(got.GetPlaintext()), err)
		}
	}
}

// A message is measured as it is on the wire.
func TestMessageLimit(t *testing.T) {
	f := start(t)
	f.transit.encrypt = func(_ context.Context, b *identity.Binding, plaintext []byte) ([]byte, error) {
		return ciphertextOf(b.Version(), plaintext[:8]), nil
	}
	request := func(size int) *kmsapi.EncryptRequest {
		t.Helper()
		req := &kmsapi.EncryptRequest{Plaintext: make([]byte, size-4)}
		if proto.Size(req) != size {
			t.Fatalf("the request has %d bytes, want %d", proto.Size(req), size)
		}
		return req
	}
	for _, size := range []int{65535, 65536} {
		if _, err := f.client.Encrypt(context.Background(), request(size)); err != nil {
			t.Errorf("a message of %d bytes: %v", size, err)
		}
	}
	before := len(f.transit.called())
	for _, size := range []int{65537, 1 << 20} {
		_, err := f.client.Encrypt(context.Background(), request(size))
		if grpcstatus.Code(err) != fault.MessageTooLarge.Code() || grpcstatus.Code(err) != codes.ResourceExhausted {
			t.Errorf("a message of %d bytes: %v, want ResourceExhausted", size, err)
		}
		want := done{"Encrypt", codes.ResourceExhausted, fault.ClassProtocolLimit}
		eventually(t, "the server counts the refused message", func() bool { return f.observed.last() == want })
	}
	if len(f.transit.called()) != before {
		t.Error("an oversized message reached Transit")
	}
}

// rawCodec sends bytes that are no protobuf message.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal([]byte, any) error   { return nil }

func TestMalformedMessages(t *testing.T) {
	f := start(t)
	cases := map[string][]byte{
		"truncated":            {0x0a, 0x20, 0x01},
		"bad tag":              {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"uid is not UTF-8":     append([]byte{0x0a, 1, 'x'}, 0x12, 1, 0xff),
		"plaintext is a group": {0x0b},
	}
	for name, message := range cases {
		t.Run(name, func(t *testing.T) {
			var out []byte
			err := f.conn.Invoke(context.Background(), "/v2.KeyManagementService/Encrypt", message, &out, grpc.ForceCodec(rawCodec{}))
			f.wantError(t, err, "Encrypt", fault.FieldInvalid)
		})
	}
	wantCalls(t, f)
}

func TestUnknownMethodsAreUnimplemented(t *testing.T) {
	f := start(t)
	for _, method := range []string{"/v2.KeyManagementService/Rotate", "/v1beta1.KeyManagementService/Encrypt", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"} {
		err := f.conn.Invoke(context.Background(), method, &kmsapi.StatusRequest{}, &kmsapi.StatusResponse{})
		if grpcstatus.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v, want Unimplemented", method, err)
		}
	}
}

func TestCiphertextVersion(t *testing.T) {
	cases := map[string]int{
		"vault:v1:x": 1, "vault:v12:AAAA": 12, "vault:v999999999:x": 999999999,
		"": 0, "vault:": 0, "vault:v": 0, "vault:v1": 0, "vault:v1:": 0, "vault:v:x": 0, "vault:v0:x": 0, "vault:v01:x": 0,
		"vault:v-1:x": 0, "vault:v+1:x": 0, "vault:v1x:x": 0, "vault:v1000000000:x": 0, "vault:v99999999999999999999:x": 0,
		"Vault:v1:x": 0, " vault:v1:x": 0, "vault:v１:x": 0, "bao:v1:x": 0,
	}
	for ciphertext, want := range cases {
		if got := ciphertextVersion([]byte(ciphertext)); got != want {
			t.Errorf("ciphertextVersion(%q) = %d, want %d", ciphertext, got, want)
		}
	}
}

func TestCiphertextVersionReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.IntRange(1, 999999999).Draw(t, "version")
		rest := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "rest")
		ciphertext := append(fmt.Appendf(nil, "vault:v%d:", version), rest...)
		if got := ciphertextVersion(ciphertext); got != version {
			t.Fatalf("ciphertextVersion(%q) = %d, want %d", ciphertext, got, version)
		}
	})
}

func FuzzCiphertextVersion(f *testing.F) {
	for _, seed := range []string{"vault:v1:x", "vault:v01:x", "vault:v1:", "vault:v"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, ciphertext []byte) {
		version := ciphertextVersion(ciphertext)
		if version == 0 {
			return
		}
		prefix := fmt.Appendf(nil, "vault:v%d:", version)
		if !bytes.HasPrefix(ciphertext, prefix) || len(ciphertext) == len(prefix) {
			t.Errorf("ciphertextVersion(%q) = %d, but it does not start with %q and more", ciphertext, version, prefix)
		}
	})
}

// What this provider accepts as an annotation key is what the API server does.
func TestAnnotationKeysAreTheAPIServers(t *testing.T) {
	agree := func(key string) (ours, theirs bool) {
		return identity.IsDomainName(key), len(validation.IsFullyQualifiedDomainName(field.NewPath("k"), key)) == 0
	}
	label := strings.Repeat("a", 63)
	for _, key := range []string{
		"", ".", "..", "a", "a.", "a.b", "a.b.", "a.b..", ".a.b", "a..b", "-a.b", "a-.b", "a-b.c", "A.b", "a_b.c", "a.b/c", "1.2", "a.b c", "ä.b", "a.\xff",
		label + ".b", label + "a.b", strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 126) + "ab", strings.Repeat("a.", 126) + "a.", "kms.openbao.org",
	} {
		if ours, theirs := agree(key); ours != theirs {
			t.Errorf("%q: ours %t, the API server's %t", key, ours, theirs)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[a-cA0-1._-]{0,12}(\.[a-z0-9-]{1,64}){0,5}\.?`).Draw(t, "key")
		if ours, theirs := agree(key); ours != theirs {
			t.Fatalf("%q: ours %t, the API server's %t", key, ours, theirs)
		}
	})
}
