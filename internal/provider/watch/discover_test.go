package watch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
)

// unknownKeyID is the key_id of version 2, which a peer may use first.
func unknownKeyID() string { return testScope.KeyID(2, 1715803202) }

func TestADiscoveryTakesInAPeersKey(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		if err := n.watch.Discover(t.Context(), unknownKeyID()); err != nil {
			t.Fatal(err)
		}
		e, known := n.board.Load().Registry().Lookup(unknownKeyID())
		if !known || e.State != registry.Pending || e.StableObservations != 0 {
			t.Fatalf("after the discovery: known %v, %+v; want pending with 0 observations", known, e)
		}
		n.wantHealthy(1)
		if len(n.events("key.discovered")) != 1 {
			t.Error("key.discovered was not logged once")
		}
		// It counts for nothing: the rotation takes as long as any other.
		n.probes(testCount + int(testDelay/testProbe) - 1)
		n.wantHealthy(1)
		n.probes(1)
		n.wantHealthy(2)
	})
}

func TestDiscoveriesAreSharedAndLimited(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.slow = time.Second // so that all callers are there before the answer
		before, _ := b.count()
		discover := func() error { return n.watch.Discover(t.Context(), unknownKeyID()) }
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				if err := discover(); err != nil {
					t.Errorf("shared discovery: %v", err)
				}
			})
		}
		callers.Wait()
		if reads, _ := b.count(); reads != before+1 {
			t.Errorf("%d reads for 100 callers, want 1", reads-before)
		}
		// Not allowed yet: the last attempt succeeded, so "not there" is an answer.
		if err := discover(); err != nil {
			t.Errorf("within the interval: %v", err)
		}
		time.Sleep(testProbe)
		synctest.Wait()
		b.set(func(b *bao) { b.readErr = failed(fault.Sealed) })
		if err := discover(); fault.CauseOf(err) != fault.DiscoveryFailed {
			t.Errorf("failed read: %v, want DiscoveryFailed", err)
		}
		b.set(func(b *bao) { b.readErr = nil })
		if err := discover(); fault.CauseOf(err) != fault.DiscoveryFailed {
			t.Errorf("within the interval of a failed attempt: %v, want DiscoveryFailed", err)
		}
	})
}

func TestACallerThatGivesUpCancelsNothing(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.set(func(b *bao) { b.hang = true })
		began := time.Now()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		patient := make(chan error, 1)
		go func() { patient <- n.watch.Discover(t.Context(), unknownKeyID()) }()
		if err := n.watch.Discover(impatient, unknownKeyID()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the impatient caller got %v", err)
		}
		n.wantHealthy(1)
		if err := <-patient; fault.CauseOf(err) != fault.DiscoveryFailed {
			t.Errorf("the patient caller got %v, want DiscoveryFailed", err)
		}
		if took := time.Since(began); took != testTimeout {
			t.Errorf("the attempt took %v, want openbao.timeout %v", took, testTimeout)
		}
	})
}

func TestDiscoveryEndsWithTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		n := newNode(t, b, statePath(t))
		n.start()
		b.set(func(b *bao) { b.hang = true })
		result := make(chan error, 1)
		go func() { result <- n.watch.Discover(t.Context(), unknownKeyID()) }()
		synctest.Wait()
		n.stop()
		if err := <-result; fault.CauseOf(err) != fault.DiscoveryFailed {
			t.Errorf("error %v, want DiscoveryFailed", err)
		}
		if err := n.watch.Discover(t.Context(), unknownKeyID()); fault.CauseOf(err) != fault.DiscoveryFailed {
			t.Errorf("after the end: %v, want DiscoveryFailed", err)
		}
	})
}

// TestAFailedDiscoveryCountsForHealth: what it saw of OpenBao is as true as what
// a probe sees, but for the end of the provider.
func TestAFailedDiscoveryCountsForHealth(t *testing.T) {
	cases := []struct {
		name   string
		spoil  func(*bao)
		reason status.Reason
	}{
		{"backend failure", func(b *bao) { b.readErr = failed(fault.Sealed) }, status.MetadataReadFailed},
		{"its deadline", func(b *bao) { b.hang = true }, status.MetadataReadFailed},
		{"unsafe metadata", func(b *bao) { b.key.CreatedAtUnix = map[int]int64{1: 1} }, status.IdentityDrift},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			withNode(t, func(t *testing.T, n *node, b *bao) {
				b.set(c.spoil)
				if err := n.watch.Discover(t.Context(), unknownKeyID()); fault.CauseOf(err) != fault.DiscoveryFailed {
					t.Fatalf("error %v, want DiscoveryFailed", err)
				}
				n.wantReasons(c.reason)
			})
		})
	}
}

// TestADiscoveryMovesNoCountdown runs one in the middle of an activation delay.
func TestADiscoveryMovesNoCountdown(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		n.probes(testCount + 2)
		if err := n.watch.Discover(t.Context(), testScope.KeyID(9, 9)); err != nil {
			t.Fatal(err)
		}
		n.probes(1)
		n.wantHealthy(1)
		n.probes(1)
		n.wantHealthy(2)
	})
}

// TestADiscoveryThatGetsNoTurnUsesUpNothing: it asked nobody, so the next one may.
func TestADiscoveryThatGetsNoTurnUsesUpNothing(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		if err := n.watch.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := n.watch.Discover(t.Context(), unknownKeyID()); fault.CauseOf(err) != fault.DiscoveryFailed {
			t.Errorf("without the turn: %v, want DiscoveryFailed", err)
		}
		n.watch.release()
		if err := n.watch.Discover(t.Context(), unknownKeyID()); err != nil {
			t.Error(err)
		}
		if _, known := n.board.Load().Registry().Lookup(unknownKeyID()); !known {
			t.Error("the second attempt found nothing")
		}
	})
}
