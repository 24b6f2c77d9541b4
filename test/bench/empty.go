package main

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"
)

// canned is what the empty server answers: the provider's own answers, so that the two hops carry the same bytes.
type canned struct {
	KeyID       string            `json:"keyId"`
	Plaintext   []byte            `json:"plaintext"`
	Ciphertext  []byte            `json:"ciphertext"`
	Annotations map[string][]byte `json:"annotations"`
}

// emptyServer answers without a thought: what it costs is the hop alone.
type emptyServer struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	status  *kmsapi.StatusResponse
	encrypt *kmsapi.EncryptResponse
	decrypt *kmsapi.DecryptResponse
}

func (e *emptyServer) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return e.status, nil
}

func (e *emptyServer) Encrypt(context.Context, *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	return e.encrypt, nil
}

func (e *emptyServer) Decrypt(context.Context, *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	return e.decrypt, nil
}

// startEmpty serves the empty server on a Unix socket, under the bounds that the provider's gRPC server has.
func startEmpty(path string, c canned) (stop func() error, err error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(65536),
		grpc.MaxSendMsgSize(65536),
		grpc.MaxConcurrentStreams(4096),
		grpc.MaxHeaderListSize(16<<10),
		grpc.ConnectionTimeout(5*time.Second),
		grpc.WaitForHandlers(true),
	)
	kmsapi.RegisterKeyManagementServiceServer(server, &emptyServer{
		status:  &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: c.KeyID},
		encrypt: &kmsapi.EncryptResponse{Ciphertext: c.Ciphertext, KeyId: c.KeyID, Annotations: c.Annotations},
		decrypt: &kmsapi.DecryptResponse{Plaintext: c.Plaintext},
	})
	return serveUntilStopped(server, l), nil
}

// serveUntilStopped serves until the function that it returns is called, which then says whether serving went well.
func serveUntilStopped(server *grpc.Server, l net.Listener) (stop func() error) {
	served := make(chan error, 1)
	// Ends with stop.
	go func() { served <- server.Serve(l) }()
	return func() error {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	}
}
