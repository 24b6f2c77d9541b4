package resilience

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/test/stack"
)

// callers is how many clients call at once.
const callers = 32

// method is what a caller asks for.
type method string

const (
	encrypt method = "encrypt"
	decrypt method = "decrypt"
)

// call is one that has ended.
type call struct {
	method       method
	began, ended time.Time
	deadline     time.Duration
	code         codes.Code
	text         string
}

// failed is any end but success.
func (c call) failed() bool { return c.code != codes.OK }

// load is 32 callers that encrypt and decrypt in turn, and one that asks for Status, until stop. Each caller checks every answer: a
// ciphertext under another key_id or a wrong plaintext is an error of the test. A caller keeps its last ciphertext, so that it decrypts
// also while nothing can be encrypted.
type load struct {
	t    *testing.T
	conn *grpc.ClientConn
	kms  kmsapi.KeyManagementServiceClient
	// deadlines are the callers' own, in turn; pause is what each waits between two calls.
	deadlines []time.Duration
	pause     time.Duration
	keyID     string

	end     context.CancelFunc
	running sync.WaitGroup
	// lastFailure and since are read while the load runs: when a call last failed, in nanoseconds of the Unix clock, and how many calls of
	// each method have succeeded since.
	lastFailure         atomic.Int64
	encrypted, decrypts atomic.Int64

	mu       sync.Mutex
	calls    []call
	statuses []statusCall
}

// statusCall is one Status call.
type statusCall struct {
	ended   time.Time
	took    time.Duration
	err     error
	healthz string
}

// dial connects to a provider's KMS socket as an API server does, but tries a lost connection again within half a second.
func dial(t *testing.T, p *stack.Provider) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+p.Files.Socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			// Without it, a connection would have to be there within the backoff.
			MinConnectTimeout: 5 * time.Second,
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, MaxDelay: 500 * time.Millisecond},
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// startLoad starts the callers of a healthy provider. Each has encrypted once when it returns.
func startLoad(t *testing.T, p *stack.Provider, deadlines []time.Duration, pause time.Duration) *load {
	t.Helper()
	conn := dial(t, p)
	l := &load{t: t, conn: conn, kms: kmsapi.NewKeyManagementServiceClient(conn), deadlines: deadlines, pause: pause}
	s, err := l.kms.Status(t.Context(), &kmsapi.StatusRequest{})
	if err != nil || s.Healthz != "ok" || s.KeyId == "" {
		t.Fatalf("Status before the load: %v, %v", s, err)
	}
	l.keyID = s.KeyId
	ctx, end := context.WithCancel(context.Background())
	l.end = end
	t.Cleanup(l.stop)
	var ready sync.WaitGroup
	for i := range callers {
		c := &caller{load: l, n: i, deadline: deadlines[i%len(deadlines)]}
		ready.Add(1)
		l.running.Go(func() { c.run(ctx, ready.Done) })
	}
	l.running.Go(func() { l.askStatus(ctx) })
	ready.Wait()
	return l
}

// stop lets the callers finish their calls. It may be called more than once.
func (l *load) stop() {
	l.end()
	l.running.Wait()
}

// caller is one client.
type caller struct {
	load     *load
	n        int
	deadline time.Duration
	calls    int
	plain    []byte
	held     *kmsapi.EncryptResponse
}

// run calls until ctx ends. A call that is under way then is not cut short.
func (c *caller) run(ctx context.Context, ready func()) {
	c.begin()
	ready()
	if c.held == nil {
		c.load.t.Errorf("caller %d could not encrypt before anything failed", c.n)
		return
	}
	for ctx.Err() == nil {
		c.decrypt()
		c.rest(ctx)
		c.encrypt()
		c.rest(ctx)
	}
}

// begin encrypts once. All callers begin at the same time, each with a connection to OpenBao to be made, which a busy machine may not do
// in openbao.timeout: that is not what is tried here, so it is repeated and not recorded.
func (c *caller) begin() {
	for deadline := time.Now().Add(patience); c.held == nil && time.Now().Before(deadline); {
		plain := newPlaintext()
		ctx, cancel := context.WithTimeout(context.Background(), c.deadline)
		answer, err := c.load.kms.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: plain, Uid: c.uid()})
		cancel()
		if err == nil {
			c.plain, c.held = plain, answer
		}
	}
}

func newPlaintext() []byte {
	plain := make([]byte, 32)
	_, _ = rand.Read(plain)
	return plain
}

// rest is the pause between two calls.
func (c *caller) rest(ctx context.Context) {
	timer := time.NewTimer(c.load.pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (c *caller) uid() string {
	c.calls++
	return fmt.Sprintf("caller-%d-call-%d", c.n, c.calls)
}

func (c *caller) encrypt() {
	plain := newPlaintext()
	var answer *kmsapi.EncryptResponse
	c.record(encrypt, func(ctx context.Context) (err error) {
		answer, err = c.load.kms.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: plain, Uid: c.uid()})
		return err
	})
	if answer == nil {
		return
	}
	if answer.KeyId != c.load.keyID || len(answer.Ciphertext) == 0 {
		c.load.t.Errorf("Encrypt answered under key_id %s with %d bytes", answer.KeyId, len(answer.Ciphertext))
		return
	}
	c.plain, c.held = plain, answer
}

func (c *caller) decrypt() {
	var answer *kmsapi.DecryptResponse
	c.record(decrypt, func(ctx context.Context) (err error) {
		answer, err = c.load.kms.Decrypt(ctx, &kmsapi.DecryptRequest{
			Ciphertext: c.held.Ciphertext, KeyId: c.held.KeyId, Annotations: c.held.Annotations, Uid: c.uid(),
		})
		return err
	})
	if answer != nil && !bytes.Equal(answer.Plaintext, c.plain) {
		c.load.t.Errorf("caller %d decrypted to another plaintext", c.n)
	}
}

// record makes one call within the caller's deadline.
func (c *caller) record(m method, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.deadline)
	defer cancel()
	began := time.Now()
	err := do(ctx)
	done := call{method: m, began: began, ended: time.Now(), deadline: c.deadline, code: status.Code(err), text: status.Convert(err).Message()}
	l := c.load
	switch {
	case done.failed():
		l.lastFailure.Store(done.ended.UnixNano())
		l.startCounting()
	case m == encrypt:
		l.encrypted.Add(1)
	default:
		l.decrypts.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, done)
}

// flowing says that for half a second since a moment no call has failed, and that as many calls of each method as there are callers have
// succeeded since the last failure, or since startCounting.
func (l *load) flowing(since time.Time) error {
	if last := time.Unix(0, l.lastFailure.Load()); last.After(since) {
		since = last
	}
	if quiet := time.Since(since); quiet < 500*time.Millisecond {
		return fmt.Errorf("a call may have failed %v ago", quiet.Round(time.Millisecond))
	}
	if e, d := l.encrypted.Load(), l.decrypts.Load(); e < callers || d < callers {
		return fmt.Errorf("%d encrypts and %d decrypts have succeeded since the last failure", e, d)
	}
	return nil
}

// startCounting forgets the calls that have succeeded so far.
func (l *load) startCounting() {
	l.encrypted.Store(0)
	l.decrypts.Store(0)
}

// done returns the calls that have ended.
func (l *load) done() []call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]call(nil), l.calls...)
}

// askStatus asks for Status ten times a second, as no API server does, and checks that it tells one key_id or none.
func (l *load) askStatus(ctx context.Context) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		began := time.Now()
		asked, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		s, err := l.kms.Status(asked, &kmsapi.StatusRequest{})
		cancel()
		done := statusCall{ended: time.Now(), took: time.Since(began), err: err}
		if err == nil {
			done.healthz = s.Healthz
			if want := map[bool]string{true: l.keyID}[s.Healthz == "ok"]; s.KeyId != want {
				l.t.Errorf("Status says %q with key_id %q, want %q", s.Healthz, s.KeyId, want)
			}
		}
		l.mu.Lock()
		l.statuses = append(l.statuses, done)
		l.mu.Unlock()
	}
}

// lastUnhealthy is how long after a moment Status was last anything but healthy; 0 if it was not.
func (l *load) lastUnhealthy(since time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.statuses) - 1; i >= 0; i-- {
		if s := l.statuses[i]; s.err != nil || s.healthz != "ok" {
			return max(0, s.ended.Sub(since))
		}
	}
	return 0
}
