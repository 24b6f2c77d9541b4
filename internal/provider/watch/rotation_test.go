package watch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
)

// pending is the snapshot that waits, for short assertions.
func (n *node) pending() *registry.Entry { return n.board.Load().Registry().Pending() }

func TestAnOrdinaryRotation(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		for count := 1; count <= testCount; count++ {
			n.probes(1)
			n.wantHealthy(1)
			if got := n.pending().StableObservations; got != count {
				t.Fatalf("%d observations after %d probes", got, count)
			}
		}
		if got := n.board.Load().Registry().Generation(); got != 1+testCount {
			t.Errorf("generation %d, want %d", got, 1+testCount)
		}
		// The delay began with the probe that made the count durable.
		for waited := testProbe; waited < testDelay; waited += testProbe {
			n.probes(1)
			n.wantHealthy(1)
			if got := n.board.Load().Registry().Generation(); got != 1+testCount {
				t.Errorf("waiting wrote generation %d", got)
			}
		}
		n.probes(1)
		n.wantHealthy(2)
		promoted := n.events("key.promoted")
		if len(promoted) != 1 || promoted[0]["transit_key_version"] != 2.0 || promoted[0]["previous_transit_key_version"] != 1.0 {
			t.Errorf("key.promoted: %v", promoted)
		}
		if e, _ := n.board.Load().Registry().Lookup(promotedFrom(n)); e.State != registry.Retired {
			t.Errorf("version 1 is %s, want retired", e.State)
		}
	})
}

// promotedFrom is the key_id of version 1.
func promotedFrom(n *node) string { return n.board.Load().Registry().Entries()[0].KeyID }

// TestAPromotionHasNoGap looks at the published view while the new key is being
// proved: the old one must still serve.
func TestAPromotionHasNoGap(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		var during []int
		b.onDeep = func(version int) {
			if v := n.verdict(); version == 2 && v.Healthy {
				during = append(during, v.Active.TransitVersion)
			}
		}
		b.rotate()
		n.probes(testCount + int(testDelay/testProbe))
		n.wantHealthy(2)
		if !slices.Equal(during, []int{1}) {
			t.Errorf("while version 2 was proved the active versions were %v, want [1]", during)
		}
	})
}

func TestAPromotionThatCannotBeProvedIsPublishedUnhealthy(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		n.probes(testCount + int(testDelay/testProbe) - 1)
		n.wantHealthy(1)
		b.set(func(b *bao) { b.deepErr = failed(fault.Unavailable) })
		n.probes(1)
		n.wantReasons(status.DeepProbeFailed)
		if got := n.board.Load().Registry().Active().TransitVersion; got != 2 {
			t.Errorf("active version %d: the disk says 2", got)
		}
		b.set(func(b *bao) { b.deepErr = nil })
		n.probes(1)
		n.wantHealthy(2)
	})
}

func TestARestartStartsTheDelayAgain(t *testing.T) {
	path := statePath(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		first := newNode(t, b, path)
		first.start()
		b.rotate()
		first.probes(testCount + int(testDelay/testProbe) - 1)
		first.wantHealthy(1)
		first.stop()
		time.Sleep(time.Hour)

		second := newNode(t, b, path)
		second.start()
		defer second.stop()
		second.wantHealthy(1)
		second.probes(int(testDelay/testProbe) - 1)
		second.wantHealthy(1)
		second.probes(1)
		second.wantHealthy(2)
	})
}

func TestAFailedProbeDoesNotPromote(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		n.probes(testCount)
		b.set(func(b *bao) { b.readErr = failed(fault.Sealed) })
		n.probes(10) // far beyond the delay
		if got := n.board.Load().Registry().Active().TransitVersion; got != 1 {
			t.Fatalf("a failed probe promoted version %d", got)
		}
		b.set(func(b *bao) { b.readErr = nil })
		n.probes(1)
		n.wantHealthy(2)
	})
}

func TestANewerCandidateStartsItsOwnCountdown(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		n.probes(testCount + 2) // one minute of version 2's delay is over
		b.rotate()
		n.probes(testCount + int(testDelay/testProbe) - 1)
		n.wantHealthy(1)
		n.probes(1)
		n.wantHealthy(3)
		if e := n.board.Load().Registry().Entries()[1]; e.State != registry.Retired {
			t.Errorf("the superseded version 2 is %s, want retired", e.State)
		}
	})
}

func TestEncryptionBlockedHealsByPromotion(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		b.set(func(b *bao) { b.key.MinEncryption = 2 })
		n.probes(testCount + int(testDelay/testProbe) - 1)
		n.wantReasons(status.EncryptionBlocked)
		if got := n.pending().StableObservations; got != testCount {
			t.Errorf("observation stopped at %d", got)
		}
		n.probes(1)
		n.wantHealthy(2)
	})
}

// TestASupersededCandidateThatWasStableAtOnce is the case in which only the
// candidate's name tells the two countdowns apart.
func TestASupersededCandidateThatWasStableAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		n := newNodeWith(t, b, statePath(t), 1)
		n.start()
		defer n.stop()
		b.rotate()
		n.probes(1)
		n.probes(int(testDelay/testProbe) - 1)
		b.rotate()
		n.probes(1)
		n.wantHealthy(1)
		n.probes(int(testDelay/testProbe) - 1)
		n.wantHealthy(1)
		n.probes(1)
		n.wantHealthy(3)
	})
}

// TestAFailedProofIsNotRepeatedAtOnce: the promotion is published with what its
// one round trip said.
func TestAFailedProofIsNotRepeatedAtOnce(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		n.probes(testCount + int(testDelay/testProbe) - 1)
		b.set(func(b *bao) { b.deepErr = failed(fault.Unavailable) })
		_, before := b.count()
		n.probes(1)
		if _, deeps := b.count(); deeps != before+1 {
			t.Errorf("%d round trips for one promotion, want 1", deeps-before)
		}
	})
}
