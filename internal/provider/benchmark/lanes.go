package benchmark

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
	"github.com/baokms/baokms/internal/provider/transit"
)

// The operations, as the report names them.
const (
	opStatus  = "status"
	opEncrypt = "encrypt"
	opDecrypt = "decrypt"
)

const (
	// callTimeout is each call's deadline.
	callTimeout = 10 * time.Second
	// uid tells the benchmark's requests from the API server's in correlated logs.
	uid = "bao-kms-provider-benchmark"
	// kept is how many of the latest answers, half of them of each side, are there
	// to be decrypted.
	kept = 32
)

// lane is one side of one operation with one size.
type lane struct {
	load.Lane
	operation string
}

func loads(lanes []lane) []load.Lane {
	var list []load.Lane
	for _, l := range lanes {
		list = append(list, l.Lane)
	}
	return list
}

// laneName names one side of an operation.
func laneName(operation string, bare bool, size int) string {
	switch {
	case operation == opStatus:
		return "Status through the socket"
	case bare:
		return fmt.Sprintf("bare Transit %s of %d bytes", operation, size)
	case operation == opEncrypt:
		return fmt.Sprintf("Encrypt of %d bytes through the socket", size)
	}
	return fmt.Sprintf("Decrypt of %d bytes through the socket", size)
}

// lanes are all that is measured. Of each size, Encrypt comes before Decrypt,
// which needs its answers.
func (t *target) lanes(p plan) []lane {
	var list []lane
	add := func(operation string, bare bool, size int, callers []int, do load.Operation) {
		limited := func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			return do(ctx)
		}
		list = append(list, lane{load.Lane{Name: laneName(operation, bare, size), Callers: callers, Do: limited}, operation})
	}
	if len(p.statusCallers) > 0 {
		add(opStatus, false, 0, p.statusCallers, t.status)
	}
	for _, size := range p.sizes {
		a := new(answers)
		add(opEncrypt, false, size, p.callers, t.encrypt(size, &a.socket))
		add(opEncrypt, true, size, p.callers, t.bareEncrypt(size, &a.bare))
		add(opDecrypt, false, size, p.callers, t.decrypt(a))
		add(opDecrypt, true, size, p.callers, t.bareDecrypt(a))
	}
	return list
}

// encrypted is a plaintext with what Encrypt made of it.
type encrypted struct {
	plaintext []byte
	answer    *kmsapi.EncryptResponse
}

// answers are the latest of both sides' Encrypts. Each is decrypted by both
// sides, so that the answers of one are held against the other.
type answers struct {
	socket, bare latest
	take         atomic.Uint64
}

// latest are the latest answers of one side.
type latest struct {
	slots [kept / 2]atomic.Pointer[encrypted]
	put   atomic.Uint64
}

func (l *latest) add(e *encrypted) { l.slots[(l.put.Add(1)-1)%(kept/2)].Store(e) }

// next goes through all answers in turn, those of the two sides alternately. All
// are there once each side has made kept Encrypts.
func (a *answers) next() *encrypted {
	i := (a.take.Add(1) - 1) % kept
	if i%2 == 0 {
		return a.socket.slots[i/2].Load()
	}
	return a.bare.slots[i/2].Load()
}

// random makes up a plaintext. It never fails.
func random(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.Read(b)
	return b
}

func (t *target) status(ctx context.Context) error {
	r, err := t.kms.Status(ctx)
	switch {
	case err != nil:
		return socketFailure(err)
	case r.Healthz != healthy:
		return fmt.Errorf("the provider became unhealthy (%s): %s", reason(r.Healthz), runDoctor)
	case r.KeyId != t.binding.KeyID():
		return errKeyChanged
	}
	return nil
}

func (t *target) encrypt(size int, l *latest) load.Operation {
	prefix := []byte("vault:v" + strconv.Itoa(t.binding.Version()) + ":")
	return func(ctx context.Context) error {
		plaintext := random(size)
		r, err := t.kms.Encrypt(ctx, uid, plaintext)
		switch {
		case err != nil:
			return socketFailure(err)
		case r.KeyId != t.binding.KeyID():
			return errKeyChanged
		case !bytes.HasPrefix(r.Ciphertext, prefix) || len(r.Ciphertext) == len(prefix) || len(r.Ciphertext) >= transit.MaxCiphertext:
			return wrongAnswer("a ciphertext that is not of the active key version or too large")
		}
		l.add(&encrypted{plaintext, r})
		return nil
	}
}

func (t *target) bareEncrypt(size int, l *latest) load.Operation {
	return func(ctx context.Context) error {
		plaintext := random(size)
		// The client itself checks the ciphertext's version and size.
		ciphertext, err := t.bare.Encrypt(ctx, t.binding, plaintext)
		if err != nil {
			return bareFailure(err)
		}
		l.add(&encrypted{plaintext, &kmsapi.EncryptResponse{Ciphertext: ciphertext, KeyId: t.binding.KeyID(), Annotations: t.annotations}})
		return nil
	}
}

func (t *target) decrypt(a *answers) load.Operation {
	return func(ctx context.Context) error {
		e := a.next()
		r, err := t.kms.Decrypt(ctx, uid, e.answer)
		switch {
		case err != nil:
			return socketFailure(err)
		case !bytes.Equal(r.Plaintext, e.plaintext):
			return wrongAnswer("another plaintext than the one that was encrypted")
		}
		return nil
	}
}

func (t *target) bareDecrypt(a *answers) load.Operation {
	return func(ctx context.Context) error {
		e := a.next()
		plaintext, err := t.bare.Decrypt(ctx, t.binding, e.answer.Ciphertext)
		switch {
		case err != nil:
			return bareFailure(err)
		case !bytes.Equal(plaintext, e.plaintext):
			return wrongAnswer("another plaintext than the one that was encrypted")
		}
		return nil
	}
}
