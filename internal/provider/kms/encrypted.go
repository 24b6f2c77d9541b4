package kms

import (
	"google.golang.org/protobuf/proto"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
)

// encrypted is an Encrypt response in its two parts: what is new in each, and
// what its binding fixes.
type encrypted struct {
	ciphertext []byte
	prepared   *prepared
}

// prepared is the part of an Encrypt response that a binding fixes.
type prepared struct {
	binding     *identity.Binding
	annotations map[string][]byte // read-only: many responses share it
	// encoded is the response without its ciphertext, on the wire. Encoding the
	// map anew would take 33 allocations a response.
	encoded []byte
}

// prepare makes that part once a binding, and holds it against the limits that
// the API server will apply.
func (s *Service) prepare(b *identity.Binding) (*prepared, error) {
	if p := s.prepared.Load(); p != nil && p.binding == b {
		return p, nil
	}
	p := &prepared{binding: b, annotations: b.Annotations(s.pluginVersion)}
	if len(b.KeyID()) >= belowKeyID || annotationsSize(p.annotations) >= belowAnnotations {
		return nil, fault.New(fault.ResponseOverLimit, opEncrypt, "the key_id or the annotations are too large")
	}
	var err error
	if p.encoded, err = proto.Marshal(&kmsapi.EncryptResponse{KeyId: b.KeyID(), Annotations: p.annotations}); err != nil {
		return nil, fault.New(fault.ResponseOverLimit, opEncrypt, "the key_id or the annotations cannot be encoded")
	}
	s.prepared.Store(p)
	return p, nil
}

// message is the response as a message. Its annotations are shared.
func (e *encrypted) message() *kmsapi.EncryptResponse {
	p := e.prepared
	return &kmsapi.EncryptResponse{Ciphertext: e.ciphertext, KeyId: p.binding.KeyID(), Annotations: p.annotations}
}

// encode is message on the wire. Two encodings of one type, put together, are
// the encoding of a message with the fields of both.
func (e *encrypted) encode() ([]byte, error) {
	head := &kmsapi.EncryptResponse{Ciphertext: e.ciphertext}
	buffer := make([]byte, 0, proto.Size(head)+len(e.prepared.encoded))
	buffer, err := proto.MarshalOptions{}.MarshalAppend(buffer, head)
	if err != nil {
		return nil, err
	}
	return append(buffer, e.prepared.encoded...), nil
}
