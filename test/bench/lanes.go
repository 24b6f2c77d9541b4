package main

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"

	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kmsclient"
	"github.com/baokms/baokms/internal/provider/transit"
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

// kmsClient calls a KMS v2 socket as the API server does, and checks what it answers.
type kmsClient struct{ *kmsclient.Client }

func (k kmsClient) status(keyID string) load.Operation {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		resp, err := k.Status(ctx)
		if err != nil {
			return err
		}
		if resp.Healthz != "ok" || resp.KeyId != keyID {
			return errors.New("Status does not answer with a healthy provider's key_id: healthz is " + resp.Healthz)
		}
		return nil
	}
}

func (k kmsClient) encrypt(plaintext []byte, keyID string) load.Operation {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		resp, err := k.Encrypt(ctx, requestUID, plaintext)
		if err != nil {
			return err
		}
		if len(resp.Ciphertext) == 0 || resp.KeyId != keyID {
			return errors.New("Encrypt answers without a ciphertext or with another key_id")
		}
		return nil
	}
}

func (k kmsClient) decrypt(c canned) load.Operation {
	encrypted := &kmsapi.EncryptResponse{Ciphertext: c.Ciphertext, KeyId: c.KeyID, Annotations: c.Annotations}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		resp, err := k.Decrypt(ctx, requestUID, encrypted)
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
