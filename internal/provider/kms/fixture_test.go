package kms

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
	"github.com/baokms/baokms/internal/provider/observe"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/socket"
	"github.com/baokms/baokms/internal/provider/status"
)

const pluginVersion = "v0.0.0-test"

// mask makes a "ciphertext" that shows whether a plaintext leaked.
func mask(b []byte) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= 0xff
	}
	return out
}

// fakeTransit stands in for Transit where the real one cannot be made to fail on
// cue. Its ciphertext names the version and the associated data.
type fakeTransit struct {
	mu        sync.Mutex
	calls     []string
	plaintext []byte // the last slice given to Encrypt, not a copy

	encrypt func(ctx context.Context, b *identity.Binding, plaintext []byte) ([]byte, error)
	decrypt func(ctx context.Context, b *identity.Binding, ciphertext []byte) ([]byte, error)
}

func (f *fakeTransit) Encrypt(ctx context.Context, b *identity.Binding, plaintext []byte) ([]byte, error) {
	f.mu.Lock()
	f.calls = append(f.calls, fmt.Sprintf("encrypt v%d", b.Version()))
	f.plaintext = plaintext
	f.mu.Unlock()
	if f.encrypt != nil {
		return f.encrypt(ctx, b, plaintext)
	}
	return ciphertextOf(b.Version(), plaintext), nil
}

func (f *fakeTransit) Decrypt(ctx context.Context, b *identity.Binding, ciphertext []byte) ([]byte, error) {
	f.mu.Lock()
	f.calls = append(f.calls, fmt.Sprintf("decrypt v%d", b.Version()))
	f.mu.Unlock()
	if f.decrypt != nil {
		return f.decrypt(ctx, b, ciphertext)
	}
	return mask(ciphertext[len(ciphertextOf(b.Version(), nil)):]), nil
}

func ciphertextOf(version int, plaintext []byte) []byte {
	return append(fmt.Appendf(nil, "vault:v%d:", version), mask(plaintext)...)
}

func (f *fakeTransit) called() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

func (f *fakeTransit) lastPlaintext() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plaintext
}

type fakeDiscoverer struct {
	mu       sync.Mutex
	keyIDs   []string
	discover func(ctx context.Context, keyID string) error
}

func (f *fakeDiscoverer) Discover(ctx context.Context, keyID string) error {
	f.mu.Lock()
	f.keyIDs = append(f.keyIDs, keyID)
	f.mu.Unlock()
	return f.discover(ctx, keyID)
}

func (f *fakeDiscoverer) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.keyIDs)
}

// done is one RequestDone.
type done struct {
	method string
	code   codes.Code
	class  fault.Class
}

type recorder struct {
	mu       sync.Mutex
	inFlight map[string]int
	done     []done
	rejected map[string]int
}

func (r *recorder) RequestStarted(method string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight[method]++
}

func (r *recorder) RequestDone(method string, code codes.Code, class fault.Class, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight[method]--
	r.done = append(r.done, done{method, code, class})
}

func (r *recorder) RequestRejected(method string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rejected[method]++
}

func (r *recorder) last() done {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.done) == 0 {
		return done{}
	}
	return r.done[len(r.done)-1]
}

func (r *recorder) flying(method string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inFlight[method]
}

// lockedBuffer takes the log of many goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// fixture is a Service behind a real gRPC server on a real socket.
type fixture struct {
	registry *registry.Registry
	board    *status.Board
	transit  *fakeTransit
	discover *fakeDiscoverer
	observed *recorder
	log      *lockedBuffer
	service  *Service
	conn     *grpc.ClientConn
	client   kmsapi.KeyManagementServiceClient
}

// start serves a healthy provider over kmstest.Registry. change may alter the
// options first.
func start(t *testing.T, change ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{
		registry: kmstest.Registry(t),
		board:    &status.Board{},
		transit:  &fakeTransit{},
		discover: &fakeDiscoverer{discover: func(context.Context, string) error { return nil }},
		observed: &recorder{inFlight: map[string]int{}, rejected: map[string]int{}},
		log:      &lockedBuffer{},
	}
	f.board.Store(kmstest.Healthy(f.registry))
	log, err := observe.NewLogger(f.log, "debug", "json")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Views: f.board, Transit: f.transit, Discoverer: f.discover, Observer: f.observed,
		Log: log, PluginVersion: pluginVersion,
	}
	for _, c := range change {
		c(&o)
	}
	f.service = newService(t, o)
	f.conn = dial(t, listen(t, NewServer(f.service)))
	f.client = kmsapi.NewKeyManagementServiceClient(f.conn)
	return f
}

func newService(tb testing.TB, o Options) *Service {
	tb.Helper()
	s, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// listen serves s on a socket made as the provider makes it, until the test ends.
func listen(tb testing.TB, s *grpc.Server) (path string) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "bk")
	if err != nil {
		tb.Fatal(err)
	}
	path = filepath.Join(dir, "kms.sock")
	l, err := socket.Listen(socket.Options{Path: path, Mode: 0o600, GID: -1})
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	tb.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			tb.Errorf("serve: %v", err)
		}
		if _, err := os.Lstat(path); err == nil {
			tb.Error("the stopped server leaves its socket behind")
		}
		os.RemoveAll(dir)
	})
	return path
}

func dial(tb testing.TB, path string) *grpc.ClientConn {
	tb.Helper()
	conn, err := grpc.NewClient("passthrough:///kms",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// decryptRequest is a valid request for a version of the fixture's registry.
func (f *fixture) decryptRequest(t testing.TB, version int) *kmsapi.DecryptRequest {
	t.Helper()
	b := kmstest.Binding(t, f.registry, version)
	return &kmsapi.DecryptRequest{
		Ciphertext:  ciphertextOf(version, []byte("seed")),
		Uid:         "uid-1",
		KeyId:       b.KeyID(),
		Annotations: b.Annotations("v0.9.0"),
	}
}

func (f *fixture) encrypt() (*kmsapi.EncryptResponse, error) {
	return f.client.Encrypt(context.Background(), &kmsapi.EncryptRequest{Plaintext: []byte("seed"), Uid: "uid-1"})
}

// wantError checks what left: the cause's code and exactly its text, and the
// same code and class at the observer.
func (f *fixture) wantError(t *testing.T, err error, method string, cause fault.Cause) {
	t.Helper()
	s, _ := grpcstatus.FromError(err)
	if s.Code() != cause.Code() || s.Message() != cause.Text() || len(s.Details()) != 0 {
		t.Errorf("%s answered %v %q, want %v %q", method, s.Code(), s.Message(), cause.Code(), cause.Text())
	}
	if got, want := f.observed.last(), (done{method, cause.Code(), cause.Class()}); got != want {
		t.Errorf("observed %+v, want %+v", got, want)
	}
	if line := f.log.String(); !strings.Contains(line, `"operation":"`+method+`"`) || !strings.Contains(line, `"error_class":"`+string(cause.Class())+`"`) {
		t.Errorf("log has no line for %s with class %s:\n%s", method, cause.Class(), line)
	}
}

func wantCalls(t *testing.T, f *fixture, want ...string) {
	t.Helper()
	if got := f.transit.called(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("Transit was called %v, want %v", got, want)
	}
}

// eventually polls a condition: what happens in a server's goroutine cannot be
// waited for otherwise.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
