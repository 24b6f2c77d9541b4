package e2e

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// kmsClient talks to a provider as an API server does.
func kmsClient(t *testing.T, p *stack.Provider) kmsapi.KeyManagementServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+p.Files.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return kmsapi.NewKeyManagementServiceClient(conn)
}

// TestFilesThatChangeUnderTheProvider: an older copy, an edit, a peer's file or
// none at all in place of what the provider wrote. Encrypt stops with a reason,
// known data is still decrypted, nothing is touched, the log says what to
// restore, and putting the file back heals.
func TestFilesThatChangeUnderTheProvider(t *testing.T) {
	t.Parallel()
	tr := transit(t)
	p := stacktest.Provider(t, binary(t), tr, stack.ProviderConfig{Fields: map[string]any{
		"status.probeInterval": "200ms", "rotation.requireStableObservationCount": 1, "rotation.activationDelay": "1ms",
	}})
	kms := kmsClient(t, p)
	peer := stacktest.Provider(t, binary(t), tr, stack.ProviderConfig{})
	foreign := pairOf(t, peer)
	older := pairOf(t, p)
	if _, err := tr.Rotate(t.Context(), tr.Key()); err != nil {
		t.Fatal(err)
	}
	eventuallyActive(t, p, 2)
	good := pairOf(t, p)
	encrypt := func(ctx context.Context) (*kmsapi.EncryptResponse, error) {
		return kms.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: []byte("a seed"), Uid: "tamper"})
	}
	sealed, err := encrypt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	edited := good
	edited.state = strings.Replace(good.state, `"retired"`, `"removed"`, 1)
	half := good
	half.state = good.state[:len(good.state)/2]
	for name, content := range map[string]registryPair{
		"an older state":      {older.state, good.checkpoint},
		"an older checkpoint": {good.state, older.checkpoint},
		"both older":          older,
		"a peer's":            foreign,
		"an edit":             edited,
		"a half":              half,
		"no state":            {"", good.checkpoint},
		"no checkpoint":       {good.state, ""},
		"nothing":             {},
	} {
		t.Run(name, func(t *testing.T) {
			content.write(t, p)
			eventuallyReason(t, p, "state_conflict")
			if _, err := encrypt(t.Context()); status.Code(err) != codes.FailedPrecondition {
				t.Errorf("Encrypt in doubt: %v, want FailedPrecondition", err)
			}
			opened, err := kms.Decrypt(t.Context(), &kmsapi.DecryptRequest{
				Ciphertext: sealed.Ciphertext, KeyId: sealed.KeyId, Annotations: sealed.Annotations, Uid: "tamper",
			})
			if err != nil || string(opened.Plaintext) != "a seed" {
				t.Errorf("known data is not decrypted: %v", err)
			}
			if pairOf(t, p) != content {
				t.Error("the provider touched the files")
			}
			if !strings.Contains(p.Logs(), "restore the state file and the checkpoint") {
				t.Error("the log does not say what to restore")
			}
			good.write(t, p)
			eventuallyReady(t, p)
			if _, err := encrypt(t.Context()); err != nil {
				t.Errorf("Encrypt after the files were put back: %v", err)
			}
		})
	}
}

// registryPair are the contents of a provider's two files; "" stands for no file.
type registryPair struct{ state, checkpoint string }

func pairOf(t *testing.T, p *stack.Provider) (f registryPair) {
	t.Helper()
	for name, content := range map[string]*string{p.Files.State: &f.state, p.Files.State + ".checkpoint": &f.checkpoint} {
		b, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		*content = string(b)
	}
	return f
}

func (f registryPair) write(t *testing.T, p *stack.Provider) {
	t.Helper()
	for name, content := range map[string]string{p.Files.State: f.state, p.Files.State + ".checkpoint": f.checkpoint} {
		err := os.Remove(name)
		if content != "" {
			err = os.WriteFile(name, []byte(content), 0o600)
		}
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// TestAKeyThatWasReplaced: the key is deleted in OpenBao and one of the same name
// is created. Its first version is another version 1.
func TestAKeyThatWasReplaced(t *testing.T) {
	t.Parallel()
	tr := transit(t)
	p := stacktest.Provider(t, binary(t), tr, stack.ProviderConfig{})
	before := pairOf(t, p)
	// The creation time counts in whole seconds.
	created, err := tr.ReadKey(t.Context(), tr.Key())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next second", func() error {
		if time.Now().Unix() <= created.Created[1].Unix() {
			return errors.New("still the same second")
		}
		return nil
	})
	if err := tr.DeleteKey(t.Context(), tr.Key()); err != nil {
		t.Fatal(err)
	}
	if err := tr.CreateKey(t.Context(), tr.Key(), nil); err != nil {
		t.Fatal(err)
	}
	eventuallyReason(t, p, "identity_drift")
	if _, err := kmsClient(t, p).Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte("x")}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Encrypt under a replaced key: %v, want FailedPrecondition", err)
	}
	if pairOf(t, p) != before {
		t.Error("the registry changed")
	}
	if !strings.Contains(p.Logs(), "restore the original key") {
		t.Error("the log does not say what to restore")
	}
}
