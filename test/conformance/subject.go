package conformance

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kmsapi "k8s.io/kms/apis/v2"
)

// patience bounds everything that is waited for. It is generous: under a full test run two cores are shared.
const patience = 60 * time.Second

// canary is in every plaintext that is large enough, so that a plaintext is recognised wherever it comes out.
var canary = "conformance-canary-" + rand.Text()

var plaintextCount atomic.Int64

// plaintextOf is a plaintext of so many bytes, different each time when it is large enough.
func plaintextOf(size int) []byte {
	text := fmt.Sprintf("%s/%d/", canary, plaintextCount.Add(1))
	return []byte((text + strings.Repeat("x", size))[:size])
}

// subject is a target with a client on its socket.
type subject struct {
	Target
	conn *grpc.ClientConn
	kms  kmsapi.KeyManagementServiceClient
}

// newSubject connects to a target. Every error that comes over the connection is held against the error policy.
func newSubject(t *testing.T, target Target) *subject {
	t.Helper()
	s := &subject{Target: target}
	conn, err := grpc.NewClient("unix://"+target.Socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if err != nil {
				s.checkWords(t, method, err)
			}
			return err
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s.conn, s.kms = conn, kmsapi.NewKeyManagementServiceClient(conn)
	return s
}

// freshSubject is a subject on a provider of its own. What that has put out is searched for secrets when the test ends.
func (s *subject) freshSubject(t *testing.T, settings Settings) *subject {
	t.Helper()
	f := newSubject(t, s.Fresh(t, settings))
	if f.Output != nil {
		t.Cleanup(func() { f.searchOutput(t) })
	}
	return f
}

// limited is a context for one step.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

// status asks for a healthy Status.
func (s *subject) status(t *testing.T) *kmsapi.StatusResponse {
	t.Helper()
	r, err := s.kms.Status(limited(t), &kmsapi.StatusRequest{})
	if err != nil {
		t.Fatalf("Status: %v", err)
	}
	if r.Version != "v2" || r.Healthz != "ok" || r.KeyId == "" || len(r.KeyId) >= 1024 {
		t.Fatalf("Status answers version %q, healthz %q and a key_id of %d bytes; want v2, ok and 1 to 1023 bytes", r.Version, r.Healthz, len(r.KeyId))
	}
	return r
}

// encrypt encrypts and checks the answer against the limits.
func (s *subject) encrypt(t *testing.T, plaintext []byte) *kmsapi.EncryptResponse {
	t.Helper()
	r, err := s.kms.Encrypt(limited(t), &kmsapi.EncryptRequest{Plaintext: plaintext, Uid: uid()})
	if err != nil {
		t.Fatalf("Encrypt of %d bytes: %v", len(plaintext), err)
	}
	checkEncrypted(t, r, plaintext)
	return r
}

func uid() string { return "conformance-" + rand.Text() }

// decryptRequest is the request that an API server makes of an Encrypt response. Its maps and slices are its own.
func decryptRequest(r *kmsapi.EncryptResponse) *kmsapi.DecryptRequest {
	annotations := maps.Clone(r.Annotations)
	if annotations == nil {
		annotations = map[string][]byte{}
	}
	return &kmsapi.DecryptRequest{
		Ciphertext: append([]byte(nil), r.Ciphertext...), KeyId: r.KeyId, Annotations: annotations, Uid: uid(),
	}
}

// decrypts asserts that a request decrypts to a plaintext.
func (s *subject) decrypts(t *testing.T, request *kmsapi.DecryptRequest, want []byte) {
	t.Helper()
	r, err := s.kms.Decrypt(limited(t), request)
	if err != nil {
		t.Errorf("Decrypt: %v", err)
		return
	}
	if string(r.Plaintext) != string(want) {
		t.Errorf("Decrypt gives %d bytes that are not the %d bytes that were encrypted", len(r.Plaintext), len(want))
	}
}

// requests are the paths of the requests that OpenBao has seen while f ran.
func (s *subject) requests(t *testing.T, f func()) []string {
	t.Helper()
	before, err := s.Seen()
	if err != nil {
		t.Fatal(err)
	}
	f()
	after, err := s.Seen()
	if err != nil {
		t.Fatal(err)
	}
	return after[len(before):]
}

// untouched asserts that OpenBao sees nothing while f runs, where that can be seen.
func (s *subject) untouched(t *testing.T, f func()) {
	t.Helper()
	if s.Seen == nil {
		f()
		return
	}
	if paths := s.requests(t, f); len(paths) != 0 {
		t.Errorf("OpenBao saw %d requests, the first to %q; want none", len(paths), paths[0])
	}
}

// touched asserts that OpenBao sees exactly one request, on a path with this part, while f runs, where that can be seen.
func (s *subject) touched(t *testing.T, part string, f func()) {
	t.Helper()
	if s.Seen == nil {
		f()
		return
	}
	if paths := s.requests(t, f); len(paths) != 1 || !strings.Contains("/"+paths[0], part) {
		t.Errorf("OpenBao saw %d requests %q; want one with %s", len(paths), paths, part)
	}
}

// besideProbes is the subject that counts calls of Transit only: another provider on the same OpenBao may be probing meanwhile.
func (s *subject) besideProbes() *subject {
	b := *s
	if s.Seen != nil {
		b.Seen = func() ([]string, error) {
			paths, err := s.Seen()
			return slices.DeleteFunc(paths, func(path string) bool {
				return !strings.Contains(path, pathEncrypt) && !strings.Contains(path, pathDecrypt)
			}), err
		}
	}
	return &b
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx := limited(t)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", patience, what)
		case <-ticker.C:
		}
	}
}

// traces are the forms in which a text could come out.
func traces(text string) []string {
	// The part that is the same whatever comes before it: base64 works in groups of three bytes.
	out := []string{text}
	for skip := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(text[skip:]))
		out = append(out, encoded[:len(encoded)-len(encoded)%4-4])
	}
	return out
}
