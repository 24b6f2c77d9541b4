package envelope

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func field(message []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(message, number, protowire.BytesType), value)
}

func TestParse(t *testing.T) {
	entry := field(field(nil, 1, []byte("a.example.org")), 2, []byte("v"))
	message := field(nil, fieldData, []byte("data"))
	message = field(message, fieldKeyID, []byte("obk2.x"))
	message = field(message, fieldWrappedSeed, []byte("vault:v1:abc"))
	message = field(message, fieldAnnotations, entry)
	message = protowire.AppendVarint(protowire.AppendTag(message, 5, protowire.VarintType), 1)
	whole := append([]byte("k8s:enc:kms:v2:my-provider:"), message...)

	e, err := Parse(whole)
	if err != nil {
		t.Fatal(err)
	}
	if e.Provider != "my-provider" || e.KeyID != "obk2.x" || string(e.Data) != "data" ||
		string(e.WrappedSeed) != "vault:v1:abc" || string(e.Annotations["a.example.org"]) != "v" || len(e.Annotations) != 1 {
		t.Errorf("parsed %+v", e)
	}
	if _, err := Parse([]byte("k8s\x00plain")); !errors.Is(err, ErrPlain) {
		t.Errorf("a plain value: %v, want ErrPlain", err)
	}
	if _, err := Parse(whole[:len(whole)-1]); err == nil {
		t.Error("a value that was cut off is accepted")
	}
	if _, err := Parse([]byte("k8s:enc:kms:v2:my-provider")); err == nil {
		t.Error("a prefix without a message is accepted")
	}
}
