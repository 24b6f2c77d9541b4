package benchmark

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	grpcstatus "google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/store"
	"github.com/baokms/baokms/internal/provider/transit"
	"github.com/baokms/baokms/internal/provider/version"
)

// testConfig is a valid configuration whose files and socket would be in dir,
// with lines added to its server section.
func testConfig(t *testing.T, dir string, server ...string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(`configVersion: v1alpha1
server:
  socketGroup: "1001"
  socketPath: `+filepath.Join(dir, "kms.sock")+`
`+strings.Join(server, "\n")+`
openbao:
  address: https://bao.example.org:8200
  caCertFile: `+filepath.Join(dir, "ca.pem")+`
  tlsServerName: bao.example.org
  instanceId: bao
auth:
  jwt: {mountPath: auth/jwt, role: kms, jwtFile: `+filepath.Join(dir, "jwt")+`}
transit:
  mountPath: the-mount
  keyName: the-key
  keyIdScope: {providerName: the-provider, clusterId: c, transitMountId: m, keyLineageId: l}
state:
  path: `+filepath.Join(dir, "state", "key-registry.json")+`
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shortDir has a path that a socket fits into.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// bindingOf is a version of the configuration's key.
func bindingOf(t *testing.T, c *config.Config, v int) *identity.Binding {
	t.Helper()
	b, err := c.Scope().Bind(v, 1_700_000_000)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// saveState writes the state of a node whose version 1 is active.
func saveState(t *testing.T, c *config.Config, fingerprint string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(c.State.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(c.State.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Load(fingerprint); err != nil {
		t.Fatal(err)
	}
	r, err := registry.Bootstrap(c.Scope(), fingerprint, registry.Metadata{Latest: 1, CreatedAtUnix: map[int]int64{1: 1_700_000_000}}, 1_700_000_100)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Save(r); err != nil {
		t.Fatal(err)
	}
}

// wrap and unwrap are a Transit that anybody can open.
func wrap(v int, plaintext []byte) []byte {
	return fmt.Appendf(nil, "vault:v%d:%s", v, base64.StdEncoding.EncodeToString(plaintext))
}

func unwrap(ciphertext []byte) []byte {
	plaintext, _ := base64.StdEncoding.DecodeString(string(ciphertext[bytes.LastIndexByte(ciphertext, ':')+1:]))
	return plaintext
}

// fakeKMS is a provider that takes a while for each call. A test sets what it
// answers instead.
type fakeKMS struct {
	binding *identity.Binding
	takes   time.Duration

	status  func() (*kmsapi.StatusResponse, error)
	encrypt func(plaintext []byte) (*kmsapi.EncryptResponse, error)
	decrypt func(e *kmsapi.EncryptResponse) (*kmsapi.DecryptResponse, error)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return grpcstatus.FromContextError(ctx.Err()).Err()
	case <-time.After(d): // synthetic: every test that uses it is in a bubble
		return nil
	}
}

func (f *fakeKMS) Status(ctx context.Context) (*kmsapi.StatusResponse, error) {
	if f.status != nil {
		return f.status()
	}
	return &kmsapi.StatusResponse{Version: "v2", Healthz: healthy, KeyId: f.binding.KeyID()}, sleep(ctx, f.takes/10)
}

func (f *fakeKMS) Encrypt(ctx context.Context, _ string, plaintext []byte) (*kmsapi.EncryptResponse, error) {
	if f.encrypt != nil {
		return f.encrypt(plaintext)
	}
	return &kmsapi.EncryptResponse{Ciphertext: wrap(f.binding.Version(), plaintext), KeyId: f.binding.KeyID()}, sleep(ctx, f.takes)
}

func (f *fakeKMS) Decrypt(ctx context.Context, _ string, e *kmsapi.EncryptResponse) (*kmsapi.DecryptResponse, error) {
	if f.decrypt != nil {
		return f.decrypt(e)
	}
	return &kmsapi.DecryptResponse{Plaintext: unwrap(e.Ciphertext)}, sleep(ctx, f.takes)
}

// fakeBare is Transit the same way.
type fakeBare struct {
	takes   time.Duration
	encrypt func(plaintext []byte) ([]byte, error)
	decrypt func(ciphertext []byte) ([]byte, error)
}

func (f *fakeBare) Encrypt(ctx context.Context, k transit.Binding, plaintext []byte) ([]byte, error) {
	if f.encrypt != nil {
		return f.encrypt(plaintext)
	}
	return wrap(k.Version(), plaintext), sleep(ctx, f.takes)
}

func (f *fakeBare) Decrypt(ctx context.Context, _ transit.Binding, ciphertext []byte) ([]byte, error) {
	if f.decrypt != nil {
		return f.decrypt(ciphertext)
	}
	return unwrap(ciphertext), sleep(ctx, f.takes)
}

// fakes are both sides: 10 ms through the socket, 5 ms bare.
func fakes(t *testing.T, c *config.Config) (*target, *fakeKMS, *fakeBare) {
	t.Helper()
	b := bindingOf(t, c, 3)
	k, transit := &fakeKMS{binding: b, takes: 10 * time.Millisecond}, &fakeBare{takes: 5 * time.Millisecond}
	return &target{kms: k, bare: transit, binding: b, annotations: b.Annotations(version.Get().Version)}, k, transit
}

// fakeServer answers Status on a socket and nothing else.
type fakeServer struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	answer *kmsapi.StatusResponse
}

func (f *fakeServer) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return f.answer, nil
}

// serveStatus serves a Status at path, or no KMS v2 at all when it is nil.
func serveStatus(t *testing.T, path string, answer *kmsapi.StatusResponse) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	if answer != nil {
		kmsapi.RegisterKeyManagementServiceServer(s, &fakeServer{answer: answer})
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }() // ends with Stop
	t.Cleanup(func() { s.Stop(); <-served })
}
