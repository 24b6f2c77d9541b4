package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/status"
)

func TestAFreshNodeBecomesHealthy(t *testing.T) {
	path := statePath(t)
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, newBao(), path)
		n.wantReasons(status.Starting)
		if err := n.watch.Start(t.Context(), time.Minute, time.Second); err != nil {
			t.Fatal(err)
		}
		// Everything is proved, but the socket is not there yet.
		n.wantReasons(status.Starting)
		n.watch.Serving(n.t.Context())
		n.wantHealthy(1)
		if _, deeps := n.bao.count(); deeps != 1 {
			t.Errorf("%d deep probes at start, want 1", deeps)
		}
		n.stop()
	})
	for _, name := range []string{path, path + ".checkpoint"} {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("the first state is not durable: %v", err)
		}
	}
}

func TestARestartedNodeKeepsItsRegistry(t *testing.T) {
	path := statePath(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		first := newNode(t, b, path)
		first.start()
		hash := first.board.Load().Registry().Hash()
		first.stop()
		second := newNode(t, b, path)
		second.start()
		defer second.stop()
		if got := second.board.Load().Registry().Hash(); got != hash {
			t.Errorf("registry %s after the restart, want %s", got, hash)
		}
	})
}

// TestAKeyWithAHistoryNeedsItsState is the rule that a lost state directory
// must never be papered over.
func TestAKeyWithAHistoryNeedsItsState(t *testing.T) {
	path := statePath(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		b.rotate()
		n := newNode(t, b, path)
		defer n.stop()
		began := time.Now()
		err := n.watch.Start(t.Context(), time.Minute, time.Second)
		var start *StartError
		if !errors.As(err, &start) || !start.Permanent || start.Reason != status.StateUnavailable {
			t.Fatalf("error %v, want a permanent state_unavailable", err)
		}
		for _, words := range []string{"at version 2", "no key registry", "restore this node's state file and checkpoint", "copy both from a peer"} {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("the error does not say %q: %v", words, err)
			}
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited %v for what cannot change", waited)
		}
	})
	left, _ := filepath.Glob(path + "*")
	if len(left) != 1 || left[0] != path+".lock" {
		t.Errorf("files %q, want only the lock", left)
	}
}

func TestStartRetriesWithinItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		b.readErr = failed(fault.ConnectionFailed)
		n := newNode(t, b, statePath(t))
		defer n.stop()
		time.AfterFunc(12500*time.Millisecond, func() { b.set(func(b *bao) { b.readErr = nil }) })
		began := time.Now()
		if err := n.watch.Start(t.Context(), time.Minute, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("started after %v, want 15s", took)
		}
	})
}

func TestStartGivesUpAfterItsGrace(t *testing.T) {
	cases := []struct {
		name   string
		set    func(*bao)
		reason status.Reason
		words  string
	}{
		{"unreachable", func(b *bao) { b.readErr = failed(fault.ConnectionFailed) }, status.MetadataReadFailed, "could not be reached"},
		{"sealed", func(b *bao) { b.readErr = failed(fault.Sealed) }, status.MetadataReadFailed, "sealed"},
		{"login rejected", func(b *bao) { b.readErr = failed(fault.LoginRejected) }, status.AuthFailed, "could not log in"},
		{"upsert allowed", func(b *bao) { b.upsertOff = false }, status.UpsertAllowed, "set disable_upsert to true"},
		{"upsert unreadable", func(b *bao) { b.upsertErr = failed(fault.PolicyDenied) }, status.UpsertCheckFailed, "policy denies"},
		{"wrong type", func(b *bao) { b.key.Type = "chacha20-poly1305" }, status.ProfileInvalid, "chacha20-poly1305"},
		{"exportable", func(b *bao) { b.key.Exportable = true }, status.ProfileInvalid, "exportable"},
		{"round trip fails", func(b *bao) { b.deepErr = failed(fault.Unavailable) }, status.DeepProbeFailed, "unavailable"},
		{"round trip is wrong", func(b *bao) { b.deepErr = failed(fault.ResponseOverLimit) }, status.DeepProbeInvalid, "limits"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBao()
				b.set(c.set)
				n := newNode(t, b, statePath(t))
				defer n.stop()
				began := time.Now()
				err := n.watch.Start(t.Context(), time.Minute, 5*time.Second)
				var start *StartError
				if !errors.As(err, &start) || start.Reason != c.reason || start.Permanent {
					t.Fatalf("error %v, want %s", err, c.reason)
				}
				if !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "graceTimeout 1m") {
					t.Errorf("error %q does not say %q", err, c.words)
				}
				if took := time.Since(began); took != time.Minute {
					t.Errorf("gave up after %v, want 1m", took)
				}
				n.wantReasons(status.Starting, c.reason)
			})
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		b.readErr = failed(fault.ConnectionFailed)
		n := newNode(t, b, statePath(t))
		defer n.stop()
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		if err := n.watch.Start(ctx, time.Minute, 5*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v, want the context's", err)
		}
	})
}

// TestAFailedProbeIsTold runs a healthy provider into each failure and out of
// it again.
func TestAFailedProbeIsTold(t *testing.T) {
	cases := []struct {
		name   string
		spoil  func(*bao)
		reason status.Reason
	}{
		{"metadata unreadable", func(b *bao) { b.readErr = failed(fault.Sealed) }, status.MetadataReadFailed},
		{"token refused", func(b *bao) { b.readErr = failed(fault.RecoveryDelayed) }, status.AuthFailed},
		{"breaker open", func(b *bao) { b.readErr = failed(fault.BreakerOpen) }, status.CircuitBreakerOpen},
		{"upsert unreadable", func(b *bao) { b.upsertErr = failed(fault.Sealed) }, status.UpsertCheckFailed},
		{"upsert allowed", func(b *bao) { b.upsertOff = false }, status.UpsertAllowed},
		{"key exportable", func(b *bao) { b.key.Exportable = true }, status.ProfileInvalid},
		{"key deletable", func(b *bao) { b.key.DeletionAllowed = true }, status.ProfileInvalid},
		{"another key", func(b *bao) { b.key.CreatedAtUnix = map[int]int64{1: 1} }, status.IdentityDrift},
		{"new version without creation time", func(b *bao) { b.key.Latest = 2 }, status.MetadataUnverified},
		{"a version above the latest", func(b *bao) { b.key.CreatedAtUnix = map[int]int64{1: 1715803200, 2: 1715803202} }, status.MetadataUnverified},
		{"version gone", func(b *bao) { b.key.CreatedAtUnix = nil }, status.IdentityDrift},
		{"rolled back", func(b *bao) { b.key.Latest, b.key.CreatedAtUnix = 0, nil }, status.VersionRollback},
		{"decryption blocked", func(b *bao) { b.key.MinDecryption, b.key.CreatedAtUnix = 2, nil }, status.VersionsBlocked},
		{"not available", func(b *bao) { b.key.MinAvailable = 2 }, status.VersionsBlocked},
		{"encryption blocked", func(b *bao) { b.key.MinEncryption = 2 }, status.EncryptionBlocked},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			withNode(t, func(t *testing.T, n *node, b *bao) {
				n.wantHealthy(1)
				good, files := b.key, n.files()
				b.set(c.spoil)
				n.probes(1)
				n.wantReasons(c.reason)
				if n.files() != files {
					t.Error("a failed probe changed a file")
				}
				probes := n.events("status.probe")
				if last := probes[len(probes)-1]; last["reason"] != string(c.reason) || last["error"] == "" || last["level"] != "WARN" {
					t.Errorf("the log says %v", last)
				}
				if n.board.Load().Registry() == nil {
					t.Error("a failed probe took the registry away: nothing can be decrypted")
				}
				b.set(func(b *bao) { b.key, b.upsertOff, b.readErr, b.upsertErr = good, true, nil, nil })
				n.probes(1)
				n.wantHealthy(1)
			})
		})
	}
}

func TestMetadataGrowsStaleWhenProbesHang(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.set(func(b *bao) { b.hang = true })
		time.Sleep(testStaleness)
		n.wantHealthy(1)
		time.Sleep(time.Nanosecond)
		n.wantReasons(status.StatusStale)
	})
}

func TestAFailedDeepProbeIsRetriedAfterTheNextMetadataProbe(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.set(func(b *bao) { b.deepErr = failed(fault.Unavailable) })
		n.probes(int(testDeep / testProbe)) // the regular deep probe fails
		n.wantReasons(status.DeepProbeFailed)
		_, before := b.count()
		b.set(func(b *bao) { b.key.MinAvailable = 2 })
		n.probes(1)
		n.wantReasons(status.VersionsBlocked, status.DeepProbeFailed)
		if _, deeps := b.count(); deeps != before {
			t.Errorf("%d deep probes after a failed metadata probe, want %d", deeps, before)
		}
		b.set(func(b *bao) { b.key.MinAvailable, b.deepErr = 0, nil })
		n.probes(1)
		n.wantHealthy(1)
	})
}

func TestProbesKeepToTheirIntervals(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		time.Sleep(time.Hour)
		synctest.Wait()
		reads, deeps := b.count()
		if wantReads, wantDeeps := 1+120, 1+12; reads != wantReads || deeps != wantDeeps {
			t.Errorf("%d metadata and %d deep probes in an hour, want %d and %d", reads, deeps, wantReads, wantDeeps)
		}
		if got := n.board.Load().Registry().Generation(); got != 1 {
			t.Errorf("generation %d after an uneventful hour, want 1", got)
		}
	})
}

// TestALongFailureIsNotAFlood counts what an hour of the same failure logs.
func TestALongFailureIsNotAFlood(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.set(func(b *bao) { b.readErr = failed(fault.Sealed) })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		b.set(func(b *bao) { b.readErr = failed(fault.DNSFailed) })
		n.probes(1)
		b.set(func(b *bao) { b.readErr = nil })
		n.probes(2)
		var classes []string
		for _, e := range n.events("status.probe") {
			if e["probe_kind"] == "metadata" && e["level"] == "WARN" {
				classes = append(classes, e["error_class"].(string))
			}
		}
		// Once when it begins, once a minute, once when it changes.
		if len(classes) != 11 || classes[0] != "openbao_sealed" || classes[10] != "openbao_dns_failed" {
			t.Errorf("%d warnings: %q", len(classes), classes)
		}
		infos := n.events("status.probe")
		if last := infos[len(infos)-1]; last["level"] != "INFO" || last["status"] != "ok" {
			t.Errorf("the end of the failure is not told: %v", last)
		}
	})
}

func TestAPanicFailsTheProbeAndNothingElse(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.set(func(b *bao) { b.onDeep = func(int) { panic("a value that must not be logged") } })
		n.probes(int(testDeep / testProbe))
		n.wantReasons(status.DeepProbeFailed)
		// A metadata success must not clear it.
		n.probes(2)
		n.wantReasons(status.DeepProbeFailed)
		b.set(func(b *bao) { b.onDeep = nil })
		n.probes(1)
		n.wantHealthy(1)
		if strings.Contains(n.log.String(), "must not be logged") {
			t.Error("the value of the panic was logged")
		}
	})
}

// TestARestartDoesNotTakeDecryptionAway: two kinds of trouble forbid Encrypt and
// may outlast any grace. A node that restarts in them must still come up.
func TestARestartDoesNotTakeDecryptionAway(t *testing.T) {
	cases := []struct {
		name   string
		spoil  func(n *node)
		reason status.Reason
		heal   func(n *node)
	}{
		{"encryption blocked while the next version waits", func(n *node) {
			n.bao.set(func(b *bao) { b.key.MinEncryption, b.deepErr = 2, failed(fault.RequestRefused) })
		}, status.EncryptionBlocked, func(n *node) {
			n.bao.set(func(b *bao) { b.deepErr = nil })
			n.probes(testCount + int(testDelay/testProbe))
			n.wantHealthy(2)
		}},
		{"a save fails", (*node).breakStateFile, status.StateSaveFailed, func(n *node) {
			n.repair()
			n.probes(1)
			n.wantHealthy(1)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := statePath(t)
			synctest.Test(t, func(t *testing.T) {
				b := newBao()
				first := newNode(t, b, path)
				first.start()
				first.stop()
				b.rotate()
				n := newNode(t, b, path)
				c.spoil(n)
				n.start()
				defer func() { n.stop() }()
				if got := n.verdict().Reasons[0]; got != c.reason {
					t.Errorf("first reason %q, want %q", got, c.reason)
				}
				if n.board.Load().Registry() == nil {
					t.Error("nothing can be decrypted")
				}
				c.heal(n)
			})
		})
	}
}

// TestAFindingDoesNotWaitForTheDeepProbe looks at the published view while a
// slow deep probe runs right after a metadata probe that found something.
func TestAFindingDoesNotWaitForTheDeepProbe(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		n.probes(int(testDeep/testProbe) - 1)
		var during []status.Reason
		b.set(func(b *bao) {
			b.key.MinAvailable = 2
			b.onDeep = func(int) { during = n.verdict().Reasons }
		})
		n.probes(1) // metadata and deep are both due
		if len(during) != 1 || during[0] != status.VersionsBlocked {
			t.Errorf("while the deep probe ran, the view said %q", during)
		}
	})
}

// TestNoEncryptWhileUpsertIsAllowed: invariant 9. A deep probe could create the
// key that is missing.
func TestNoEncryptWhileUpsertIsAllowed(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.set(func(b *bao) { b.upsertOff = false })
		n.probes(1)
		_, before := b.count()
		n.probes(2 * int(testDeep/testProbe))
		if _, deeps := b.count(); deeps != before {
			t.Errorf("%d deep probes on a mount that allows upsert", deeps-before)
		}
		b.set(func(b *bao) { b.upsertOff = true })
		n.probes(1)
		n.wantHealthy(1)
		if _, deeps := b.count(); deeps != before+1 {
			t.Errorf("%d deep probes after the mount was repaired, want the one that is owed", deeps-before)
		}
	})
}

func TestDriftAtStartIsWaitedFor(t *testing.T) {
	path := statePath(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		first := newNode(t, b, path)
		first.start()
		first.stop()
		good := b.key
		b.set(func(b *bao) { b.key.CreatedAtUnix = map[int]int64{1: 1} })
		n := newNode(t, b, path)
		defer func() { n.stop() }()
		time.AfterFunc(10*time.Second, func() { b.set(func(b *bao) { b.key = good }) })
		n.start()
		n.wantHealthy(1)
	})
}

// TestGraceBoundsAProbeThatHangs: no single answer may hold the start up.
func TestGraceBoundsAProbeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		b.hang = true
		n := newNode(t, b, statePath(t))
		defer n.stop()
		began := time.Now()
		err := n.watch.Start(t.Context(), time.Minute, time.Second)
		var start *StartError
		if !errors.As(err, &start) || start.Reason != status.MetadataUnverified {
			t.Errorf("error %v, want metadata_unverified", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("gave up after %v, want 1m", took)
		}
	})
}

// TestNothingIsPersistedAfterTheEnd stops the provider between the answer to a
// probe and what would follow from it.
func TestNothingIsPersistedAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		n := newNode(t, b, statePath(t))
		n.start()
		before := n.files()
		ctx, cancel := context.WithCancel(t.Context())
		b.rotate()
		b.set(func(b *bao) { b.onUpsert = cancel })
		if err := n.watch.take(ctx); err != nil {
			t.Fatal(err)
		}
		n.watch.probe(ctx, true, true)
		n.watch.release()
		if n.files() != before {
			t.Error("a state was saved after the end")
		}
		b.set(func(b *bao) { b.onUpsert = nil })
		n.stop()
	})
}

// TestAnInterruptedSaveIsCompletedWhenTheDiskHeals: the state file is one save
// ahead, and the start cannot complete that save at first.
func TestAnInterruptedSaveIsCompletedWhenTheDiskHeals(t *testing.T) {
	path := statePath(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBao()
		first := newNode(t, b, path)
		first.start()
		b.rotate()
		first.breakCheckpoint()
		first.probes(1)
		first.stop()

		first.repair() // opening the store removes leftovers
		n := newNode(t, b, path)
		n.breakCheckpoint()
		time.AfterFunc(10*time.Second, n.repair)
		n.start()
		defer func() { n.stop() }()
		n.wantHealthy(1)
		if n.pending() == nil {
			t.Error("what had been saved by half is lost")
		}
	})
}
