package kms

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/status"
)

// TestAMalformedRequestIsWiped: what a decoder had taken in before it stumbled
// is overwritten, too.
func TestAMalformedRequestIsWiped(t *testing.T) {
	plaintext := bytes.Repeat([]byte("secret"), 8)
	message := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), plaintext)
	message = append(message, 0xff) // a tag that is cut off

	var decoded []byte
	handle := handler(func(s *Service) *method { return &s.encryptMethod }, (*Service).encrypted)
	s := newService(t, Options{Views: new(status.Board), Transit: new(fakeTransit), PluginVersion: "v1"})
	_, err := handle(s, t.Context(), func(into any) error {
		in := into.(*incoming[kmsapi.EncryptRequest])
		in.decode(message)
		decoded = in.request.Plaintext
		if !in.malformed || !bytes.Equal(decoded, plaintext) {
			t.Fatalf("malformed %v with %d bytes decoded: the test means nothing", in.malformed, len(decoded))
		}
		return nil
	}, nil)
	if err == nil {
		t.Error("a malformed request was answered")
	}
	if !bytes.Equal(decoded, make([]byte, len(plaintext))) {
		t.Error("the plaintext of a malformed request is still in memory")
	}
}
