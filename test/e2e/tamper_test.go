package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

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
	tr := transit(t)
	p := stacktest.Provider(t, binary(t), tr, stack.ProviderConfig{Fields: map[string]any{
		"rotation.requireStableObservationCount": 1, "rotation.activationDelay": "1ms",
	}})
	kms := kmsClient(t, p)
	older, err := os.ReadFile(p.Files.State)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Rotate(t.Context(), tr.Key()); err != nil {
		t.Fatal(err)
	}
	eventuallyActive(t, p, 2)
	good, err := os.ReadFile(p.Files.State)
	if err != nil {
		t.Fatal(err)
	}
	encrypt := func(ctx context.Context) (*kmsapi.EncryptResponse, error) {
		return kms.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: []byte("a seed"), Uid: "tamper"})
	}
	sealed, err := encrypt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"an older copy": older,
		"an edit":       []byte(strings.Replace(string(good), `"retired"`, `"removed"`, 1)),
		"a half":        good[:len(good)/2],
		"nothing":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			if content == nil {
				err = os.Remove(p.Files.State)
			} else {
				err = os.WriteFile(p.Files.State, content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
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
			now, err := os.ReadFile(p.Files.State)
			if content == nil && !os.IsNotExist(err) || content != nil && string(now) != string(content) {
				t.Errorf("the provider touched the file: %v", err)
			}
			if !strings.Contains(p.Logs(), "restore the state file and the checkpoint") {
				t.Error("the log does not say what to restore")
			}
			if err := os.WriteFile(p.Files.State, good, 0o600); err != nil {
				t.Fatal(err)
			}
			eventuallyReady(t, p)
			if _, err := encrypt(t.Context()); err != nil {
				t.Errorf("Encrypt after the file was put back: %v", err)
			}
		})
	}
}
