package kms

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/kms/kmstest"
)

// TestEncodedResponseIsTheMessage holds the encoding that is put together
// against the one that protobuf makes of the whole.
func TestEncodedResponseIsTheMessage(t *testing.T) {
	f := start(t)
	for _, version := range []int{kmstest.Active, kmstest.Retired, kmstest.Active} {
		b := kmstest.Binding(t, f.registry, version)
		p, err := f.service.prepare(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, ciphertext := range [][]byte{ciphertextOf(version, []byte("seed")), bytes.Repeat([]byte{'x'}, belowCiphertext-1)} {
			e := &encrypted{ciphertext, p}
			want := &kmsapi.EncryptResponse{Ciphertext: ciphertext, KeyId: b.KeyID(), Annotations: b.Annotations(pluginVersion)}
			if got := e.message(); !proto.Equal(got, want) {
				t.Errorf("version %d: the message is %v, want %v", version, got, want)
			}
			data, err := e.encode()
			if err != nil {
				t.Fatal(err)
			}
			got := &kmsapi.EncryptResponse{}
			if err := proto.Unmarshal(data, got); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(got, want) || len(data) != proto.Size(want) {
				t.Errorf("version %d: %d bytes decode to %v, want %d bytes of %v", version, len(data), got, proto.Size(want), want)
			}
			// Sized right at once: it neither grew nor wastes room.
			if cap(data) != len(data) {
				t.Errorf("version %d: the buffer has room for %d bytes, %d are used", version, cap(data), len(data))
			}
		}
	}
}

func BenchmarkEncodeEncryptResponse(b *testing.B) {
	s, f := benchService(b)
	p, err := s.prepare(kmstest.Binding(b, f.registry, kmstest.Active))
	if err != nil {
		b.Fatal(err)
	}
	e := &encrypted{ciphertextOf(kmstest.Active, make([]byte, 64)), p}
	b.Run("prepared", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := e.encode(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := proto.Marshal(e.message()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
