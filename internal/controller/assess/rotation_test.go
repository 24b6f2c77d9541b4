package assess_test

import (
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
)

func TestKeyHistory(t *testing.T) {
	w := newWorld(t)
	w.judge()
	rotate := func(version int) {
		for _, m := range w.machines {
			m.observe(version)
		}
		w.pass(time.Minute)
		for _, m := range w.machines {
			m.promote()
		}
		w.pass(time.Minute)
	}
	for version := 4; version <= 20; version++ {
		rotate(version)
	}
	h := w.plan.Status.KeyHistory
	if len(h) != 16 || h[0].TransitVersion != 5 || h[15].TransitVersion != 20 || h[15].KeyIDHash != keyHash("", 20) {
		t.Fatalf("history %+v", h)
	}
	if !h[0].FirstSeen.Time.Equal(start.Add(3*time.Minute+30*time.Second)) || !h[0].LastSeen.After(h[0].FirstSeen.Time) || h[0].LastSeen.After(h[1].FirstSeen.Time) {
		t.Errorf("the oldest is %+v, the next %+v", h[0], h[1])
	}
	w.wants(v1alpha1.ConditionDegraded, isFalse, assess.ReasonConsistent)

	// Back to an earlier key, over restarts, until there is a newer one.
	for _, m := range w.machines {
		m.active = 19
		m.save("lost")
	}
	for range 3 {
		w.pass(10 * time.Minute)
		w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonKeyReturned, "went back to version 19", "after version 20", "newest state files")
		w.wants(v1alpha1.ConditionRewriteSafe, isFalse, assess.ReasonKeyReturned, "Do not rewrite")
		w.wantPhase(v1alpha1.Degraded)
		if got := w.plan.Status.KeyHistory; len(got) != 16 || got[15].TransitVersion != 20 || w.plan.Status.ConvergedSince != nil {
			t.Fatalf("history %+v, converged since %v", got, w.plan.Status.ConvergedSince)
		}
	}
	rotate(20)
	rotate(21)
	w.pass(5 * time.Minute)
	w.wants(v1alpha1.ConditionDegraded, isFalse, assess.ReasonConsistent)
	w.wantPhase(v1alpha1.RewriteSafe)
}

// TestRotation is an ordinary one, told by phases.
func TestRotation(t *testing.T) {
	w := newWorld(t)
	w.plan.Spec.TargetTransitVersion = target(4)
	w.judge()
	w.wantPhase(v1alpha1.Rotating)
	step := func(summary string, phase v1alpha1.Phase, version int32) {
		t.Helper()
		w.pass(30 * time.Second)
		w.wantPhase(phase)
		if s := w.plan.Status; s.Summary.Nodes != summary || s.ActiveTransitVersion != version || (s.ActiveKeyIDHash == "") != (version == 0) {
			t.Errorf("summary %s, version %d, hash %q", s.Summary.Nodes, s.ActiveTransitVersion, s.ActiveKeyIDHash)
		}
	}
	for _, name := range []string{"cp-1", "cp-2", "cp-3"} {
		w.machines[name].observe(4)
		step("0/3", v1alpha1.Rotating, 3)
	}
	w.machines["cp-2"].promote()
	step("1/3", v1alpha1.Rotating, 0)
	w.machines["cp-1"].promote()
	step("2/3", v1alpha1.Rotating, 0)
	w.machines["cp-3"].promote()
	step("3/3", v1alpha1.Settling, 4)
	since := w.now
	w.pass(5 * time.Minute)
	w.wantSince(since)
	step("3/3", v1alpha1.RewriteSafe, 4)
	w.pass(5*time.Minute, "cp-2")
	w.wantPhase(v1alpha1.Observing)
	if r := w.plan.Status.Summary.Retirement; r != "" {
		t.Errorf("a retirement %q that was not asked for", r)
	}
	if c := condition(t, &w.plan.Status, v1alpha1.ConditionReady); !strings.Contains(c.Message, "cp-2") {
		t.Errorf("Ready does not name the node: %s", c.Message)
	}
}
