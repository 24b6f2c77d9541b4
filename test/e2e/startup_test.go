package e2e

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// TestNoSocketBeforeTheProof starts the provider on a sealed OpenBao: it answers
// on /ready and says why it waits, and its socket appears only when the key has
// been proved.
func TestNoSocketBeforeTheProof(t *testing.T) {
	t.Parallel()
	tr := transit(t)
	if err := tr.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := stack.WriteProviderConfig(stacktest.Dir(t), tr, stack.ProviderConfig{Fields: map[string]any{"bootstrap.retryInterval": "200ms"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := stack.StartProvider(t.Context(), stack.ProviderOptions{Binary: binary(t), Files: files, NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	r := eventuallyReason(t, p, "starting")
	eventually(t, "the cause is told", func() error {
		r, err = readiness(t.Context(), p)
		if err == nil && r.MetadataErrorClass != "openbao_sealed" {
			err = errors.New("metadata_error_class " + r.MetadataErrorClass)
		}
		return err
	})
	if _, err := os.Lstat(files.Socket); !os.IsNotExist(err) {
		t.Errorf("the socket exists before the first proof: %v", err)
	}
	if err := tr.Unseal(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventuallyReady(t, p)
	if _, err := kmsClient(t, p).Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte("a seed")}); err != nil {
		t.Errorf("ready, but Encrypt fails: %v", err)
	}
}

// TestASignalFinishesRunningCalls sends SIGTERM while a Decrypt waits for
// OpenBao: the call is answered, further ones are not taken, and the exit code
// is 0.
func TestASignalFinishesRunningCalls(t *testing.T) {
	t.Parallel()
	tr := transit(t)
	p := stacktest.Provider(t, binary(t), tr, stack.ProviderConfig{Fields: map[string]any{"openbao.timeout": "20s", "status.probeInterval": "10m", "status.statusMaxStaleness": "1h"}})
	kms := kmsClient(t, p)
	sealed, err := kms.Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte("a seed")})
	if err != nil {
		t.Fatal(err)
	}
	// A stopped process holds every request without an answer.
	if err := syscall.Kill(tr.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			if err := syscall.Kill(tr.Pid(), syscall.SIGCONT); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(resume)
	answered := make(chan error, 1)
	go func() {
		r, err := kms.Decrypt(t.Context(), &kmsapi.DecryptRequest{Ciphertext: sealed.Ciphertext, KeyId: sealed.KeyId, Annotations: sealed.Annotations})
		if err == nil && string(r.Plaintext) != "a seed" {
			err = errors.New("another plaintext")
		}
		answered <- err
	}()
	eventually(t, "the call is being served", func() error {
		return metricIs(t, p, `openbao_kms_grpc_in_flight{method="Decrypt"} 1`)
	})
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the socket is gone", func() error {
		if _, err := kmsClient(t, p).Status(t.Context(), &kmsapi.StatusRequest{}); status.Code(err) != codes.Unavailable {
			return errors.New("a new call is still answered")
		}
		return nil
	})
	resume()
	if err := <-answered; err != nil {
		t.Errorf("the running call: %v", err)
	}
	if code, err := p.Wait(t.Context()); err != nil || code != 0 {
		t.Errorf("exit code %d, error %v", code, err)
	}
}
