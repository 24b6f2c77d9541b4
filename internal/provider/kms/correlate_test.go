package kms

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
	"github.com/baokms/baokms/internal/provider/observe"
)

type incidentKey struct{}

// correlator is a Correlate hook that records what it is given.
type correlator struct {
	mu    sync.Mutex
	uids  []string
	asked int // how often attributes were asked for
	off   bool
	bare  bool // returns a nil context
}

func (c *correlator) correlate(ctx context.Context, uid string) (context.Context, func() []slog.Attr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uids = append(c.uids, uid)
	if c.off {
		return nil, nil
	}
	attrs := func() []slog.Attr {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked++
		return []slog.Attr{slog.String("incident_id", "INC-7")}
	}
	if c.bare {
		return nil, attrs
	}
	return context.WithValue(ctx, incidentKey{}, "INC-7"), attrs
}

func (c *correlator) seen() (uids string, asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.uids, " "), c.asked
}

// startCorrelated is start with a hook, at a level of the log.
func startCorrelated(t *testing.T, c *correlator, level string) (f *fixture, log *lockedBuffer) {
	t.Helper()
	log = &lockedBuffer{}
	logger, err := observe.NewLogger(log, level, "json")
	if err != nil {
		t.Fatal(err)
	}
	f = start(t, func(o *Options) { o.Correlate, o.Log = c.correlate, logger })
	return f, log
}

// uid is what the API server calls a request: it must never be logged as it is.
const uid = "8b0a3a6e-CANARY-uid"

func TestCorrelation(t *testing.T) {
	c := &correlator{}
	f, log := startCorrelated(t, c, "debug")
	var within []any
	f.transit.encrypt = func(ctx context.Context, b *identity.Binding, plaintext []byte) ([]byte, error) {
		within = append(within, ctx.Value(incidentKey{}))
		return ciphertextOf(b.Version(), plaintext), nil
	}
	f.transit.decrypt = func(ctx context.Context, b *identity.Binding, _ []byte) ([]byte, error) {
		within = append(within, ctx.Value(incidentKey{}))
		return nil, fault.New(fault.Sealed, "decrypt", "")
	}
	if _, err := f.client.Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte("seed"), Uid: uid}); err != nil {
		t.Fatal(err)
	}
	req := f.decryptRequest(t, kmstest.Active)
	req.Uid = uid
	if _, err := f.client.Decrypt(t.Context(), req); grpcstatus.Code(err) != codes.Unavailable {
		t.Fatalf("Decrypt: %v", err)
	}
	// A request that fails before Transit is correlated as well.
	if _, err := f.client.Encrypt(t.Context(), &kmsapi.EncryptRequest{Uid: uid}); grpcstatus.Code(err) != codes.InvalidArgument {
		t.Fatalf("an empty Encrypt: %v", err)
	}
	if _, err := f.client.Status(t.Context(), &kmsapi.StatusRequest{}); err != nil {
		t.Fatal(err)
	}

	if len(within) != 2 || within[0] != "INC-7" || within[1] != "INC-7" {
		t.Errorf("Transit's contexts hold %v, want the incident twice", within)
	}
	if uids, asked := c.seen(); uids != uid+" "+uid+" "+uid || asked != 3 {
		t.Errorf("correlated %q and asked %d times, want the uid three times and 3", uids, asked)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("the log has %d lines, want 4:\n%s", len(lines), log)
	}
	for i, want := range []bool{true, true, true, false} {
		if got := strings.Contains(lines[i], `"incident_id":"INC-7"`); got != want {
			t.Errorf("line %d: incident_id is there: %v, want %v:\n%s", i+1, got, want, lines[i])
		}
	}
	if strings.Contains(log.String(), "CANARY") {
		t.Errorf("the log holds the uid:\n%s", log)
	}
}

// A request that met the cap never started, and is correlated all the same.
func TestCorrelationOfARejection(t *testing.T) {
	c := &correlator{}
	log := &lockedBuffer{}
	logger, err := observe.NewLogger(log, "debug", "json")
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, func(o *Options) {
		o.Correlate, o.Log, o.Caps = c.correlate, logger, Caps{Status: 1, Encrypt: 1, Decrypt: 1}
	})
	arrived, release := make(chan struct{}), make(chan struct{})
	f.transit.encrypt = func(_ context.Context, b *identity.Binding, plaintext []byte) ([]byte, error) {
		close(arrived)
		<-release
		return ciphertextOf(b.Version(), plaintext), nil
	}
	held := make(chan error, 1)
	go func() { _, err := f.encrypt(); held <- err }()
	<-arrived
	_, err = f.client.Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte("seed"), Uid: uid})
	close(release)
	if grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Errorf("the second Encrypt: %v", err)
	}
	if err := <-held; err != nil {
		t.Errorf("the first Encrypt: %v", err)
	}
	first, _, _ := strings.Cut(log.String(), "\n")
	if !strings.Contains(first, `"error_class":"concurrency_limit"`) || !strings.Contains(first, `"incident_id":"INC-7"`) {
		t.Errorf("the rejection is logged as\n%s", first)
	}
}

func TestCorrelationThatIsOff(t *testing.T) {
	for name, c := range map[string]*correlator{"off": {off: true}, "without a context": {bare: true}} {
		t.Run(name, func(t *testing.T) {
			f, log := startCorrelated(t, c, "debug")
			if _, err := f.encrypt(); err != nil {
				t.Errorf("Encrypt: %v", err)
			}
			if got := strings.Contains(log.String(), "incident_id"); got != c.bare {
				t.Errorf("incident_id in the log: %v, want %v:\n%s", got, c.bare, log)
			}
		})
	}
}

// Attributes cost something: nobody asks for those of a line that is not
// written.
func TestCorrelationOfAnUnwrittenLine(t *testing.T) {
	c := &correlator{}
	f, log := startCorrelated(t, c, "info")
	if _, err := f.encrypt(); err != nil {
		t.Fatal(err)
	}
	if _, asked := c.seen(); asked != 0 || log.String() != "" {
		t.Errorf("asked %d times, logged %q, want nothing", asked, log)
	}
}

// A hook that panics is a defect of ours like any other.
func TestCorrelationThatPanics(t *testing.T) {
	f := start(t, func(o *Options) {
		o.Correlate = func(context.Context, string) (context.Context, func() []slog.Attr) { panic("canary-value") }
	})
	_, err := f.encrypt()
	f.wantError(t, err, "Encrypt", fault.Panicked)
	if got := f.transit.called(); len(got) != 0 {
		t.Errorf("Transit was called: %v", got)
	}
	if strings.Contains(f.log.String(), "canary") {
		t.Errorf("the value of a panic is logged:\n%s", f.log)
	}
}
