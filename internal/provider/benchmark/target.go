package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/backend"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kmsclient"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/store"
	"github.com/baokms/baokms/internal/provider/transit"
)

// kms is the provider's socket. *kmsclient.Client is one.
type kms interface {
	Status(ctx context.Context) (*kmsapi.StatusResponse, error)
	Encrypt(ctx context.Context, uid string, plaintext []byte) (*kmsapi.EncryptResponse, error)
	Decrypt(ctx context.Context, uid string, e *kmsapi.EncryptResponse) (*kmsapi.DecryptResponse, error)
}

// bare is Transit without the provider. *transit.Client is one.
type bare interface {
	Encrypt(ctx context.Context, k transit.Binding, plaintext []byte) ([]byte, error)
	Decrypt(ctx context.Context, k transit.Binding, ciphertext []byte) ([]byte, error)
}

// target is both sides of the comparison and the key that both use.
type target struct {
	kms     kms
	bare    bare
	binding *identity.Binding
	// annotations are what the provider would answer with.
	annotations map[string][]byte
	ends        []func()
}

func (t *target) close() {
	for _, end := range t.ends {
		end()
	}
}

// activeEntry is the snapshot that the node's files say is active.
func activeEntry(c *config.Config) (*registry.Entry, error) {
	found, err := store.Inspect(c.State.Path)
	var bad *store.Error
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, errors.New("state.path: this user may not read the key registry: run the benchmark as the provider's user")
	case errors.As(err, &bad):
		return nil, fmt.Errorf("state.path: the key registry cannot be used: %s: %s", bad.Problem, runDoctor)
	case err != nil:
		return nil, fmt.Errorf("state.path: %w", err)
	case found.Registry == nil:
		return nil, errors.New("state.path: there is no key registry yet: start the provider, which makes it, and run the benchmark again")
	case found.Registry.Fingerprint() != c.Fingerprint():
		return nil, errors.New("state.path: the key registry was made under another configuration: run the benchmark with the configuration of the provider that runs")
	}
	return found.Registry.Active(), nil
}

// connect makes both ways to the key, and checks that the provider on the socket
// is healthy and uses it.
func connect(ctx context.Context, o Options, b *identity.Binding) (_ *target, err error) {
	t := &target{binding: b, annotations: b.Annotations(o.Build.Version)}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	client, err := kmsclient.New(o.Config.Server.SocketPath)
	if err != nil {
		return nil, err
	}
	t.kms, t.ends = client, append(t.ends, func() { _ = client.Close() })
	if err := t.checkProvider(ctx); err != nil {
		return nil, err
	}
	// The same connection pool as the provider's.
	way, err := backend.Open(o.Config, backend.Options{})
	if err != nil {
		return nil, err
	}
	t.bare, t.ends = way.Transit, append(t.ends, way.Close)
	return t, checkWay(ctx, way)
}

// checkProvider asks the provider once for its Status.
func (t *target) checkProvider(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := t.kms.Status(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("the provider's first Status: %w", socketFailure(err))
	case r.Healthz != healthy:
		return fmt.Errorf("the provider is not healthy (%s), so it does not encrypt: %s", reason(r.Healthz), runDoctor)
	case r.KeyId != t.binding.KeyID():
		return errors.New("the provider on server.socketPath uses another key than its state file names: if a new version was promoted just now, run the benchmark again; else " + runDoctor)
	}
	return nil
}

// checkWay logs in and makes sure that no encryption can create a key (design:
// overview, invariant 9): this process may reach another OpenBao than the
// provider, whose own probe has looked.
func checkWay(ctx context.Context, way *backend.Backend) error {
	disabled, err := way.Transit.ReadUpsertDisabled(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("preparing the bare Transit calls: %w", bareFailure(err))
	case !disabled:
		return errors.New("the Transit mount lets an encryption create a key: set disable_upsert on it before anything is encrypted")
	}
	return nil
}
