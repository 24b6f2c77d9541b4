// Package kmsclient calls a KMS v2 socket as kube-apiserver does, for the
// operator's commands: doctor's look at a running provider, and benchmark.
//
// It never creates, changes or removes a socket, and sends only what its caller
// asks for.
package kmsclient

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kmsapi "k8s.io/kms/apis/v2"
)

// Client is a connection to one socket. Its methods may be called from many
// goroutines at once.
type Client struct {
	conn *grpc.ClientConn
	kms  kmsapi.KeyManagementServiceClient
}

// New makes a client of the socket at path, absolute and on the file system. It
// does not dial yet. The caller must Close it.
func New(path string) (*Client, error) {
	// No proxy from the environment, no service config from anywhere, and no
	// retries of the library's own.
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithAuthority("localhost"))
	if err != nil {
		return nil, err
	}
	return &Client{conn, kmsapi.NewKeyManagementServiceClient(conn)}, nil
}

// Status asks for the provider's health and key_id.
func (c *Client) Status(ctx context.Context) (*kmsapi.StatusResponse, error) {
	return c.kms.Status(ctx, &kmsapi.StatusRequest{})
}

// Encrypt asks for a ciphertext of plaintext.
func (c *Client) Encrypt(ctx context.Context, uid string, plaintext []byte) (*kmsapi.EncryptResponse, error) {
	return c.kms.Encrypt(ctx, &kmsapi.EncryptRequest{Uid: uid, Plaintext: plaintext})
}

// Decrypt asks for the plaintext of what Encrypt answered.
func (c *Client) Decrypt(ctx context.Context, uid string, e *kmsapi.EncryptResponse) (*kmsapi.DecryptResponse, error) {
	return c.kms.Decrypt(ctx, &kmsapi.DecryptRequest{Uid: uid, Ciphertext: e.Ciphertext, KeyId: e.KeyId, Annotations: e.Annotations})
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
