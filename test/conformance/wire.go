package conformance

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	kmsapi "k8s.io/kms/apis/v2"
)

const service = "/v2.KeyManagementService/"

// padField is a field that KMS v2 does not have: a provider must ignore it. Padding with it gives a request of any size that is valid.
const padField = 1000

// rawCodec sends bytes as they are, so that a test can send what the protobuf library refuses to.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

var _ encoding.Codec = rawCodec{}

// send sends raw bytes to a method and returns those of the answer.
func (s *subject) send(ctx context.Context, method string, message []byte) ([]byte, error) {
	var reply []byte
	err := s.conn.Invoke(ctx, service+method, &message, &reply, grpc.ForceCodec(rawCodec{}))
	return reply, err
}

// padded is a message of exactly so many bytes that means the same.
func padded(t *testing.T, m proto.Message, size int) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	raw = protowire.AppendTag(raw, padField, protowire.BytesType)
	for fill := max(0, size-len(raw)-5); ; fill++ {
		out := protowire.AppendBytes(raw[:len(raw):len(raw)], make([]byte, fill))
		switch {
		case len(out) == size:
			return out
		case len(out) > size:
			t.Fatalf("a message cannot be padded to %d bytes", size)
		}
	}
}

// The fields of the requests, for messages that are put together by hand.
const (
	encryptPlaintext = 1
	encryptUID       = 2

	decryptCiphertext  = 1
	decryptUID         = 2
	decryptKeyID       = 3
	decryptAnnotations = 4
)

func appendField(b []byte, field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), value)
}

// rawDecrypt is a request with its fields as given, valid UTF-8 or not.
func rawDecrypt(r *kmsapi.DecryptRequest, keyID, uid string, extraKey, extraValue string) []byte {
	b := appendField(nil, decryptCiphertext, string(r.Ciphertext))
	b = appendField(b, decryptUID, uid)
	b = appendField(b, decryptKeyID, keyID)
	for key, value := range r.Annotations {
		b = appendField(b, decryptAnnotations, annotationEntry(key, string(value)))
	}
	if extraKey != "" {
		b = appendField(b, decryptAnnotations, annotationEntry(extraKey, extraValue))
	}
	return b
}

func annotationEntry(key, value string) string {
	return string(appendField(appendField(nil, 1, key), 2, value))
}
