package watch

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
)

// A directory under the name of a temporary file makes every save fail at a
// chosen point, on the real file system: before anything has changed, or between
// the state file and its checkpoint. Removing it is the repair.
func (n *node) breakStateFile()  { n.block(n.path + ".tmp") }
func (n *node) breakCheckpoint() { n.block(n.path + ".checkpoint.tmp") }

func (n *node) block(name string) {
	n.t.Helper()
	if err := os.Mkdir(name, 0o700); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) repair() {
	n.t.Helper()
	os.Remove(n.path + ".tmp")
	os.Remove(n.path + ".checkpoint.tmp")
}

func (n *node) degraded() bool { return n.board.Load().Facts().Persistence.Degraded }

// files returns what is on disk, to see that it was left alone.
func (n *node) files() [2]string {
	n.t.Helper()
	var out [2]string
	for i, name := range []string{n.path, n.path + ".checkpoint"} {
		content, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			n.t.Fatal(err)
		}
		out[i] = string(content)
	}
	return out
}

func TestAFailedObservationKeepsTheProviderHealthy(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		n.probes(1) // pending, one observation
		before := n.files()
		n.breakStateFile()
		n.probes(5)
		n.wantHealthy(1)
		if !n.degraded() {
			t.Error("a failed save is outstanding and persistence_degraded is not set")
		}
		if got := n.pending().StableObservations; got != 1 {
			t.Errorf("%d observations published, only 1 is durable", got)
		}
		if n.files() != before {
			t.Error("a failed save changed a file")
		}
		// Everything else that the exception asks for still counts.
		b.set(func(b *bao) { b.key.MinEncryption = 2 })
		n.probes(1)
		n.wantReasons(status.EncryptionBlocked)
		b.set(func(b *bao) { b.key.MinEncryption = 0 })

		n.repair()
		n.probes(1)
		n.wantHealthy(1)
		if n.degraded() {
			t.Error("persistence_degraded is still set after the repair")
		}
		// Exactly the attempt: five failed probes added nothing, and neither did
		// the one that completed it.
		if got := n.pending().StableObservations; got != 2 {
			t.Errorf("%d observations after the repair, want 2", got)
		}
		if len(n.events("registry.recovered")) != 1 {
			t.Error("registry.recovered was not logged once")
		}
		n.probes(1 + int(testDelay/testProbe))
		n.wantHealthy(2)
	})
}

// TestAHalfSavedObservationIsNotTheException: the state file has changed, so the
// files no longer hold only what is published.
func TestAHalfSavedObservationIsNotTheException(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		n.probes(1)
		n.breakCheckpoint()
		n.probes(1)
		n.wantReasons(status.StateSaveFailed)
		n.probes(3)
		n.wantReasons(status.StateSaveFailed)
		n.repair()
		n.probes(1)
		n.wantHealthy(1)
		if got := n.pending().StableObservations; got != 2 {
			t.Errorf("%d observations after the repair, want 2", got)
		}
	})
}

func TestANewIdentityIsNotPublishedBeforeItIsDurable(t *testing.T) {
	for name, spoil := range map[string]func(*node){"before": (*node).breakStateFile, "between": (*node).breakCheckpoint} {
		t.Run(name, func(t *testing.T) {
			withNode(t, func(t *testing.T, n *node, b *bao) {
				spoil(n)
				b.rotate()
				n.probes(2)
				n.wantReasons(status.StateSaveFailed)
				if n.pending() != nil {
					t.Error("the pending snapshot was published before it was durable")
				}
				if _, known := n.board.Load().Registry().Lookup(promotedFrom(n)); !known {
					t.Error("the known key is gone")
				}
				n.repair()
				n.probes(1)
				n.wantHealthy(1)
				if got := n.pending(); got == nil || got.StableObservations != 1 {
					t.Errorf("pending after the repair: %+v, want 1 observation", got)
				}
			})
		})
	}
}

func TestARecoveredStableCountStartsTheFullDelay(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		n.probes(testCount - 1)
		n.breakStateFile()
		n.probes(20) // far longer than the delay
		n.wantHealthy(1)
		n.repair()
		n.probes(1) // durable and validated: the delay starts here
		n.probes(int(testDelay/testProbe) - 1)
		n.wantHealthy(1)
		n.probes(1)
		n.wantHealthy(2)
	})
}

func TestARecoveredPromotionIsProvedFirst(t *testing.T) {
	for name, spoil := range map[string]func(*node){"before": (*node).breakStateFile, "between": (*node).breakCheckpoint} {
		t.Run(name, func(t *testing.T) {
			withNode(t, func(t *testing.T, n *node, b *bao) {
				b.rotate()
				n.probes(testCount + int(testDelay/testProbe) - 1)
				spoil(n)
				n.probes(2)
				n.wantReasons(status.StateSaveFailed)
				if got := n.board.Load().Registry().Active().TransitVersion; got != 1 {
					t.Fatalf("version %d was published before it was durable", got)
				}
				b.set(func(b *bao) { b.deepErr = failed(fault.Unavailable) })
				n.repair()
				n.probes(1)
				n.wantReasons(status.DeepProbeFailed)
				b.set(func(b *bao) { b.deepErr = nil })
				n.probes(1)
				n.wantHealthy(2)
			})
		})
	}
}

func TestAConflictDuringRecoveryStays(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		n.probes(1)
		good := n.files()
		n.breakStateFile()
		n.probes(1)
		// A peer's state, or an edit: the same bytes but one.
		foreign := bytes.Replace([]byte(good[0]), []byte("transitVersion"), []byte("TransitVersion"), 1)
		if err := os.WriteFile(n.path, foreign, 0o600); err != nil {
			t.Fatal(err)
		}
		n.repair()
		n.probes(1)
		n.wantReasons(status.StateConflict)
		if n.files()[0] != string(foreign) {
			t.Error("the conflicting file was overwritten")
		}
		if err := os.WriteFile(n.path, []byte(good[0]), 0o600); err != nil {
			t.Fatal(err)
		}
		n.probes(3)
		n.wantReasons(status.StateConflict)
		if !strings.Contains(n.log.String(), "restore the state file and the checkpoint") {
			t.Error("the log does not say what to restore")
		}
	})
}

func TestFilesThatChangeUnderTheProvider(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(n *node)
	}{
		{"state edited", func(n *node) { edit(n.t, n.path, "\n", " \n") }},
		{"state gone", func(n *node) { os.Remove(n.path) }},
		{"checkpoint edited", func(n *node) { edit(n.t, n.path+".checkpoint", "\"generation\": ", "\"generation\": 1") }},
		{"checkpoint gone", func(n *node) { os.Remove(n.path + ".checkpoint") }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			withNode(t, func(t *testing.T, n *node, b *bao) {
				b.rotate()
				n.probes(1)
				good := n.files()
				c.spoil(n)
				bad := n.files()
				n.probes(3)
				n.wantReasons(status.StateConflict)
				if n.files() != bad {
					t.Error("the provider changed the files that it does not recognise")
				}
				if n.board.Load().Registry() == nil {
					t.Error("known data can no longer be decrypted")
				}
				for i, name := range []string{n.path, n.path + ".checkpoint"} {
					if err := os.WriteFile(name, []byte(good[i]), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				n.probes(1)
				n.wantHealthy(1)
			})
		})
	}
}

func edit(t *testing.T, name, old, new string) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, bytes.Replace(content, []byte(old), []byte(new), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAReplacedStateDirectoryIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(dir+"/state", 0o700); err != nil {
			t.Fatal(err)
		}
		n := newNode(t, newBao(), dir+"/state/key-registry.json")
		n.start()
		defer n.stop()
		if err := os.Rename(dir+"/state", dir+"/moved"); err != nil {
			t.Fatal(err)
		}
		n.probes(1)
		n.wantReasons(status.StateUnavailable)
		if err := os.Mkdir(dir+"/state", 0o700); err != nil {
			t.Fatal(err)
		}
		n.probes(1)
		n.wantReasons(status.StateConflict)
		if left, _ := os.ReadDir(dir + "/state"); len(left) != 0 {
			t.Errorf("the provider wrote %v into a directory that it does not know", left)
		}
		os.Remove(dir + "/state")
		if err := os.Rename(dir+"/moved", dir+"/state"); err != nil {
			t.Fatal(err)
		}
		n.probes(1)
		n.wantHealthy(1)
	})
}

// TestTheWallClockMayStepBack: each synctest bubble begins at the same moment,
// so the second life of the node sees a clock that is an hour behind.
func TestTheWallClockMayStepBack(t *testing.T) {
	path := statePath(t)
	b := newBao()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		first := newNode(t, b, path)
		first.start()
		b.rotate()
		first.probes(testCount)
		first.stop()
	})
	synctest.Test(t, func(t *testing.T) {
		second := newNode(t, b, path)
		second.start()
		defer second.stop()
		stable := second.pending().StableAtUnix
		second.probes(int(testDelay/testProbe) - 1)
		second.wantHealthy(1)
		second.probes(1)
		second.wantHealthy(2)
		if got := second.board.Load().Registry().Active().PromotedAtUnix; got != stable {
			t.Errorf("promotedAtUnix %d, want the floor %d", got, stable)
		}
		if got := second.board.Load().Registry().Active().StableAtUnix; got != stable {
			t.Errorf("stableAtUnix was rewritten from %d to %d", stable, got)
		}
		if len(second.events("clock.regressed")) != 1 {
			t.Error("clock.regressed was not logged once")
		}
	})
}

func TestADiscoveryWaitsForAFailedSave(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		n.breakStateFile()
		if err := n.watch.Discover(t.Context(), unknownKeyID()); fault.CauseOf(err) != fault.DiscoveryFailed {
			t.Fatalf("error %v, want DiscoveryFailed", err)
		}
		if _, known := n.board.Load().Registry().Lookup(unknownKeyID()); known {
			t.Error("an identity was published before it was durable")
		}
		n.wantReasons(status.StateSaveFailed)
		// The next one is allowed by the interval, but it could take nothing in.
		n.probes(1)
		before, _ := b.count()
		if err := n.watch.Discover(t.Context(), unknownKeyID()); fault.CauseOf(err) != fault.DiscoveryFailed {
			t.Fatalf("error %v, want DiscoveryFailed", err)
		}
		if reads, _ := b.count(); reads != before {
			t.Error("OpenBao was asked for what cannot be saved")
		}
		n.repair()
		n.probes(1)
		n.wantHealthy(1)
		if e, known := n.board.Load().Registry().Lookup(unknownKeyID()); !known || e.State != registry.Pending {
			t.Error("the discovered identity is lost")
		}
	})
}
