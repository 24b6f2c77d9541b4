package kms

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
)

// transitFailures are the causes that Transit's client may give.
var transitFailures = []fault.Cause{
	fault.CiphertextRefused, fault.RequestRefused, fault.KeyMissing, fault.PolicyDenied, fault.Unauthenticated,
	fault.LoginRejected, fault.RecoveryDelayed, fault.RateLimited, fault.Sealed, fault.Unavailable, fault.TLSFailed,
	fault.DNSFailed, fault.ConnectionFailed, fault.TimedOut, fault.BreakerOpen, fault.ResponseOverLimit,
	fault.AnswerInvalid, fault.DenialDelayed,
}

func TestTransitFailuresLeaveAsTheTableSays(t *testing.T) {
	f := start(t)
	for _, cause := range transitFailures {
		failure := fmt.Errorf("post https://bao/v1/canary-mount/encrypt/canary-key: %w", &fault.Error{
			Cause: cause, Op: "call Transit", HTTPStatus: 400,
			Err: &url.Error{Op: "Post", URL: "https://bao/v1/canary-mount/encrypt/canary-key", Err: errors.New("canary-text")},
		})
		f.transit.encrypt = func(context.Context, *identity.Binding, []byte) ([]byte, error) { return nil, failure }
		f.transit.decrypt = func(context.Context, *identity.Binding, []byte) ([]byte, error) { return nil, failure }
		_, err := f.encrypt()
		f.wantError(t, err, "Encrypt", cause)
		_, err = f.client.Decrypt(context.Background(), f.decryptRequest(t, kmstest.Active))
		f.wantError(t, err, "Decrypt", cause)
	}
	if strings.Contains(f.log.String(), "canary") {
		t.Errorf("the log holds a canary:\n%s", f.log)
	}
}

func TestUnclassifiedFailuresLeaveWithoutTheirText(t *testing.T) {
	f := start(t)
	f.transit.encrypt = func(context.Context, *identity.Binding, []byte) ([]byte, error) {
		return nil, errors.New("canary-text")
	}
	_, err := f.encrypt()
	f.wantError(t, err, "Encrypt", fault.Unknown)
	if strings.Contains(f.log.String(), "canary") {
		t.Errorf("the log holds a canary:\n%s", f.log)
	}
}

// block makes Transit wait until its context ends, and reports that it was
// reached.
func block(f *fixture, answer func(ctx context.Context) error) (reached chan struct{}) {
	reached = make(chan struct{}, 100)
	f.transit.encrypt = func(ctx context.Context, _ *identity.Binding, _ []byte) ([]byte, error) {
		reached <- struct{}{}
		<-ctx.Done()
		return nil, answer(ctx)
	}
	return reached
}

// The caller's cancellation and deadline win over whatever the operation made of
// them.
func TestTheCallersContextWins(t *testing.T) {
	answers := map[string]func(context.Context) error{
		"its own error":       func(ctx context.Context) error { return ctx.Err() },
		"a connection error":  func(context.Context) error { return fault.New(fault.ConnectionFailed, "encrypt", "") },
		"an unknown error":    func(context.Context) error { return errors.New("broken pipe") },
		"a wrapped ctx error": func(ctx context.Context) error { return fault.Wrap(fault.Unavailable, "encrypt", ctx.Err()) },
	}
	for name, answer := range answers {
		t.Run("cancelled, Transit returns "+name, func(t *testing.T) {
			f := start(t)
			reached := block(f, answer)
			ctx, cancel := context.WithCancel(context.Background())
			go func() { <-reached; cancel() }()
			_, err := f.client.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: []byte("seed")})
			if grpcstatus.Code(err) != codes.Canceled {
				t.Errorf("the caller sees %v, want Canceled", err)
			}
			want := done{"Encrypt", codes.Canceled, fault.ClassCanceled}
			eventually(t, "the server counts a cancellation", func() bool { return f.observed.last() == want })
		})
		t.Run("deadline, Transit returns "+name, func(t *testing.T) {
			f := start(t)
			reached := block(f, answer)
			// On a busy machine a short deadline may pass before the request even
			// leaves: then it proves nothing, and a longer one is tried.
			for timeout := 50 * time.Millisecond; len(reached) == 0; timeout *= 2 {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				_, err := f.client.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: []byte("seed")})
				cancel()
				if grpcstatus.Code(err) != codes.DeadlineExceeded {
					t.Fatalf("the caller sees %v, want DeadlineExceeded", err)
				}
			}
			// When the deadline's timer and the client's reset race, the server may
			// see either, but never an error of OpenBao's.
			eventually(t, "the server counts the caller's end", func() bool {
				got := f.observed.last()
				return got == done{"Encrypt", codes.DeadlineExceeded, fault.ClassTimeout} || got == done{"Encrypt", codes.Canceled, fault.ClassCanceled}
			})
		})
	}
}

func TestContextErrorsKeepTheirCode(t *testing.T) {
	f := start(t)
	expired, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	cancelled, cancel2 := context.WithCancel(context.Background())
	cancel2()
	for _, c := range []struct {
		ctx   context.Context
		cause fault.Cause
	}{{expired, fault.DeadlineExceeded}, {cancelled, fault.Canceled}} {
		// Even over a fault of the request itself.
		_, err := f.service.Encrypt(c.ctx, &kmsapi.EncryptRequest{})
		f.wantError(t, err, "Encrypt", c.cause)
		f.discover.discover = func(ctx context.Context, _ string) error { return ctx.Err() }
		req, _ := unknownRequest(t, f)
		req.KeyId = identityOfNobody
		_, err = f.service.Decrypt(c.ctx, req)
		f.wantError(t, err, "Decrypt", c.cause)
	}
}

// identityOfNobody is well formed and belongs to no registry.
var identityOfNobody = "obk2." + identity.Hash("nobody")

func TestPanicsAreRecovered(t *testing.T) {
	f := start(t)
	f.transit.encrypt = func(context.Context, *identity.Binding, []byte) ([]byte, error) { panic("canary-value") }
	f.transit.decrypt = func(context.Context, *identity.Binding, []byte) ([]byte, error) {
		var none []string
		return []byte(none[len("canary-value")]), nil
	}
	_, err := f.encrypt()
	f.wantError(t, err, "Encrypt", fault.Panicked)
	_, err = f.client.Decrypt(context.Background(), f.decryptRequest(t, kmstest.Active))
	f.wantError(t, err, "Decrypt", fault.Panicked)

	log := f.log.String()
	if strings.Contains(log, "canary") {
		t.Errorf("the value of a panic is logged:\n%s", log)
	}
	if !strings.Contains(log, `"level":"error"`) || strings.Count(log, "policy_test.go:") != 2 {
		t.Errorf("the log does not say where the panics happened:\n%s", log)
	}
	if f.observed.flying("Encrypt") != 0 || f.observed.flying("Decrypt") != 0 {
		t.Error("a panicked request counts as in flight")
	}
	if got := f.transit.lastPlaintext(); string(got) != "\x00\x00\x00\x00" {
		t.Errorf("the plaintext is %q after the panic, want zeroes", got)
	}
	f.transit.encrypt = nil
	if _, err := f.encrypt(); err != nil {
		t.Errorf("the next Encrypt fails: %v", err)
	}
}

// Exactly as many as the cap are served at one time; what comes on top is
// refused at once, and the caps of the methods are apart.
func TestCaps(t *testing.T) {
	const cap = 5
	f := start(t, func(o *Options) { o.Caps = Caps{Status: 1, Encrypt: cap, Decrypt: 2} })
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	f.transit.encrypt = func(_ context.Context, b *identity.Binding, plaintext []byte) ([]byte, error) {
		arrived <- struct{}{}
		<-release
		return ciphertextOf(b.Version(), plaintext), nil
	}
	held := make(chan error, cap)
	for range cap {
		go func() { _, err := f.encrypt(); held <- err }()
	}
	for range cap {
		<-arrived
	}
	for range 3 {
		_, err := f.encrypt()
		s, _ := grpcstatus.FromError(err)
		if s.Code() != codes.ResourceExhausted || s.Message() != fault.ConcurrencyLimited.Text() {
			t.Errorf("request above the cap: %v, want ResourceExhausted", err)
		}
	}
	if got := f.observed.flying("Encrypt"); got != cap {
		t.Errorf("%d requests in flight, want %d", got, cap)
	}
	if got := f.observed.rejected["Encrypt"]; got != 3 {
		t.Errorf("%d rejections counted, want 3", got)
	}
	if _, err := f.client.Status(context.Background(), &kmsapi.StatusRequest{}); err != nil {
		t.Errorf("Status while Encrypt is full: %v", err)
	}
	if _, err := f.client.Decrypt(context.Background(), f.decryptRequest(t, kmstest.Active)); err != nil {
		t.Errorf("Decrypt while Encrypt is full: %v", err)
	}
	close(release)
	for range cap {
		if err := <-held; err != nil {
			t.Errorf("a held request: %v", err)
		}
	}
	if _, err := f.encrypt(); err != nil {
		t.Errorf("Encrypt after the others: %v", err)
	}
	if log := f.log.String(); strings.Count(log, `"error_class":"concurrency_limit"`) != 3 {
		t.Errorf("the log does not hold three rejections:\n%s", log)
	}
}

func TestRequestLog(t *testing.T) {
	f := start(t)
	if _, err := f.encrypt(); err != nil {
		t.Fatal(err)
	}
	req := f.decryptRequest(t, kmstest.Retired)
	req.Annotations["aad-version.kms.openbao.org"] = []byte("v9")
	_, err := f.client.Decrypt(context.Background(), req)
	f.wantError(t, err, "Decrypt", fault.AnnotationsInvalid)

	lines := strings.Split(strings.TrimSpace(f.log.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("the log has %d lines, want 2:\n%s", len(lines), f.log)
	}
	active, retired := kmstest.Binding(t, f.registry, kmstest.Active), kmstest.Binding(t, f.registry, kmstest.Retired)
	for i, wants := range [][]string{
		{`"level":"debug"`, `"message":"kms.request"`, `"operation":"Encrypt"`, `"status":"OK"`, `"duration_ms":`,
			`"key_id_hash":"` + active.KeyIDHash() + `"`, `"transit_key_version":3`},
		{`"level":"warn"`, `"message":"kms.request"`, `"operation":"Decrypt"`, `"status":"InvalidArgument"`, `"duration_ms":`,
			`"key_id_hash":"` + retired.KeyIDHash() + `"`, `"transit_key_version":2`, `"error_class":"annotation_invalid"`,
			"annotations: aad-version.kms.openbao.org is malformed"},
	} {
		for _, want := range wants {
			if !strings.Contains(lines[i], want) {
				t.Errorf("line %d has no %s:\n%s", i+1, want, lines[i])
			}
		}
		if strings.Contains(lines[i], "[redacted]") {
			t.Errorf("the logger redacts part of its own event:\n%s", lines[i])
		}
	}
	if strings.Contains(f.log.String(), active.KeyID()) || strings.Contains(f.log.String(), retired.KeyID()) {
		t.Errorf("the log holds a raw key_id:\n%s", f.log)
	}
}

// A stream on which no message comes holds no place.
func TestASilentCallerHoldsNoPlace(t *testing.T) {
	f := start(t, func(o *Options) { o.Caps = Caps{Status: 1, Encrypt: 1, Decrypt: 1} })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 20 {
		// Headers only: the request itself is never sent.
		if _, err := f.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/v2.KeyManagementService/Encrypt"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.encrypt(); err != nil {
		t.Errorf("Encrypt beside silent callers: %v", err)
	}
}
