package watch

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/provider/store"
)

// rotateTo lets the node promote one version after the other up to this one.
func (n *node) rotateTo(version int) {
	n.t.Helper()
	for n.board.Load().Registry().Active().TransitVersion < version {
		n.bao.rotate()
		n.probes(testCount + int(testDelay/testProbe) + 1)
	}
	n.wantHealthy(version)
}

// minimum raises min_decryption_version, and what is below is no longer listed.
func (b *bao) minimum(lowest int) {
	b.set(func(b *bao) {
		b.key.MinDecryption = lowest
		b.key.CreatedAtUnix = maps.Clone(b.key.CreatedAtUnix)
		for v := 1; v <= b.key.Latest; v++ {
			b.key.CreatedAtUnix[v] = 1715803200 + int64(v)
			if v == 1 { // as newBao has it
				b.key.CreatedAtUnix[v] = 1715803200
			}
			if v < lowest {
				delete(b.key.CreatedAtUnix, v)
			}
		}
	})
}

// offline does what an operator's command does to the files of a stopped node,
// and starts it again.
func (n *node) offline(apply func(*registry.Registry) (*registry.Registry, []int, error)) *node {
	n.t.Helper()
	n.stop()
	s, err := store.Open(n.path)
	if err != nil {
		n.t.Fatal(err)
	}
	r, err := s.Load(testScope.Fingerprint("m", "k"))
	if err != nil {
		n.t.Fatal(err)
	}
	next, versions, err := apply(r)
	if err != nil || len(versions) == 0 {
		n.t.Fatalf("versions %v, error %v", versions, err)
	}
	if err := s.Save(next); err != nil {
		n.t.Fatal(err)
	}
	s.Close()
	again := newNode(n.t, n.bao, n.path)
	again.start()
	return again
}

// seen is what the node's last probe saw, and the rules of its transitions.
func (n *node) seen() (registry.Metadata, registry.Rules) {
	f := n.board.Load().Facts()
	return f.Metadata.Seen, f.Rules
}

func (n *node) states() (states []registry.State) {
	for _, e := range n.board.Load().Registry().Entries() {
		states = append(states, e.State)
	}
	return states
}

func (n *node) wantStates(want ...registry.State) {
	n.t.Helper()
	if got := n.states(); !slices.Equal(got, want) {
		n.t.Fatalf("snapshots are %q, want %q", got, want)
	}
}

const (
	isActive, isRetired, isRemoved = registry.Active, registry.Retired, registry.Removed
)

// TestALifeWithRetirement: a running provider neither revives what an operator
// retired nor trips over what then happens to it in OpenBao, and a restored
// version decrypts again.
func TestALifeWithRetirement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		n := newNode(t, b, statePath(t))
		n.start()
		n.rotateTo(3)
		md, rules := n.seen()
		first := n.board.Load().Registry().Entries()[0].KeyID
		n = n.offline(func(r *registry.Registry) (*registry.Registry, []int, error) { return r.Retire(md, rules, 3) })
		defer func() { n.stop() }()
		n.wantHealthy(3)
		n.wantStates(isRemoved, isRemoved, isActive)

		b.minimum(3)
		n.probes(3)
		n.wantHealthy(3)
		n.wantStates(isRemoved, isRemoved, isActive)

		// A Decrypt with a removed key_id is no reason to ask OpenBao: it is known.
		reads, _ := b.count()
		if err := n.watch.Discover(t.Context(), first); err != nil {
			t.Errorf("discovery of a removed key_id: %v", err)
		}
		if e, ok := n.board.Load().Registry().Lookup(first); !ok || e.Decrypts() {
			t.Errorf("the removed version is found %v, and decrypts", ok)
		}
		if after, _ := b.count(); after != reads {
			t.Errorf("%d reads for a removed key_id", after-reads)
		}

		n.rotateTo(4)
		n.wantStates(isRemoved, isRemoved, isRetired, isActive)

		b.minimum(0)
		n.probes(1)
		n.wantHealthy(4)
		n.wantStates(isRemoved, isRemoved, isRetired, isActive)
		md, rules = n.seen()
		n = n.offline(func(r *registry.Registry) (*registry.Registry, []int, error) { return r.Restore(md, rules, []int{1}) })
		n.wantHealthy(4)
		n.wantStates(isRetired, isRemoved, isRetired, isActive)
	})
}

// TestARecoveryByRetirement: OpenBao's minimum was raised first, while a rotation
// is pending. What the failed probe saw is what the retirement needs.
func TestARecoveryByRetirement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		n := newNode(t, b, statePath(t))
		n.start()
		n.rotateTo(2)
		b.rotate()
		n.probes(1)
		b.minimum(2)
		n.probes(1)
		n.wantReasons(status.VersionsBlocked)
		f := n.board.Load().Facts()
		if f.Metadata.Seen.MinDecryption != 2 || f.Metadata.SeenAt != f.Metadata.ProbedAt || !f.Metadata.ValidatedAt.Before(f.Metadata.ProbedAt) {
			t.Fatalf("the probe that was refused has not left what it saw: %+v", f.Metadata)
		}
		n = n.offline(func(r *registry.Registry) (*registry.Registry, []int, error) {
			return r.Retire(f.Metadata.Seen, f.Rules, 2)
		})
		defer func() { n.stop() }()
		n.wantHealthy(2)
		if states := n.states(); len(states) != 3 || states[0] != isRemoved || states[2] != registry.Pending {
			t.Errorf("snapshots are %q", states)
		}
		n.probes(testCount + int(testDelay/testProbe))
		n.wantHealthy(3)
		if age := time.Since(n.board.Load().Facts().Metadata.ValidatedAt); age > testProbe {
			t.Errorf("metadata was validated %v ago", age)
		}
	})
}
