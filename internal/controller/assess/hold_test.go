package assess_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
)

// wantHeld: the approval counts, and everything says what it waits for instead of
// what to run.
func (w *world) wantHeld(says ...string) {
	w.t.Helper()
	w.wants(v1alpha1.ConditionRetirementApproved, isTrue, assess.ReasonApproved, says...)
	for _, c := range w.plan.Status.Conditions {
		if strings.Contains(c.Message, "Run nodes[]") {
			w.t.Errorf("%s says what to run: %s", c.Type, c.Message)
		}
	}
	w.wantCommands()
}

// wantCommands holds which nodes have a command.
func (w *world) wantCommands(names ...string) {
	w.t.Helper()
	var got []string
	for _, n := range w.plan.Status.Nodes {
		if n.Retirement.Command != "" {
			got = append(got, n.Name)
		}
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		w.t.Errorf("commands for %q, want %q", got, names)
	}
}

// TestApprovedTooEarly: while an older key may still be in use, nobody is asked to
// approve, and an approval that is there waits.
func TestApprovedTooEarly(t *testing.T) {
	w := newWorld(t).asksRetirement(3)
	w.judge()
	digest := w.plan.Status.Retirement.Digest
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonNotApproved, "Approve nothing yet. Wait for RewriteSafe")
	if c := condition(t, &w.plan.Status, v1alpha1.ConditionRetirementApproved); strings.Contains(c.Message, digest) {
		t.Errorf("it asks for the approval: %s", c.Message)
	}
	w.approve()
	w.pass(4*time.Minute + 30*time.Second)
	w.wantHeld(digest, "Run nothing yet. Wait for RewriteSafe")
	w.wants(v1alpha1.ConditionRetirementApplied, isFalse, assess.ReasonNotApplied, "Run nothing yet.")
	w.wants(v1alpha1.ConditionReady, isFalse, "Settling", "Do not rewrite before", "Run nothing yet.")
	w.wantPhase(v1alpha1.Settling)
	w.wantRetirement(digest, 3, 0, "approved")
	w.pass(30 * time.Second)
	w.wantPhase(v1alpha1.Approved)
	w.wantCommands("cp-1", "cp-2", "cp-3")
	w.wants(v1alpha1.ConditionRetirementApplied, isFalse, assess.ReasonNotApplied, "Run nodes[].retirement.command on cp-1, cp-2 and cp-3")
}

// TestChangedTooEarly: an approval that lapsed while a rotation goes on is not to be
// renewed before it is over.
func TestChangedTooEarly(t *testing.T) {
	w := approved(t)
	w.machines["cp-1"].observe(4)
	w.pass(30 * time.Second)
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonPlanChanged, "cp-1 differs", "Apply nothing. Wait for RewriteSafe", "Then review again.")
	w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonApprovedPlanChanged, "Apply nothing. Wait for RewriteSafe")
	for _, m := range w.machines {
		m.pending = 4
		m.promote()
	}
	w.pass(6 * time.Minute)
	w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonApprovedPlanChanged, "Review again and set spec.retirement.approvedDigest to "+w.plan.Status.Retirement.Digest)
}

// TestNodesThatHaveNothingToDo do not begin a retirement.
func TestNodesThatHaveNothingToDo(t *testing.T) {
	w := newWorld(t).asksRetirement(3)
	w.machines["cp-1"].retire(3)
	w.judge()
	w.approve()
	w.judge()
	w.wantPhase(v1alpha1.Settling)
	w.wantHeld("Wait for RewriteSafe")
	w.pass(5 * time.Minute)
	w.wantPhase(v1alpha1.Applying)
	w.wantCommands("cp-2", "cp-3")
}

// TestPlansDifferBeforeApproval: the digest is told, after what to look at first.
func TestPlansDifferBeforeApproval(t *testing.T) {
	w := newWorld(t).asksRetirement(3)
	w.machines["cp-1"].retire(2)
	w.judge()
	w.pass(5 * time.Minute)
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonNotApproved, "See RetirementPlanned first. Review the plans", w.plan.Status.Retirement.Digest)
}

// TestCommandsStay: a provider that is stopped to apply takes nobody's command away;
// what contradicts the plan does, and then it is as at the beginning.
func TestCommandsStay(t *testing.T) {
	w := approved(t)
	w.pass(4*time.Minute, "cp-2")
	w.wants(v1alpha1.ConditionRewriteSafe, isFalse, assess.ReasonNotConverged)
	w.wantPhase(v1alpha1.Approved)
	w.wantCommands("cp-1", "cp-2", "cp-3")
	w.machines["cp-3"].reasons = []string{"status_stale"}
	w.pass(30 * time.Second)
	w.wantCommands("cp-1", "cp-2", "cp-3")
	w.machines["cp-3"].reasons, w.machines["cp-2"].former = nil, "other"
	w.pass(30 * time.Second)
	w.wantHeld("see Degraded first")
	w.machines["cp-2"].former = ""
	w.pass(30 * time.Second)
	w.wantHeld("Wait for RewriteSafe")
	w.pass(5 * time.Minute)
	w.wantCommands("cp-1", "cp-2", "cp-3")
}

// TestCommandsAreOfTheirApproval: those of an earlier digest release no later one.
func TestCommandsAreOfTheirApproval(t *testing.T) {
	w := approved(t)
	w.wantCommands("cp-1", "cp-2", "cp-3")
	w.machines["cp-1"].save("something")
	w.machines["cp-1"].reasons = []string{"status_stale"}
	was := w.plan.DeepCopy()
	w.pass(30 * time.Second)
	w.approve()
	// The manager saw neither the change nor that the approval had lapsed.
	w.plan.Status = was.Status
	w.judge()
	w.wantHeld("Wait for RewriteSafe")
}

// TestHeldByContradictions: whatever speaks against the plan.
func TestHeldByContradictions(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		upset        func(*world)
	}{
		{"nodes diverged", assess.ReasonNodesDiverged, func(w *world) { w.machines["cp-2"].former = "other" }},
		{"plans overlap", assess.ReasonRetirementsOverlap, func(w *world) {
			p := w.plan.DeepCopy()
			p.Name, p.Spec.Nodes.Names, p.Spec.Retirement.BeforeVersion = "other", []string{"cp-3"}, 2
			p.Status = v1alpha1.KMSRotationPlanStatus{}
			w.others = []*v1alpha1.KMSRotationPlan{p}
		}},
		{"a node went back", assess.ReasonNodeWentBack, func(w *world) {
			w.plan.Status.Nodes[1].Generation = 99
		}},
	} {
		for _, begun := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				w := approved(t)
				if begun {
					w.machines["cp-1"].retire(3)
					w.pass(30 * time.Second)
					w.wantCommands("cp-2", "cp-3")
				}
				c.upset(w)
				for range 2 {
					w.pass(30 * time.Second)
					w.wants(v1alpha1.ConditionDegraded, isTrue, c.reason)
					w.wantHeld("Run nothing yet. Something contradicts the plan: see Degraded first.")
				}
				w.plan.Spec.Retirement.ApprovedDigest, w.plan.Spec.Retirement.Evidence = "", nil
				w.judge()
				w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonNotApproved, "Approve nothing yet. Something contradicts the plan: see Degraded first.")
			})
		}
	}
}

// TestUnwellAfterApplying: nobody goes on to the next node before the last one is
// known to be well.
func TestUnwellAfterApplying(t *testing.T) {
	next := "Look there first, with `bao-kms-provider doctor`, and run nothing on cp-2 and cp-3 until that is ready."
	for _, c := range []struct {
		name  string
		upset func(*world)
		says  string
	}{
		{"not ready", func(w *world) { w.machines["cp-1"].reasons = []string{"versions_blocked"} }, "cp-1 (versions_blocked) has applied it and is not ready. " + next},
		{"silent", func(w *world) { w.pass(4*time.Minute, "cp-1") }, "cp-1 (no report that counts) has applied it and is not ready. " + next},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := approved(t)
			w.machines["cp-1"].retire(3)
			w.pass(30 * time.Second)
			w.wantCommands("cp-2", "cp-3")
			c.upset(w)
			w.judge()
			w.wantHeld(c.says)
			w.wants(v1alpha1.ConditionRetirementApplied, isFalse, assess.ReasonPartlyApplied, "cp-1 has applied it.", c.says)
			w.wants(v1alpha1.ConditionReady, isFalse, string(v1alpha1.Applying), c.says)
			w.machines["cp-1"].reasons = nil
			w.pass(30 * time.Second)
			w.wantCommands("cp-2", "cp-3")
		})
	}
	t.Run("a node that has not applied", func(t *testing.T) {
		w := approved(t)
		w.machines["cp-1"].retire(3)
		w.machines["cp-2"].reasons = []string{"versions_blocked"}
		w.pass(30 * time.Second)
		w.wantCommands("cp-2", "cp-3")
	})
}

// TestDivergedBreaksTheClock: nodes that cannot read each other's data are no
// convergence, however long they encrypt with one key.
func TestDivergedBreaksTheClock(t *testing.T) {
	w := newWorld(t)
	w.judge()
	w.pass(6 * time.Minute)
	w.wants(v1alpha1.ConditionRewriteSafe, isTrue, assess.ReasonSettled)
	w.machines["cp-2"].former = "other"
	w.pass(time.Minute)
	w.wants(v1alpha1.ConditionRewriteSafe, metav1.ConditionFalse, assess.ReasonNodesDiverged, "Do not rewrite.", "different keys under one Transit version")
	if s := w.plan.Status; s.ConvergedSince != nil || s.RewriteSafeAfter != nil {
		t.Errorf("the clock runs from %v to %v", s.ConvergedSince, s.RewriteSafeAfter)
	}
	w.machines["cp-2"].former = ""
	w.pass(5 * time.Minute)
	w.wants(v1alpha1.ConditionRewriteSafe, isFalse, assess.ReasonSettling)
	w.pass(30 * time.Second)
	w.wants(v1alpha1.ConditionRewriteSafe, isTrue, assess.ReasonSettled)
}
