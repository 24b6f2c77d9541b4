package assess_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
)

func TestAppliedWithoutApproval(t *testing.T) {
	w := newWorld(t).asksRetirement(3)
	w.judge()
	digest := w.plan.Status.Retirement.Digest
	w.machines["cp-2"].retire(3)
	for range 2 {
		w.pass(30 * time.Second)
		w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonAppliedWithoutApproval, "cp-2 has applied", "restore-versions")
		w.wantRetirement(digest, 3, 1, "1/3 applied")
	}
	w.approve()
	w.judge()
	w.wantPhase(v1alpha1.Applying)
}

// TestNodeWentBack: over restarts, and until the node is where it was.
func TestNodeWentBack(t *testing.T) {
	for _, c := range []struct {
		name string
		back func(*machine)
		says string
	}{
		{"an older generation", func(m *machine) { m.generation, m.history = 5, "older" }, "cp-2 (generation 5 with version 3, was generation 7 with version 3)"},
		{"an older key", func(m *machine) { m.generation, m.active, m.history = 5, 2, "older" }, "cp-2 (generation 5 with version 2, was generation 7 with version 3)"},
		{"an older key in a new registry", func(m *machine) { m.generation, m.active, m.history = 9, 2, "other" }, "cp-2 (generation 9 with version 2"},
		{"another registry of the same generation", func(m *machine) { m.history = "other" }, "cp-2 (generation 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.judge()
			good := *w.machines["cp-2"]
			c.back(w.machines["cp-2"])
			for range 3 {
				w.pass(30 * time.Second)
				w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodeWentBack, c.says, "newest state files")
				w.wantPhase(v1alpha1.Degraded)
			}
			if m := w.node("cp-2").WentBackFrom; m.Generation != 7 || m.StateHash != stateHash("cp-2") || m.TransitVersion != 3 {
				t.Errorf("mark %+v", m)
			}
			w.pass(4*time.Minute, "cp-2") // its report grows old
			w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodeWentBack, c.says)
			in := w.input()
			delete(in.Reports, "cp-2")
			w.take(in)
			w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodeWentBack, "cp-2")
			good.seen = w.now
			w.machines["cp-2"] = &good
			w.pass(30 * time.Second)
			w.wants(v1alpha1.ConditionDegraded, isFalse, assess.ReasonConsistent)
			if w.node("cp-2").WentBackFrom != nil {
				t.Error("the mark stays")
			}
		})
	}
}

// TestNodeWentBackAndIsAddedAgain: a node that was set up anew on purpose.
func TestNodeWentBackAndIsAddedAgain(t *testing.T) {
	w := newWorld(t)
	w.judge()
	m := w.machines["cp-2"]
	m.generation, m.history = 2, "new"
	w.pass(30 * time.Second)
	w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodeWentBack, "remove it from the plan and add it again")
	delete(w.machines, "cp-2")
	w.pass(30 * time.Second)
	w.machines["cp-2"] = m
	w.pass(30 * time.Second)
	w.wants(v1alpha1.ConditionDegraded, isFalse, assess.ReasonConsistent)
}

// TestContradictionsAreNotReady: data that may be rewritten is not all that counts.
func TestContradictionsAreNotReady(t *testing.T) {
	w := newWorld(t)
	w.judge()
	w.pass(5 * time.Minute)
	w.wants(v1alpha1.ConditionReady, isTrue, "RewriteSafe")
	w.machines["cp-2"].generation, w.machines["cp-2"].history = 2, "older"
	w.pass(30 * time.Second)
	w.wants(v1alpha1.ConditionRewriteSafe, isTrue, assess.ReasonSettled)
	w.wants(v1alpha1.ConditionReady, isFalse, "Degraded", "The key registry went back on cp-2")
}

// TestLateCache: a manager whose cache lags behind what was judged before sees no
// node go back.
func TestLateCache(t *testing.T) {
	w := newWorld(t)
	old := w.input()
	w.judge()
	w.now = w.now.Add(30 * time.Second)
	for _, m := range w.machines {
		m.save("more")
	}
	w.report()
	w.judge()
	old.Plan, old.Now = w.plan.DeepCopy(), w.now
	w.take(old)
	w.wants(v1alpha1.ConditionDegraded, isFalse, assess.ReasonConsistent)
}

// TestPlansAtOdds: two plans that retire below different versions on a shared
// node; each is told of it.
func TestPlansAtOdds(t *testing.T) {
	other := func(change func(*v1alpha1.KMSRotationPlan)) *v1alpha1.KMSRotationPlan {
		p := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: "other", Generation: 4}}
		p.Spec.ProviderName = provider
		p.Spec.Nodes.Names = []string{"cp-2", "cp-9"}
		p.Spec.Retirement = &v1alpha1.Retirement{BeforeVersion: 2}
		change(p)
		return p
	}
	bySelector := func(names ...string) func(p *v1alpha1.KMSRotationPlan) {
		return func(p *v1alpha1.KMSRotationPlan) {
			p.Spec.Nodes = v1alpha1.NodeSet{Selector: &metav1.LabelSelector{}}
			for _, name := range names {
				p.Status.Nodes = append(p.Status.Nodes, v1alpha1.NodeStatus{Name: name})
			}
		}
	}
	applied := func(status metav1.ConditionStatus, reason string, generation int64) func(p *v1alpha1.KMSRotationPlan) {
		return func(p *v1alpha1.KMSRotationPlan) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRetirementApplied, Status: status, Reason: reason, ObservedGeneration: generation}}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.KMSRotationPlan)
		odds   bool
	}{
		{"another version", func(*v1alpha1.KMSRotationPlan) {}, true},
		{"the same version", func(p *v1alpha1.KMSRotationPlan) { p.Spec.Retirement.BeforeVersion = 3 }, false},
		{"no retirement", func(p *v1alpha1.KMSRotationPlan) { p.Spec.Retirement = nil }, false},
		{"no shared node", func(p *v1alpha1.KMSRotationPlan) { p.Spec.Nodes.Names = []string{"cp-9"} }, false},
		{"another provider", func(p *v1alpha1.KMSRotationPlan) { p.Spec.ProviderName = "other" }, false},
		{"a selector that matches", bySelector("cp-2"), true},
		{"a selector that does not", bySelector("cp-9"), false},
		{"done", applied(isTrue, assess.ReasonAllApplied, 4), false},
		{"done before its spec changed", applied(isTrue, assess.ReasonAllApplied, 3), true},
		{"done, and a node is silent", applied(isUnknown, assess.ReasonNodesNotReporting, 4), false},
		{"done before its spec changed, and a node is silent", applied(isUnknown, assess.ReasonNodesNotReporting, 3), true},
		{"nobody knows", applied(isUnknown, assess.ReasonDigestUnavailable, 4), true},
		{"partly done", applied(isFalse, assess.ReasonPartlyApplied, 4), true},
		{"being deleted", func(p *v1alpha1.KMSRotationPlan) { p.DeletionTimestamp = &metav1.Time{Time: start} }, false},
		{"the plan itself", func(p *v1alpha1.KMSRotationPlan) { p.Name = "workload-a-2026q4" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t).asksRetirement(3)
			w.others = []*v1alpha1.KMSRotationPlan{other(c.change)}
			w.judge()
			if c.odds {
				w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonRetirementsOverlap, "Plan other retires below version 2 on cp-2, this one below version 3.", "out of one of them")
				w.wantPhase(v1alpha1.Degraded)
			} else {
				w.wants(v1alpha1.ConditionDegraded, isFalse, assess.ReasonConsistent)
			}
		})
	}

	t.Run("on both", func(t *testing.T) {
		a, b := newWorld(t).asksRetirement(3), newWorld(t).asksRetirement(2)
		a.plan.Spec.Nodes.Names, b.plan.Spec.Nodes.Names = []string{"cp-1", "cp-2", "cp-3"}, []string{"cp-1", "cp-2", "cp-3"}
		b.plan.Name = "b"
		a.others, b.others = []*v1alpha1.KMSRotationPlan{b.plan}, []*v1alpha1.KMSRotationPlan{a.plan}
		a.judge()
		b.judge()
		a.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonRetirementsOverlap, "Plan b")
		b.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonRetirementsOverlap, "Plan workload-a-2026q4")
	})
	t.Run("once it is applied itself", func(t *testing.T) {
		w := approved(t)
		for _, m := range w.machines {
			m.retire(3)
		}
		w.others = []*v1alpha1.KMSRotationPlan{other(func(*v1alpha1.KMSRotationPlan) {})}
		w.pass(30 * time.Second)
		w.wantPhase(v1alpha1.Retired)
	})
}

// TestFinishedPlanAndTheNext: the provider that is stopped for the next retirement
// also falls silent in the plan of the last one, which is no reason to stop.
func TestFinishedPlanAndTheNext(t *testing.T) {
	last := retired(t)
	last.plan.Spec.Nodes.Names = []string{"cp-1", "cp-2", "cp-3"}
	next := newWorld(t)
	next.plan.Name, next.machines, next.now = "next", last.machines, last.now
	next.others = []*v1alpha1.KMSRotationPlan{last.plan}
	for _, m := range next.machines {
		m.observe(4)
		m.promote()
	}
	next.asksRetirement(4)
	both := func(d time.Duration, silent ...string) {
		for end := next.now.Add(d); next.now.Before(end); {
			last.now = last.now.Add(30 * time.Second)
			next.pass(30*time.Second, silent...)
			last.judge()
		}
		next.judge()
	}
	both(6 * time.Minute)
	next.approve()
	both(30 * time.Second)
	next.wantPhase(v1alpha1.Approved)
	both(4*time.Minute, "cp-1")
	last.wants(v1alpha1.ConditionRetirementApplied, isUnknown, assess.ReasonNodesNotReporting)
	next.wants(v1alpha1.ConditionDegraded, isUnknown, assess.ReasonNodesNotReporting, "cp-1")
	next.wantPhase(v1alpha1.Approved)
	if next.node("cp-1").Retirement.Command == "" {
		t.Error("the command for cp-1 is gone while it is carried out")
	}
}

// TestApprovalIsTidiedAway: when every node has applied, nobody is advised to undo.
func TestApprovalIsTidiedAway(t *testing.T) {
	w := retired(t)
	digest := w.plan.Status.Retirement.Digest
	w.plan.Spec.Retirement.ApprovedDigest, w.plan.Spec.Retirement.Evidence = "", nil
	for range 2 {
		w.judge()
		w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonAppliedWithoutApproval, "cp-1, cp-2 and cp-3 have applied", "approvedDigest to "+digest, "take spec.retirement out")
		if c := condition(t, &w.plan.Status, v1alpha1.ConditionDegraded); strings.Contains(c.Message, "restore") {
			t.Errorf("it advises to restore: %s", c.Message)
		}
	}
	w.approve()
	w.judge()
	w.wantPhase(v1alpha1.Retired)
}

// TestSeveralContradictions: the gravest gives the reason, all are told.
func TestSeveralContradictions(t *testing.T) {
	w := approved(t)
	m := w.machines["cp-2"]
	m.key, m.generation, m.history = "other", 2, "other"
	w.pass(30 * time.Second)
	w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodesDiverged, "different keys", "went back on cp-2", "The approval no longer counts.")
}
