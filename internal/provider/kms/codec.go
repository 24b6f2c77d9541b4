package kms

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that ours completes
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// incoming is a request that is being received. With any other target, gRPC
// would answer a malformed message with Internal and the decoder's words.
type incoming[Req any] struct {
	request   Req
	malformed bool
}

type receiver interface{ decode(data []byte) }

func (in *incoming[Req]) decode(data []byte) {
	message, ok := any(&in.request).(proto.Message)
	in.malformed = !ok || proto.Unmarshal(data, message) != nil
}

// codec is gRPC's protobuf codec, but for the requests that handlers receive and
// for responses that are encoded already for the most part.
type codec struct{ encoding.CodecV2 }

func newCodec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal is part of encoding.CodecV2. The decoder copies what it keeps, so
// that the buffer may be freed.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(receiver)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	r.decode(buffer.ReadOnlyData())
	return nil
}

// Marshal is part of encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	e, ok := v.(*encrypted)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	data, err := e.encode()
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}
