package kms

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
	"github.com/baokms/baokms/internal/provider/observe"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/provider/version"
)

// instantTransit costs nothing, so that what is left is ours.
type instantTransit struct{ ciphertext, plaintext []byte }

func (i instantTransit) Encrypt(context.Context, *identity.Binding, []byte) ([]byte, error) {
	return i.ciphertext, nil
}

func (i instantTransit) Decrypt(context.Context, *identity.Binding, []byte) ([]byte, error) {
	return i.plaintext, nil
}

// benchService is wired as in production: real metrics, a logger at its default
// level.
func benchService(b *testing.B) (*Service, *fixture) {
	b.Helper()
	r := kmstest.Registry(b)
	board := &status.Board{}
	board.Store(kmstest.Healthy(r))
	log, err := observe.NewLogger(&lockedBuffer{}, "info", "json")
	if err != nil {
		b.Fatal(err)
	}
	s := newService(b, Options{
		Views:         board,
		Transit:       instantTransit{ciphertextOf(kmstest.Active, make([]byte, 64)), make([]byte, 32)},
		Observer:      observe.NewMetrics(version.Get(), board).KMS(),
		Log:           log,
		Caps:          Caps{1024, 1024, 1024},
		PluginVersion: pluginVersion,
	})
	return s, &fixture{registry: r}
}

func BenchmarkStatus(b *testing.B) {
	s, _ := benchService(b)
	req := &kmsapi.StatusRequest{}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Status(context.Background(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncrypt(b *testing.B) {
	s, _ := benchService(b)
	req := &kmsapi.EncryptRequest{Plaintext: make([]byte, 32), Uid: "uid"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Encrypt(context.Background(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecrypt(b *testing.B) {
	s, f := benchService(b)
	req := f.decryptRequest(b, kmstest.Active)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Decrypt(context.Background(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// emptyService answers without a thought: the cost of the hop alone.
type emptyService struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	response *kmsapi.StatusResponse
}

func (e *emptyService) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return e.response, nil
}

// BenchmarkStatusHop compares Status with an empty handler on a default gRPC
// server, 16 callers on one connection (design: testing, benchmarks).
func BenchmarkStatusHop(b *testing.B) {
	s, f := benchService(b)
	empty := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(empty, &emptyService{
		response: &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: f.registry.Active().KeyID},
	})
	for _, c := range []struct {
		name   string
		server *grpc.Server
	}{{"empty", empty}, {"provider", NewServer(s)}} {
		path := listen(b, c.server)
		b.Run(c.name, func(b *testing.B) {
			const callers = 16
			client := kmsapi.NewKeyManagementServiceClient(dial(b, path))
			var left atomic.Int64
			left.Store(int64(b.N))
			finished := make(chan error, callers)
			b.ReportAllocs()
			b.ResetTimer()
			for range callers {
				go func() {
					for left.Add(-1) >= 0 {
						if _, err := client.Status(context.Background(), &kmsapi.StatusRequest{}); err != nil {
							finished <- err
							return
						}
					}
					finished <- nil
				}()
			}
			for range callers {
				if err := <-finished; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
