package assess_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
	"github.com/baokms/baokms/internal/report"
)

func (w *world) wantRetirement(digest string, planned, applied int32, summary string) {
	w.t.Helper()
	r := w.plan.Status.Retirement
	if r.Digest != digest || r.NodesPlanned != planned || r.NodesApplied != applied || w.plan.Status.Summary.Retirement != summary {
		w.t.Errorf("retirement %+v, %q, want digest %s, %d planned, %d applied, %q", r, w.plan.Status.Summary.Retirement, digest, planned, applied, summary)
	}
}

func (w *world) wantState(name string, want v1alpha1.RetirementState) {
	w.t.Helper()
	if got := w.node(name).Retirement.State; got != want {
		w.t.Errorf("%s is %q, want %q", name, got, want)
	}
}

// TestRetirement is one from the plan to the end, applied node by node.
func TestRetirement(t *testing.T) {
	w := newWorld(t).asksRetirement(3)
	w.judge()
	w.wantPhase(v1alpha1.Settling)
	digest := w.plan.Status.Retirement.Digest
	w.wantRetirement(digest, 3, 0, "planned")
	w.pass(5 * time.Minute)
	w.wantPhase(v1alpha1.AwaitingReview)
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonNotApproved, digest)
	for _, n := range w.plan.Status.Nodes {
		if n.Retirement.Command != "" {
			t.Errorf("a command on %s before anybody approved", n.Name)
		}
	}

	w.approve()
	w.judge()
	w.wantPhase(v1alpha1.Approved)
	w.wantRetirement(digest, 3, 0, "approved")
	w.wants(v1alpha1.ConditionRetirementApproved, isTrue, assess.ReasonApproved, "cp-1, cp-2 and cp-3", digest)
	w.wants(v1alpha1.ConditionRetirementApplied, isFalse, assess.ReasonNotApplied, "No node has applied it.", "cp-1, cp-2 and cp-3, one node after the other")
	if e := w.plan.Status.Retirement.Evidence; e == nil || e.Rewrite != "CHG-1042" || e.Backups != "CHG-1043" {
		t.Errorf("evidence %+v", e)
	}
	for _, n := range w.plan.Status.Nodes {
		want := fmt.Sprintf("bao-kms-provider retire-versions --before-version 3 --apply --expected-state-hash %s --expected-next-state-hash %s",
			stateHash(n.Name), stateHash(n.Name+"/retire [1 2]"))
		r := n.Retirement
		if r.Command != want || !slices.Equal(r.RemovedVersions, []int32{1, 2}) || r.State != v1alpha1.RetirementPlanned || r.ActiveKeyIDHash != keyHash("", 3) || r.NextGeneration != 8 {
			t.Errorf("%s: %+v", n.Name, r)
		}
	}

	for i, name := range []string{"cp-2", "cp-1", "cp-3"} {
		// The provider is stopped for a while, applied, starts, and becomes ready.
		w.pass(4*time.Minute, name)
		w.wants(v1alpha1.ConditionRetirementApproved, isTrue, assess.ReasonApproved)
		w.wants(v1alpha1.ConditionRetirementPlanned, isUnknown, assess.ReasonNodesNotReporting, name)
		m := w.machines[name]
		m.retire(3)
		m.reasons = []string{"deep_probe_pending"}
		m.refusal = &report.Problem{Reason: "metadata_unverified", Message: "m", NextStep: "n"}
		w.pass(30 * time.Second)
		w.wantState(name, v1alpha1.RetirementApplied)
		m.reasons, m.refusal = nil, nil
		w.pass(30 * time.Second)
		w.wantState(name, v1alpha1.RetirementApplied)
		n := w.node(name).Retirement
		if n.Command != "" || n.StateHash != stateHash(name) || n.NextStateHash != stateHash(name+"/retire [1 2]") || !slices.Equal(n.RemovedVersions, []int32{1, 2}) {
			t.Errorf("%s does not keep what it was approved with: %+v", name, n)
		}
		w.wants(v1alpha1.ConditionRetirementApproved, isTrue, assess.ReasonApproved)
		w.wants(v1alpha1.ConditionDegraded, isFalse, assess.ReasonConsistent)
		if i < 2 {
			w.wantPhase(v1alpha1.Applying)
			w.wantRetirement(digest, 3, int32(i+1), fmt.Sprintf("%d/3 applied", i+1))
			w.wants(v1alpha1.ConditionRetirementApplied, isFalse, assess.ReasonPartlyApplied, "cp-2", "Run nodes[].retirement.command on")
		}
	}
	w.wantPhase(v1alpha1.Retired)
	w.wantRetirement(digest, 3, 3, "retired")
	w.wants(v1alpha1.ConditionRetirementApplied, isTrue, assess.ReasonAllApplied, "All 3 nodes", "below version 3", "needs the operators' own evidence")
	w.wants(v1alpha1.ConditionReady, isTrue, "Retired", "does not say that a minimum version may be raised")

	// A later rotation descends from what was approved.
	for _, m := range w.machines {
		m.observe(4)
	}
	w.pass(30 * time.Second)
	w.machines["cp-1"].promote()
	w.pass(30 * time.Second)
	w.wantPhase(v1alpha1.Retired)
	w.wantRetirement(digest, 3, 3, "retired")

	// A node that does not report is not told as done.
	w.pass(4*time.Minute, "cp-3")
	w.wants(v1alpha1.ConditionRetirementApplied, isUnknown, assess.ReasonNodesNotReporting, "When last seen", "cp-3")
	w.wants(v1alpha1.ConditionReady, isUnknown, "Applying")
	w.pass(30 * time.Second)
	w.wantPhase(v1alpha1.Retired)

	// Restored versions are no longer retired.
	w.machines["cp-2"].restore()
	w.pass(30 * time.Second)
	w.wantPhase(v1alpha1.Degraded)
	w.wantState("cp-2", v1alpha1.RetirementChanged)
	w.wantState("cp-1", v1alpha1.RetirementApplied)
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonPlanChanged, "cp-2 differs from what was approved")
	w.wants(v1alpha1.ConditionRetirementApplied, isFalse, assess.ReasonNotApproved)
}

// TestMissedSteps: the manager was away while nodes applied, and went on.
func TestMissedSteps(t *testing.T) {
	t.Run("between", func(t *testing.T) {
		w := approved(t)
		w.machines["cp-1"].retire(3)
		w.machines["cp-1"].observe(4)
		w.machines["cp-1"].promote()
		w.pass(30 * time.Second)
		w.wantState("cp-1", v1alpha1.RetirementApplied)
		w.wants(v1alpha1.ConditionRetirementApproved, isTrue, assess.ReasonApproved)
	})
	t.Run("before it saw the approval", func(t *testing.T) {
		w := newWorld(t).asksRetirement(3)
		w.judge()
		w.approve()
		w.machines["cp-1"].retire(3)
		w.pass(30 * time.Second)
		w.wantState("cp-1", v1alpha1.RetirementApplied)
		w.wantPhase(v1alpha1.Applying)
	})
	t.Run("a change before it saw the approval", func(t *testing.T) {
		w := newWorld(t).asksRetirement(3)
		w.judge()
		w.approve()
		w.machines["cp-1"].save("something")
		w.pass(30 * time.Second)
		w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonPlanChanged, "cp-1 differs")
		w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonApprovedPlanChanged)
	})
}

// TestPlanReadBeforeTheRegistryMoved: report and plan are read one after the other.
func TestPlanReadBeforeTheRegistryMoved(t *testing.T) {
	w := newWorld(t).asksRetirement(3)
	in := w.input()
	in.Reports["cp-2"].Status.Report.Registry.StateHash = stateHash("later")
	w.take(in)
	w.wants(v1alpha1.ConditionRetirementPlanned, isUnknown, assess.ReasonAwaitingPlans, "cp-2")
	w.wantRetirement("", 2, 0, "not planned")
	if r := w.node("cp-2").Retirement; r.State != "" || r.StateHash != "" {
		t.Errorf("cp-2 has a plan: %+v", r)
	}
}

// TestForgedPlans: what goes into a command is a hash, whoever wrote the report.
func TestForgedPlans(t *testing.T) {
	for name, forge := range map[string]func(*report.RetirementPlan){
		"state hash":        func(p *report.RetirementPlan) { p.StateHash = "sha256:x; reboot" },
		"next state hash":   func(p *report.RetirementPlan) { p.NextStateHash = "$(reboot)" },
		"nothing removed":   func(p *report.RetirementPlan) { p.RemovedVersions = nil },
		"versions above":    func(p *report.RetirementPlan) { p.RemovedVersions = []int{1, 3} },
		"versions disorder": func(p *report.RetirementPlan) { p.RemovedVersions = []int{2, 1} },
		"another question":  func(p *report.RetirementPlan) { p.BeforeVersion = 4 },
		"no key":            func(p *report.RetirementPlan) { p.ActiveKeyIDHash = "" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).asksRetirement(3)
			in := w.input()
			forge(in.Reports["cp-2"].Status.RetirementPlans[1].Plan)
			w.take(in)
			w.wants(v1alpha1.ConditionRetirementPlanned, isFalse, assess.ReasonPlanRefused, "cp-2", "contradicts itself")
			w.wantRetirement("", 2, 0, "not planned")
			if strings.Contains(fmt.Sprintf("%+v", w.plan.Status), "reboot") {
				t.Error("the status repeats what was forged")
			}
		})
	}
}

// TestNothingToDo: approving that there is nothing to do is all there is to it.
func TestNothingToDo(t *testing.T) {
	w := newWorld(t).asksRetirement(3)
	for _, m := range w.machines {
		m.retire(3)
	}
	w.judge()
	w.wantRetirement(w.plan.Status.Retirement.Digest, 3, 0, "planned")
	w.wants(v1alpha1.ConditionDegraded, isFalse, assess.ReasonConsistent)
	w.approve()
	w.judge()
	w.wantPhase(v1alpha1.Retired)
	w.machines["cp-1"].observe(4)
	w.pass(30 * time.Second)
	w.wantPhase(v1alpha1.Retired)
	w.machines["cp-1"].pending = 0
	w.machines["cp-1"].restore()
	w.pass(30 * time.Second)
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonPlanChanged, "cp-1")
}
