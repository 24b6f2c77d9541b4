// Package kmsclient calls a KMS v2 socket as kube-apiserver does, for the
// operator's commands: doctor's look at a running provider, and benchmark.
//
// It never creates, changes or removes a socket, and sends only what its caller
// asks for. Errors hold no path and nothing of a request.
package kmsclient

import (
	"context"
	"errors"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"
)

// maxHeaders bounds the header fields of an answer in bytes; KMS v2 has none of
// its own. An answer is bounded by the library, at 4 MiB.
const maxHeaders = 64 << 10

// Client is a connection to one socket. Its methods may be called from many
// goroutines at once. Their errors are an *UnreachableError where no connection
// could be made, else a gRPC status: the provider's own, or one that tells how
// the call ended.
type Client struct {
	conn   *grpc.ClientConn
	kms    kmsapi.KeyManagementServiceClient
	socket *socket
}

// New makes a client of the socket at path, absolute and on the file system. It
// does not dial yet. The caller must Close it.
func New(path string) (*Client, error) {
	// What is not absolute might be a socket without a file.
	if !filepath.IsAbs(path) {
		return nil, errors.New("KMS socket: the path is not absolute: correct server.socketPath")
	}
	s := &socket{path: path}
	// The target is no path: one with %, ? or # in it would not stay what it is in
	// a URL. No proxy from the environment, no service config from anywhere, and
	// no retries of the library's own.
	conn, err := grpc.NewClient("passthrough:///kms", grpc.WithContextDialer(s.dial), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithAuthority("localhost"),
		grpc.WithMaxHeaderListSize(maxHeaders))
	if err != nil {
		return nil, errors.New("KMS socket: the client cannot be made: report this as a defect")
	}
	return &Client{conn, kmsapi.NewKeyManagementServiceClient(conn), s}, nil
}

// Status asks for the provider's health and key_id.
func (c *Client) Status(ctx context.Context) (*kmsapi.StatusResponse, error) {
	answer, err := c.kms.Status(ctx, &kmsapi.StatusRequest{})
	return answer, c.explain(err)
}

// Encrypt asks for a ciphertext of plaintext.
func (c *Client) Encrypt(ctx context.Context, uid string, plaintext []byte) (*kmsapi.EncryptResponse, error) {
	answer, err := c.kms.Encrypt(ctx, &kmsapi.EncryptRequest{Uid: uid, Plaintext: plaintext})
	return answer, c.explain(err)
}

// Decrypt asks for the plaintext of what Encrypt answered.
func (c *Client) Decrypt(ctx context.Context, uid string, e *kmsapi.EncryptResponse) (*kmsapi.DecryptResponse, error) {
	answer, err := c.kms.Decrypt(ctx, &kmsapi.DecryptRequest{Uid: uid, Ciphertext: e.Ciphertext, KeyId: e.KeyId, Annotations: e.Annotations})
	return answer, c.explain(err)
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// explain tells a socket that nobody serves from a provider that answers
// Unavailable, which the library's status does not.
func (c *Client) explain(err error) error {
	if status.Code(err) != codes.Unavailable {
		return err
	}
	if failed := c.socket.failed.Load(); failed != nil {
		return &UnreachableError{Err: *failed}
	}
	return err
}
