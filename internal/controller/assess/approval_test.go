package assess_test

import (
	"slices"
	"testing"
	"time"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
	"github.com/baokms/baokms/internal/report"
)

// TestLapse: what makes an approval count no longer, over restarts, and how it is
// told; then the new digest is approved.
func TestLapse(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*world)
		says    string
		changed []string
		joined  []string // those of them that no approval was ever for
	}{
		{"a node observes a version", func(w *world) { w.machines["cp-2"].observe(4) }, "cp-2 differs from what was approved", []string{"cp-2"}, nil},
		{"a node saves something", func(w *world) { w.machines["cp-2"].save("x") }, "cp-2 differs from what was approved", []string{"cp-2"}, nil},
		{"a node goes another way", func(w *world) { w.machines["cp-2"].retire(2) }, "cp-2 differs from what was approved", []string{"cp-2"}, nil},
		{"a node joins", func(w *world) { w.join("cp-4") }, "cp-4 differs from what was approved", []string{"cp-4"}, []string{"cp-4"}},
		{"a node leaves", func(w *world) { delete(w.machines, "cp-3") }, "cp-3 has left the plan since", []string{"cp-3"}, nil},
		{"a node is renamed", func(w *world) { delete(w.machines, "cp-3"); w.join("node-3") }, "node-3 differs from what was approved. cp-3 has left the plan since.", []string{"cp-3", "node-3"}, []string{"node-3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := approved(t)
			w.machines["cp-1"].retire(3)
			w.pass(30 * time.Second)
			old := w.plan.Status.Retirement.Digest
			c.change(w)
			for range 3 {
				w.pass(30 * time.Second)
				w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonPlanChanged, "The approval no longer counts.", c.says, "Apply nothing", w.plan.Status.Retirement.Digest)
				w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonApprovedPlanChanged, c.says)
				w.wantPhase(v1alpha1.Degraded)
				w.wantState("cp-1", v1alpha1.RetirementApplied)
				r := w.plan.Status.Retirement
				if r.Digest == old || r.ApprovedDigest != old || !slices.Equal(r.ChangedNodes, c.changed) || r.Evidence == nil {
					t.Errorf("retirement %+v", r)
				}
				for _, n := range w.plan.Status.Nodes {
					want := v1alpha1.RetirementPlanned
					switch {
					case n.Name == "cp-1":
						want = v1alpha1.RetirementApplied
					case slices.Contains(c.changed, n.Name) && !slices.Contains(c.joined, n.Name):
						want = v1alpha1.RetirementChanged
					}
					if n.Retirement.State != want || n.Retirement.Command != "" {
						t.Errorf("%s: %+v", n.Name, n.Retirement)
					}
				}
			}
			if got := w.plan.Status.Summary.Retirement; got != "approval lapsed" {
				t.Errorf("summary %q", got)
			}
			w.approve()
			w.judge()
			w.wantPhase(v1alpha1.Applying)
			w.wants(v1alpha1.ConditionDegraded, isFalse, assess.ReasonConsistent)
			for name := range w.machines {
				if name == "cp-1" {
					continue
				}
				w.wantState(name, v1alpha1.RetirementPlanned)
				w.machines[name].retire(3)
			}
			w.pass(30 * time.Second)
			w.wantPhase(v1alpha1.Retired)
		})
	}
}

// TestApprovalStays: what is no change of a plan.
func TestApprovalStays(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(assess.Input, *world)
	}{
		{"a report is old", func(in assess.Input, w *world) { in.Reports["cp-2"].Status.ObservedAt.Time = w.now.Add(-time.Hour) }},
		{"a report is gone", func(in assess.Input, w *world) { delete(in.Reports, "cp-2") }},
		{"the plan is refused for a while", func(in assess.Input, w *world) {
			in.Reports["cp-2"].Status.RetirementPlans[1] = v1alpha1.NodeRetirement{BeforeVersion: 3, Problem: &report.Problem{Reason: "status_stale"}}
		}},
		{"the plan is not there", func(in assess.Input, w *world) { in.Reports["cp-2"].Status.RetirementPlans = nil }},
		{"the provider starts", func(in assess.Input, w *world) {
			r := in.Reports["cp-2"].Status.Report
			r.Registry, r.ActiveKey, r.Snapshots = nil, nil, nil
		}},
		{"nodes come in another order", func(in assess.Input, w *world) { slices.Reverse(in.Nodes) }},
		{"a node comes twice", func(in assess.Input, w *world) { in.Nodes = append(in.Nodes, "cp-2") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := approved(t)
			digest := w.plan.Status.Retirement.Digest
			in := w.input()
			c.change(in, w)
			for range 2 {
				in.Plan = w.plan.DeepCopy()
				w.take(in)
				w.wants(v1alpha1.ConditionRetirementApproved, isTrue, assess.ReasonApproved)
				w.wantRetirement(digest, 3, 0, "approved")
				if w.node("cp-2").Retirement.Command == "" {
					t.Error("no command for cp-2")
				}
			}
		})
	}
}

// TestApprovalIsTakenBack, and other changes of the spec.
func TestApprovalIsTakenBack(t *testing.T) {
	w := approved(t)
	w.plan.Spec.Retirement.Evidence = nil
	w.judge()
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonEvidenceMissing, "evidence")
	w.wants(v1alpha1.ConditionRetirementApplied, isFalse, assess.ReasonNotApproved)
	if w.node("cp-1").Retirement.Command != "" {
		t.Error("a command without evidence")
	}
	w.plan.Spec.Retirement.ApprovedDigest = ""
	w.judge()
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonNotApproved)
	w.wantPhase(v1alpha1.AwaitingReview)
	if r := w.plan.Status.Retirement; r.ApprovedDigest != "" || r.Evidence != nil {
		t.Errorf("an approval that was taken back is remembered: %+v", r)
	}
	was := w.plan.Status.Retirement.Digest
	w.plan.Spec.Retirement.BeforeVersion = 2
	w.judge()
	if r := w.plan.Status.Retirement; r.BeforeVersion != 2 || r.Digest == was || !slices.Equal(w.node("cp-1").Retirement.RemovedVersions, []int32{1}) {
		t.Errorf("retirement %+v, cp-1 %+v", r, w.node("cp-1").Retirement)
	}
	w.plan.Spec.Retirement = nil
	w.judge()
	if w.plan.Status.Retirement != nil || w.node("cp-1").Retirement != nil {
		t.Error("a retirement that is not asked for is told")
	}
	w.wantPhase(v1alpha1.RewriteSafe)
}

// TestSameVersionsByAnotherWay: the versions are removed, but not by a registry
// that can descend from what was approved.
func TestSameVersionsByAnotherWay(t *testing.T) {
	w := approved(t)
	m := w.machines["cp-2"]
	m.removed, m.generation, m.history = []int{1, 2}, 8, "other"
	w.pass(30 * time.Second)
	w.wantState("cp-2", v1alpha1.RetirementChanged)
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonPlanChanged, "cp-2 differs from what was approved")
}

// TestApprovalWithoutEvidence never counted, and so does not lapse.
func TestApprovalWithoutEvidence(t *testing.T) {
	w := newWorld(t).asksRetirement(3)
	w.judge()
	w.approve()
	w.plan.Spec.Retirement.Evidence = nil
	w.judge()
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonEvidenceMissing)
	w.machines["cp-1"].save("something")
	w.pass(30 * time.Second)
	w.wants(v1alpha1.ConditionDegraded, isFalse, assess.ReasonConsistent)
	if r := w.plan.Status.Retirement; r.ApprovedDigest != "" || len(r.ChangedNodes) != 0 {
		t.Errorf("retirement %+v", r)
	}
}

// TestAnotherVersionIsAsked: what is remembered is of the version that was asked.
func TestAnotherVersionIsAsked(t *testing.T) {
	w := approved(t)
	w.plan.Spec.Retirement.BeforeVersion = 2
	for _, m := range w.machines {
		m.unasked = true
	}
	w.judge()
	w.wantRetirement("", 0, 0, "not planned")
	w.wants(v1alpha1.ConditionRetirementPlanned, isUnknown, assess.ReasonAwaitingPlans, "below version 2")
	w.wants(v1alpha1.ConditionRetirementApproved, isUnknown, assess.ReasonDigestUnavailable)
}

func TestEvidenceIsOfTheApproval(t *testing.T) {
	w := approved(t)
	w.plan.Spec.Retirement.Evidence.Rewrite = "edited later"
	w.judge()
	if got := w.plan.Status.Retirement.Evidence.Rewrite; got != "CHG-1042" {
		t.Errorf("evidence %q", got)
	}
}

// TestJoinedAndLeftWhileLapsed: of the nodes that changed, one that no approval was
// ever for and that is gone is none; one that was approved and left is, also after
// it was back for a while.
func TestJoinedAndLeftWhileLapsed(t *testing.T) {
	w := approved(t)
	w.machines["cp-2"].save("something")
	changed := func(want ...string) {
		t.Helper()
		w.pass(time.Minute)
		if got := w.plan.Status.Retirement.ChangedNodes; !slices.Equal(got, want) {
			t.Errorf("changed %q, want %q", got, want)
		}
	}
	changed("cp-2")
	w.join("cp-4")
	changed("cp-2", "cp-4")
	w.wantState("cp-4", v1alpha1.RetirementPlanned)
	delete(w.machines, "cp-4")
	changed("cp-2")
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonPlanChanged, "cp-2 differs from what was approved. Apply nothing.")
	w.join("cp-4").unasked = true
	changed("cp-2", "cp-4")
	delete(w.machines, "cp-4")
	changed("cp-2")

	was := w.machines["cp-3"]
	delete(w.machines, "cp-3")
	changed("cp-2", "cp-3")
	w.machines["cp-3"] = was
	changed("cp-2", "cp-3")
	delete(w.machines, "cp-3")
	changed("cp-2", "cp-3")
	w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonPlanChanged, "cp-3 has left the plan since")
	delete(w.machines, "cp-2")
	changed("cp-2", "cp-3")
}
