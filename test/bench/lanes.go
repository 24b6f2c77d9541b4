package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/transit"
	"github.com/baokms/baokms/test/bench/load"
)

// The lanes.
const (
	transitEncrypt  = "Transit encrypt"
	transitDecrypt  = "Transit decrypt"
	providerEncrypt = "provider Encrypt"
	providerDecrypt = "provider Decrypt"
	providerStatus  = "provider Status"
	emptyEncrypt    = "empty hop Encrypt"
	emptyDecrypt    = "empty hop Decrypt"
	emptyStatus     = "empty hop Status"
)

// The numbers of callers that every lane is measured with; Status has one more.
var (
	callers       = []int{1, 8, 32}
	statusCallers = []int{1, 8, 16, 32}
)

// mostCallers is the highest of them.
const mostCallers = 32

// callTimeout is each call's deadline, on both sides of the provider. The API server sets one, too.
const callTimeout = 30 * time.Second

// requestUID is as long as the API server's.
const requestUID = "7f2c1a52-8a0e-4c36-9d0b-0d6a4d1f6b11"

// kmsClient calls a KMS v2 socket as the API server does: over one connection.
type kmsClient struct {
	conn *grpc.ClientConn
	kmsapi.KeyManagementServiceClient
}

func dial(path string) (*kmsClient, error) {
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, err
	}
	return &kmsClient{conn, kmsapi.NewKeyManagementServiceClient(conn)}, nil
}

func (k *kmsClient) status(keyID string) load.Operation {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		resp, err := k.Status(ctx, &kmsapi.StatusRequest{})
		if err != nil {
			return err
		}
		if resp.Healthz != "ok" || resp.KeyId != keyID {
			return errors.New("Status does not answer with a healthy provider's key_id: healthz is " + resp.Healthz)
		}
		return nil
	}
}

func (k *kmsClient) encrypt(plaintext []byte, keyID string) load.Operation {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		resp, err := k.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: plaintext, Uid: requestUID})
		if err != nil {
			return err
		}
		if len(resp.Ciphertext) == 0 || resp.KeyId != keyID {
			return errors.New("Encrypt answers without a ciphertext or with another key_id")
		}
		return nil
	}
}

func (k *kmsClient) decrypt(c canned) load.Operation {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		resp, err := k.Decrypt(ctx, &kmsapi.DecryptRequest{
			Ciphertext: c.Ciphertext, Uid: requestUID, KeyId: c.KeyID, Annotations: c.Annotations,
		})
		if err != nil {
			return err
		}
		if !bytes.Equal(resp.Plaintext, c.Plaintext) {
			return errors.New("Decrypt answers with another plaintext")
		}
		return nil
	}
}

func bareEncrypt(client *transit.Client, b *identity.Binding, plaintext []byte) load.Operation {
	return func(ctx context.Context) error {
		// The client itself checks that there is a ciphertext of the right version.
		_, err := client.Encrypt(ctx, b, plaintext)
		return err
	}
}

func bareDecrypt(client *transit.Client, b *identity.Binding, c canned) load.Operation {
	return func(ctx context.Context) error {
		plaintext, err := client.Decrypt(ctx, b, c.Ciphertext)
		if err != nil {
			return err
		}
		if !bytes.Equal(plaintext, c.Plaintext) {
			return errors.New("the plaintext from Transit is not what was encrypted")
		}
		return nil
	}
}

// alternating calls first and second in turns.
func alternating(first, second load.Operation) load.Operation {
	var calls atomic.Int64
	return func(ctx context.Context) error {
		if calls.Add(1)%2 == 1 {
			return first(ctx)
		}
		return second(ctx)
	}
}
