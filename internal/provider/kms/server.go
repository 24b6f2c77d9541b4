package kms

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// Bounds of the gRPC server besides the size of a message. The caller is an API
// server on the same node.
const (
	maxStreams        = 4096 // a connection; above the sum of all caps, so that a cap answers and nothing queues
	maxHeaderBytes    = 16 << 10
	connectionTimeout = 5 * time.Second

	// streamWorkers are goroutines that stay, with stacks that have already
	// grown; more requests than that get a goroutine of their own. Of the options
	// measured with 16 callers (0, 4, 16 and 64 workers, other buffer sizes, a
	// shared write buffer) this one made a difference: a fifth less CPU a Status.
	streamWorkers = 16
)

// NewServer returns a gRPC server with the Service registered. The caller
// serves it on a listener and stops it; Stop and GracefulStop wait for running
// requests.
//
// A message over 65536 bytes is refused by gRPC itself with ResourceExhausted
// before it is decoded, an unknown method with Unimplemented.
func NewServer(s *Service) *grpc.Server {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.WaitForHandlers(true),
		grpc.ForceServerCodecV2(newCodec()),
	)
	server.RegisterService(&serviceDesc, s)
	return server
}

// serviceDesc stands in for the generated description: its handlers map a
// message that cannot be decoded to the error policy, and need no interceptor.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: kmsapi.KeyManagementService_ServiceDesc.ServiceName,
	HandlerType: kmsapi.KeyManagementService_ServiceDesc.HandlerType,
	Metadata:    kmsapi.KeyManagementService_ServiceDesc.Metadata,
	Methods: []grpc.MethodDesc{
		{MethodName: "Status", Handler: handler(func(s *Service) *method { return &s.statusMethod }, (*Service).Status)},
		{MethodName: "Encrypt", Handler: handler(func(s *Service) *method { return &s.encryptMethod }, (*Service).encrypted)},
		{MethodName: "Decrypt", Handler: handler(func(s *Service) *method { return &s.decryptMethod }, (*Service).Decrypt)},
	},
}

// handler receives a request and passes it to the Service. A place under the
// method's cap is taken only then: a caller that opens a stream and sends
// nothing holds none.
func handler[Req, Resp any](of func(*Service) *method, answer func(*Service, context.Context, *Req) (*Resp, error)) grpc.MethodHandler {
	return func(srv any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		s := srv.(*Service)
		in := new(incoming[Req])
		// Served, refused or malformed: what was decoded is ours.
		defer wipe(&in.request)
		if err := receive(in); err != nil {
			// gRPC has answered already. Here it is only counted.
			return nil, s.refuse(ctx, of(s), receiveCause(err), nil)
		}
		if in.malformed {
			return nil, s.refuse(ctx, of(s), fault.FieldInvalid, invalid("decode the request", "it is not a well-formed protobuf message"))
		}
		resp, err := answer(s, ctx, &in.request)
		if err != nil {
			return nil, err
		}
		return resp, nil
	}
}

// wipe overwrites the plaintext of a request.
func wipe(request any) {
	if r, ok := request.(*kmsapi.EncryptRequest); ok {
		clear(r.Plaintext)
	}
}

// receiveCause names what gRPC answers when a message does not arrive whole.
// The context tells nothing here: gRPC ended it with its answer.
func receiveCause(err error) fault.Cause {
	switch grpcstatus.Code(err) {
	case codes.ResourceExhausted:
		return fault.MessageTooLarge
	case codes.Canceled:
		return fault.Canceled
	case codes.DeadlineExceeded:
		return fault.DeadlineExceeded
	}
	return fault.Unknown
}
