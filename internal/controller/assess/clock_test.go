package assess_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
)

func (w *world) wantSince(want time.Time) {
	w.t.Helper()
	s := &w.plan.Status
	if s.ConvergedSince == nil || !s.ConvergedSince.Time.Equal(want) {
		w.t.Fatalf("converged since %v, want %s", s.ConvergedSince, want)
	}
	if after := want.Add(w.plan.Spec.SettleTime.Duration); !s.RewriteSafeAfter.Time.Equal(after) {
		w.t.Errorf("rewrite safe after %v, want %s", s.RewriteSafeAfter, after)
	}
}

// TestSettle: the clock's whole life, with a manager that forgets everything but
// the status at each step.
func TestSettle(t *testing.T) {
	w := newWorld(t)
	w.now = start.Add(300 * time.Millisecond)
	w.judge()
	began := start.Add(time.Second)
	w.wantSince(began)
	w.wantPhase(v1alpha1.Settling)
	w.pass(5*time.Minute - 100*time.Millisecond)
	w.wantSince(began)
	w.wantPhase(v1alpha1.Settling)
	w.pass(800 * time.Millisecond)
	w.wantSince(began)
	w.wantPhase(v1alpha1.RewriteSafe)
	w.wants(v1alpha1.ConditionReady, isTrue, "RewriteSafe")
	w.pass(time.Hour)
	w.wantSince(began)
}

// TestBreaks: what restarts the clock, and what does not. Each happens when the
// nodes are converged for two minutes and is over half a minute later.
func TestBreaks(t *testing.T) {
	for _, c := range []struct {
		name      string
		set, undo func(*world)
		breaks    bool
	}{
		{"nothing", func(*world) {}, func(*world) {}, false},
		{"a node is not ready", func(w *world) { w.machines["cp-1"].reasons = []string{"status_stale"} }, func(w *world) { w.machines["cp-1"].reasons = nil }, true},
		{"a late report", func(w *world) { w.machines["cp-1"].seen = w.now.Add(-w.plan.Spec.ReportMaxAge.Duration) }, func(w *world) { w.report() }, true},
		{"a report just in time", func(w *world) { w.machines["cp-1"].seen = w.now.Add(time.Second - w.plan.Spec.ReportMaxAge.Duration) }, func(w *world) { w.report() }, false},
		{"a pending version that goes", func(w *world) { w.machines["cp-1"].observe(4) }, func(w *world) { w.machines["cp-1"].pending = 0; w.machines["cp-1"].save("gone") }, true},
		{"a starting node", func(w *world) {
			w.machines["cp-1"].starting, w.machines["cp-1"].reasons = true, []string{"starting"}
		}, func(w *world) { w.machines["cp-1"].starting, w.machines["cp-1"].reasons = false, nil }, true},
		{"another target", func(w *world) { w.plan.Spec.TargetTransitVersion = target(4) }, func(w *world) { w.plan.Spec.TargetTransitVersion = nil }, true},
		{"the target that all have", func(w *world) { w.plan.Spec.TargetTransitVersion = target(3) }, func(w *world) {}, false},
		{"a node that joins", func(w *world) { w.join("cp-4") }, func(*world) {}, true},
		{"a node that leaves", func(w *world) { delete(w.machines, "cp-2") }, func(*world) {}, false},
		{"a node that is renamed", func(w *world) { delete(w.machines, "cp-2"); w.join("node-2") }, func(*world) {}, true},
		{"a retirement", func(w *world) { w.machines["cp-2"].retire(3) }, func(*world) {}, false},
		{"all on the next key", func(w *world) {
			for _, m := range w.machines {
				m.observe(4)
				m.promote()
			}
		}, func(*world) {}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.judge()
			w.pass(2 * time.Minute)
			w.wantSince(start)
			c.set(w)
			w.judge()
			joined := w.plan.Status.ConvergedSince != nil
			w.now = w.now.Add(30 * time.Second)
			c.undo(w)
			w.judge()
			switch {
			case !c.breaks:
				w.wantSince(start)
			case joined: // converged again at once
				w.wantSince(start.Add(2 * time.Minute))
			default:
				w.wantSince(start.Add(2*time.Minute + 30*time.Second))
			}
		})
	}
}

// TestUnwatched: a manager that was away for longer than a report may be old has
// not seen that nothing broke.
func TestUnwatched(t *testing.T) {
	away := func(w *world, d time.Duration) {
		w.now = w.now.Add(d)
		w.report()
		w.judge()
	}
	w := newWorld(t)
	w.judge()
	away(w, 3*time.Minute)
	w.wantSince(start)
	away(w, 3*time.Minute+time.Second)
	w.wantSince(start.Add(6*time.Minute + time.Second))
	w.wantPhase(v1alpha1.Settling)
	w.pass(5 * time.Minute)
	w.wantPhase(v1alpha1.RewriteSafe)
	// Once it was settled, an absence takes nothing back: registries that are as they
	// were had no older key meanwhile.
	away(w, 24*time.Hour)
	w.wantSince(start.Add(6*time.Minute + time.Second))
	w.wantPhase(v1alpha1.RewriteSafe)
}

// TestSettledUnwatched: what may have broken while nobody watched nodes on which
// data could be rewritten.
func TestSettledUnwatched(t *testing.T) {
	const watched = 13 * time.Minute // ten, and the age of a report
	restored := func(w *world) {     // it ran on version 2, and has promoted version 3 just now
		w.machines["cp-1"].generation, w.machines["cp-1"].history = 9, "restored/observe 3/promote"
	}
	for _, c := range []struct {
		name   string
		away   time.Duration
		change func(*world)
		breaks bool
	}{
		{"nothing changed", 24 * time.Hour, func(*world) {}, false},
		{"restored, and promoted once more", time.Hour, restored, true},
		{"so just after it was watched", watched + time.Second, restored, true},
		{"so while it was watched", watched, restored, false},
		{"applied", time.Hour, func(w *world) { w.machines["cp-1"].retire(3) }, false},
		{"applied, and something else", time.Hour, func(w *world) { w.machines["cp-1"].retire(3); w.machines["cp-1"].save("more") }, true},
		{"removed other versions", time.Hour, func(w *world) { w.machines["cp-1"].retire(2) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t).asksRetirement(3)
			w.judge()
			w.pass(5 * time.Minute)
			w.wants(v1alpha1.ConditionRewriteSafe, isTrue, assess.ReasonSettled)
			c.change(w)
			w.now = w.now.Add(c.away)
			w.report()
			w.judge()
			if !c.breaks {
				w.wantSince(start)
				w.wants(v1alpha1.ConditionRewriteSafe, isTrue, assess.ReasonSettled)
				return
			}
			w.wantSince(w.now)
			w.wants(v1alpha1.ConditionRewriteSafe, isFalse, assess.ReasonSettling)
			w.pass(5 * time.Minute)
			w.wants(v1alpha1.ConditionRewriteSafe, isTrue, assess.ReasonSettled)
		})
	}
}

// TestWatchedWhileIdle: a fleet whose clock has ended, and in which nothing happens,
// is watched all the time, whatever the age of its reports.
func TestWatchedWhileIdle(t *testing.T) {
	for _, maxAge := range []time.Duration{time.Second, 3 * time.Minute, 7 * time.Minute, 2 * time.Hour} {
		w := newWorld(t)
		w.plan.Spec.ReportMaxAge.Duration = maxAge
		w.plan.Spec.SettleTime.Duration = 0
		w.judge()
		for range 50 {
			// It is judged when a report would be too old, and finds a newer one.
			w.now = w.out.Next
			w.report()
			// What would be, if a registry had changed by then.
			m, plan := *w.machines["cp-1"], w.plan.DeepCopy()
			w.machines["cp-1"].save("versions discovered")
			w.judge()
			w.wantSince(start)
			w.machines["cp-1"], w.plan = &m, plan
			w.judge()
			w.wantSince(start)
		}
	}
}

// TestClockOfAnotherWriter: a clock that stays in the status after a break, because
// another writer owns it as well, is none.
func TestClockOfAnotherWriter(t *testing.T) {
	for name, c := range map[string]struct{ set, undo func(*machine) }{
		"not ready":      {func(m *machine) { m.reasons = []string{"status_stale"} }, func(m *machine) { m.reasons = nil }},
		"went other way": {func(m *machine) { m.key = "other" }, func(m *machine) { m.key = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.judge()
			w.pass(2 * time.Minute)
			left := w.plan.Status.DeepCopy()
			leave := func() {
				s := &w.plan.Status
				s.ConvergedSince, s.RewriteSafeAfter, s.ActiveKeyIDHash = left.ConvergedSince, left.RewriteSafeAfter, left.ActiveKeyIDHash
			}
			c.set(w.machines["cp-1"])
			w.judge()
			leave()
			w.now = w.now.Add(30 * time.Second)
			w.judge()
			if w.plan.Status.ConvergedSince != nil {
				t.Errorf("converged since %s", w.plan.Status.ConvergedSince)
			}
			leave()
			c.undo(w.machines["cp-1"])
			w.pass(30 * time.Second)
			w.wantSince(start.Add(3 * time.Minute))
		})
	}
}

// TestClockChanges: a clock that was set shortens nothing.
func TestClockChanges(t *testing.T) {
	t.Run("back and forward", func(t *testing.T) {
		w := newWorld(t)
		w.judge()
		w.pass(time.Minute)
		w.now = start.Add(-time.Hour)
		w.report()
		w.judge()
		w.wantSince(start)
		w.pass(59 * time.Minute)
		w.wantPhase(v1alpha1.Settling)
		w.now = start.Add(2 * time.Minute)
		w.report()
		w.judge()
		w.wantSince(start)
		w.wantPhase(v1alpha1.Settling)
	})
	t.Run("forward", func(t *testing.T) {
		w := newWorld(t)
		w.judge()
		w.now = start.Add(time.Hour)
		w.report()
		w.judge()
		w.wantSince(start.Add(time.Hour))
		w.wantPhase(v1alpha1.Settling)
	})
}

func TestSettleTimeIsChanged(t *testing.T) {
	w := newWorld(t)
	w.judge()
	w.pass(5 * time.Minute)
	w.wantPhase(v1alpha1.RewriteSafe)
	w.plan.Spec.SettleTime.Duration = 10 * time.Minute
	w.judge()
	w.wantSince(start)
	w.wantPhase(v1alpha1.Settling)
	w.pass(5 * time.Minute)
	w.wantSince(start)
	w.wantPhase(v1alpha1.RewriteSafe)
}

// TestNext: the very moment at which time alone changes the status, and not a
// moment sooner.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*world)
		want time.Duration // from start; 0 for none
	}{
		{"the clock is watched", func(*world) {}, time.Minute},
		{"the clock ends", func(w *world) { w.plan.Spec.SettleTime.Duration = 20 * time.Second }, 20 * time.Second},
		{"a report ages out", func(w *world) { w.machines["cp-2"].seen = start.Add(-170 * time.Second) }, 10 * time.Second},
		{"a report ages out, settled", func(w *world) { w.plan.Spec.SettleTime.Duration = 0 }, 3 * time.Minute},
		{"a report from the future begins to count", func(w *world) { w.machines["cp-2"].seen = start.Add(time.Minute) }, 30 * time.Second},
		{"all is old", func(w *world) {
			for _, m := range w.machines {
				m.seen = start.Add(-time.Hour)
			}
		}, 0},
		{"no nodes", func(w *world) { w.machines = nil }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			was := w.judge().DeepCopy()
			if c.want == 0 {
				if !w.out.Next.IsZero() {
					t.Errorf("next %s, want none", w.out.Next)
				}
				w.now = start.Add(24 * time.Hour)
				if !equality.Semantic.DeepEqual(w.judge(), was) {
					t.Error("time alone changed the status")
				}
				return
			}
			next := w.out.Next
			if want := start.Add(c.want); !next.Equal(want) {
				t.Fatalf("next %s, want %s", next, want)
			}
			w.now = next.Add(-time.Nanosecond)
			if !equality.Semantic.DeepEqual(w.judge(), was) {
				t.Error("the status changed before")
			}
			if !w.out.Next.Equal(next) {
				t.Errorf("next is %s just before, want %s", w.out.Next, next)
			}
			w.now = next
			if equality.Semantic.DeepEqual(w.judge(), was) {
				t.Error("the status did not change then")
			}
		})
	}
}

// TestIdle: heartbeats of a healthy fleet are no reason to write, but for the time
// that nodes were last seen, every ten minutes.
func TestIdle(t *testing.T) {
	w := newWorld(t)
	w.judge()
	w.pass(6 * time.Minute)
	writes := 0
	for range 120 { // an hour
		was := w.plan.Status.DeepCopy()
		w.pass(30 * time.Second)
		if !equality.Semantic.DeepEqual(&w.plan.Status, was) {
			writes++
		}
		if behind := w.now.Sub(w.node("cp-1").LastSeen.Time); behind >= 10*time.Minute {
			t.Fatalf("last seen is %s behind", behind)
		}
	}
	if writes != 6 {
		t.Errorf("%d writes in an hour, want 6", writes)
	}
}

// TestEstimates: two estimates of one promotion are one.
func TestEstimates(t *testing.T) {
	w := newWorld(t)
	w.machines["cp-1"].observe(4)
	was := w.judge().DeepCopy()
	for _, c := range []struct {
		after   time.Duration
		changes bool
	}{{5 * time.Second, false}, {6 * time.Second, true}} {
		w.now = start.Add(c.after)
		w.report()
		if got := !equality.Semantic.DeepEqual(w.judge(), was); got != c.changes {
			t.Errorf("changed after %s: %t, want %t", c.after, got, c.changes)
		}
	}
}
