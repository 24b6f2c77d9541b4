package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/provider/store"
	"github.com/baokms/baokms/internal/provider/transit"
)

// bao is what OpenBao says in a test: it stands in for answers that a real
// server cannot be made to give at a chosen moment. The end-to-end tests run the
// same stories on a real one.
type bao struct {
	mu        sync.Mutex
	key       transit.Key
	upsertOff bool
	readErr   error
	upsertErr error
	deepErr   error
	hang      bool
	slow      time.Duration     // how long a metadata read takes
	onDeep    func(version int) // called before a round trip is answered
	onUpsert  func()            // called before the upsert setting is answered
	reads     int
	deeps     []int // versions that were round-tripped
}

func newBao() *bao {
	return &bao{upsertOff: true, key: transit.Key{
		Type: transit.KeyType, Latest: 1, CreatedAtUnix: map[int]int64{1: 1715803200},
		SupportsEncryption: true, SupportsDecryption: true,
	}}
}

// set changes what is said, under the lock.
func (b *bao) set(change func(*bao)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

func (b *bao) rotate() {
	b.set(func(b *bao) {
		b.key.Latest++
		b.key.CreatedAtUnix = maps.Clone(b.key.CreatedAtUnix)
		b.key.CreatedAtUnix[b.key.Latest] = 1715803200 + int64(b.key.Latest)
	})
}

func (b *bao) ReadKey(ctx context.Context) (transit.Key, error) {
	b.mu.Lock()
	b.reads++
	hang, slow, key, err := b.hang, b.slow, b.key, b.readErr
	b.mu.Unlock()
	time.Sleep(slow)
	if hang {
		<-ctx.Done()
		return transit.Key{}, ctx.Err()
	}
	return key, err
}

func (b *bao) ReadUpsertDisabled(context.Context) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.onUpsert != nil {
		b.onUpsert()
	}
	return b.upsertOff, b.upsertErr
}

func (b *bao) RoundTrip(_ context.Context, k transit.Binding) error {
	b.mu.Lock()
	b.deeps = append(b.deeps, k.Version())
	hook, err := b.onDeep, b.deepErr
	b.mu.Unlock()
	if hook != nil {
		hook(k.Version())
	}
	return err
}

func (b *bao) count() (reads, deeps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads, len(b.deeps)
}

const (
	testProbe     = 30 * time.Second
	testDeep      = 5 * time.Minute
	testStaleness = 2 * time.Minute
	testDelay     = 2 * time.Minute
	testTimeout   = 2 * time.Second
	testCount     = 3
)

var testScope = identity.Scope{
	ProviderName: "provider", ClusterID: "cluster", OpenBaoInstanceID: "instance", TransitMountID: "mount", KeyLineageID: "lineage",
}

// node is one provider's watcher with everything around it.
type node struct {
	t     *testing.T
	bao   *bao
	path  string
	board *status.Board
	watch *Watcher
	store *store.Store
	log   *logBuffer
	stop  func()
}

// logBuffer collects a log that goroutines write while a test reads it.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newNode makes a node over the state at path, which may hold an earlier life's.
func newNode(t *testing.T, b *bao, path string) *node {
	t.Helper()
	return newNodeWith(t, b, path, testCount)
}

// newNodeWith is newNode with another requireStableObservationCount.
func newNodeWith(t *testing.T, b *bao, path string, count int) *node {
	t.Helper()
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, bao: b, path: path, board: new(status.Board), store: s, log: new(logBuffer)}
	n.watch = New(Options{
		Transit: b, Store: s, Board: n.board, Scope: testScope, Fingerprint: testScope.Fingerprint("m", "k"),
		Rules:           registry.Rules{StableObservations: count, RejectRollback: true},
		ActivationDelay: testDelay, ProbeInterval: testProbe, DeepProbeInterval: testDeep,
		MaxStaleness: testStaleness, DiscoveryTimeout: testTimeout,
		Logger: slog.New(slog.NewJSONHandler(n.log, nil)),
	})
	n.stop = func() { s.Close() }
	return n
}

// start brings the node up and lets it probe in the background.
func (n *node) start() {
	n.t.Helper()
	if err := n.watch.Start(n.t.Context(), time.Minute, time.Second); err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	n.watch.Serving(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.watch.Run(ctx)
	}()
	synctest.Wait()
	n.stop = func() {
		cancel()
		<-done
		n.store.Close()
	}
}

// withNode runs a story in synthetic time, on a fresh node that is up and probes,
// and ends the node with it.
func withNode(t *testing.T, story func(t *testing.T, n *node, b *bao)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		n := newNode(t, b, statePath(t))
		n.start()
		defer n.stop()
		story(t, n, b)
	})
}

// probes lets time pass until after n more metadata probes.
func (n *node) probes(count int) {
	for range count {
		time.Sleep(testProbe)
		synctest.Wait()
	}
}

func (n *node) verdict() status.Verdict { return n.board.Load().Judge(time.Now()) }

func (n *node) wantHealthy(version int) {
	n.t.Helper()
	v := n.verdict()
	if !v.Healthy || v.Active.TransitVersion != version {
		n.t.Fatalf("healthy %v with reasons %q, want healthy with version %d\nlog:\n%s", v.Healthy, v.Reasons, version, n.log)
	}
}

func (n *node) wantReasons(want ...status.Reason) {
	n.t.Helper()
	if got := n.verdict().Reasons; !slices.Equal(got, want) {
		n.t.Fatalf("reasons %q, want %q\nlog:\n%s", got, want, n.log)
	}
}

// events returns the log records with this message.
func (n *node) events(message string) (found []map[string]any) {
	for line := range strings.Lines(n.log.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			n.t.Fatal(err)
		}
		if m["msg"] == message {
			found = append(found, m)
		}
	}
	return found
}

func statePath(t *testing.T) string { return filepath.Join(t.TempDir(), "key-registry.json") }

func failed(c fault.Cause) error { return fault.New(c, "test", "a failure that the test chose") }
