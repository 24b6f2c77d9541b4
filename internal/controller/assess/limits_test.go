package assess_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
)

// crowd makes the plan's nodes n, which report nothing.
func crowd(in assess.Input, n int) assess.Input {
	in.Nodes = nil
	for i := range n {
		in.Nodes = append(in.Nodes, fmt.Sprintf("node-%d", i))
	}
	return in
}

// TestNodesUnknown: a plan whose selector cannot be resolved, or is none, says so and
// what to do.
func TestNodesUnknown(t *testing.T) {
	w := newWorld(t)
	w.judge()
	in := w.input()
	in.Nodes = nil
	for reason, c := range map[string]struct {
		out  assess.Output
		says string
	}{
		assess.ReasonNodesUnreadable: {assess.NodesUnreadable(in), "Let it list and watch nodes in the cluster that it runs against, or name them in spec.nodes.names."},
		assess.ReasonSelectorInvalid: {assess.SelectorInvalid(in, errors.New("key \"a\\nb\"\nis bad")), `spec.nodes.selector cannot be used: key "a\nb" is bad. Correct it.`},
	} {
		s := c.out.Status
		if got := condition(t, &s, v1alpha1.ConditionReady); got.Status != isFalse || got.Reason != reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("Ready is %+v", got)
		}
		if got := condition(t, &s, v1alpha1.ConditionRewriteSafe); got.Status != isUnknown || got.Reason != reason {
			t.Errorf("RewriteSafe is %+v", got)
		}
		if s.Summary != nil || s.Retirement != nil || s.ConvergedSince != nil || s.RewriteSafeAfter != nil || s.ActiveKeyIDHash != "" {
			t.Errorf("%s: it tells of %+v", reason, s)
		}
	}
}

// TestUnjudged: a plan that is too large says so in every condition, and keeps of the
// past which keys were agreed on and which approval counted.
func TestUnjudged(t *testing.T) {
	w := approved(t)
	in := w.input()
	before := in.Plan.Status.DeepCopy()
	if before.ConvergedSince == nil || len(before.KeyHistory) == 0 || before.Retirement.ApprovedDigest == "" {
		t.Fatalf("there is no past: %+v", before)
	}
	for name, c := range map[string]struct {
		out    assess.Output
		nodes  string
		reason string
		says   string
	}{
		"too many nodes": {assess.Assess(crowd(in, assess.MaxNodes+1)), "0/1001", assess.ReasonTooManyNodes, "matches 1001 nodes, and a plan has room for 1000"},
		"status":         {assess.TooLarge(in), "0/3", assess.ReasonStatusTooLarge, "3 nodes does not fit into one object"},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.out.Status
			if s.Phase != v1alpha1.Observing || s.Summary.Nodes != c.nodes || s.ObservedGeneration != in.Plan.Generation || !c.out.Next.IsZero() {
				t.Errorf("%s, %s, generation %d, next %s", s.Phase, s.Summary.Nodes, s.ObservedGeneration, c.out.Next)
			}
			if s.ConvergedSince != nil || s.RewriteSafeAfter != nil || s.ActiveKeyIDHash != "" {
				t.Errorf("it judges: %+v", s)
			}
			if len(s.KeyHistory) != len(before.KeyHistory) || s.KeyHistory[0] != before.KeyHistory[0] {
				t.Errorf("key history %v, was %v", s.KeyHistory, before.KeyHistory)
			}
			if !equality.Semantic.DeepEqual(s.Retirement, before.Retirement) {
				t.Errorf("retirement %+v, was %+v", s.Retirement, before.Retirement)
			}
			for _, kind := range []string{v1alpha1.ConditionNodesReporting, v1alpha1.ConditionConverged, v1alpha1.ConditionRewriteSafe,
				v1alpha1.ConditionPreflightPassed, v1alpha1.ConditionRetirementPlanned, v1alpha1.ConditionRetirementApproved,
				v1alpha1.ConditionRetirementApplied, v1alpha1.ConditionDegraded, v1alpha1.ConditionReady} {
				want := isUnknown
				if kind == v1alpha1.ConditionReady {
					want = isFalse
				}
				got := condition(t, &s, kind)
				if got.Status != want || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
					t.Errorf("%s is %+v", kind, got)
				}
			}
			// Judged again, it is the same.
			again := in
			again.Plan = in.Plan.DeepCopy()
			again.Plan.Status = *s.DeepCopy()
			again.Now = in.Now.Add(time.Minute)
			if name == "status" {
				if got := assess.TooLarge(again); !equality.Semantic.DeepEqual(got.Status, s) {
					t.Errorf("%+v, was %+v", got.Status, s)
				}
			} else if got := assess.Assess(crowd(again, assess.MaxNodes+1)); !equality.Semantic.DeepEqual(got.Status, s) {
				t.Errorf("%+v, was %+v", got.Status, s)
			}
			// Once it is judged again, the settle clock starts anew; the approval counts
			// for what was approved and nothing else.
			back := assess.Assess(again).Status
			if back.ConvergedSince == nil || back.ConvergedSince.Time != again.Now || back.Retirement.Digest != before.Retirement.Digest ||
				condition(t, &back, v1alpha1.ConditionRetirementApproved).Status != isTrue {
				t.Errorf("judged again: %+v", back)
			}
		})
	}
}

// unjudgedFor are the reasons for judging nothing, each as it comes about.
var unjudgedFor = map[string]func(assess.Input) assess.Output{
	assess.ReasonNodesUnreadable: func(in assess.Input) assess.Output { in.Nodes = nil; return assess.NodesUnreadable(in) },
	assess.ReasonSelectorInvalid: func(in assess.Input) assess.Output {
		in.Nodes = nil
		return assess.SelectorInvalid(in, errors.New("it is bad"))
	},
	assess.ReasonTooManyNodes:   func(in assess.Input) assess.Output { return assess.Assess(crowd(in, assess.MaxNodes+1)) },
	assess.ReasonStatusTooLarge: assess.TooLarge,
}

// TestUnjudgedForgetsNothing: a moment in which nothing is judged costs the settle
// clock, and nothing else of what was known.
func TestUnjudgedForgetsNothing(t *testing.T) {
	for reason, unjudged := range unjudgedFor {
		gap := func(w *world) {
			w.t.Helper()
			w.plan.Status = unjudged(w.input()).Status
			if again := unjudged(w.input()).Status; !equality.Semantic.DeepEqual(again, w.plan.Status) {
				w.t.Errorf("judged again:\n%+v\n%+v", again, w.plan.Status)
			}
			w.now = w.now.Add(6 * time.Second)
			w.report()
		}
		for name, check := range map[string]func(*testing.T){
			"a retirement that is half applied": func(t *testing.T) {
				w := approved(t)
				digest := w.plan.Status.Retirement.Digest
				w.machines["cp-1"].retire(3)
				w.pass(30 * time.Second)
				w.wants(v1alpha1.ConditionRetirementApplied, isFalse, assess.ReasonPartlyApplied)
				if w.node("cp-2").Retirement.Command == "" {
					t.Fatal("there is no command")
				}
				gap(w)
				for _, n := range w.plan.Status.Nodes {
					if n.Ready || n.RotationState != "unknown" || n.Pending != nil || n.Preflight != nil || n.Retirement.Command != "" || n.Retirement.Problem != "" {
						t.Errorf("of a node that nobody looks at it says %+v, %+v", n, n.Retirement)
					}
				}
				w.judge()
				w.wants(v1alpha1.ConditionRetirementApproved, isTrue, assess.ReasonApproved)
				w.wants(v1alpha1.ConditionRetirementApplied, isFalse, assess.ReasonPartlyApplied)
				w.wantState("cp-1", v1alpha1.RetirementApplied)
				w.wantPhase(v1alpha1.Applying)
				if r := w.plan.Status.Retirement; r.Digest != digest || r.ApprovedDigest != digest || len(r.ChangedNodes) != 0 {
					t.Errorf("retirement %+v, was approved as %s", r, digest)
				}
				w.wantSince(w.now)
			},
			"an approval that lapsed": func(t *testing.T) {
				w := approved(t)
				w.machines["cp-2"].save("anything")
				w.pass(30 * time.Second)
				gap(w)
				w.judge()
				w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonApprovedPlanChanged, "cp-2 differs from what was approved")
			},
			"an approval that is withdrawn meanwhile": func(t *testing.T) {
				w := approved(t)
				w.plan.Spec.Retirement.ApprovedDigest = ""
				gap(w)
				if r := w.plan.Status.Retirement; r.Digest == "" || r.ApprovedDigest != "" || r.Evidence != nil {
					t.Errorf("retirement %+v", r)
				}
			},
			"a retirement that is no longer asked for": func(t *testing.T) {
				w := approved(t)
				w.plan.Spec.Retirement = nil
				gap(w)
				if w.plan.Status.Retirement != nil || w.node("cp-1").Retirement != nil {
					t.Errorf("retirement %+v, %+v", w.plan.Status.Retirement, w.node("cp-1").Retirement)
				}
			},
			"a node that went back before": func(t *testing.T) {
				w := newWorld(t)
				w.judge()
				w.machines["cp-3"].generation, w.machines["cp-3"].history = 4, "older"
				w.pass(30 * time.Second)
				gap(w)
				w.judge()
				w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodeWentBack, "cp-3 (generation 4 with version 3, was generation 7 with version 3)")
			},
			"a node that goes back meanwhile": func(t *testing.T) {
				w := newWorld(t)
				w.judge()
				w.machines["cp-3"].generation, w.machines["cp-3"].history = 4, "older"
				gap(w)
				w.judge()
				w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodeWentBack, "cp-3 (generation 4 with version 3, was generation 7 with version 3)")
			},
			"a clock that had ended": func(t *testing.T) {
				w := newWorld(t)
				w.judge()
				w.pass(5 * time.Minute)
				w.wantPhase(v1alpha1.RewriteSafe)
				gap(w)
				w.judge()
				w.wantSince(w.now)
				w.wantPhase(v1alpha1.Settling)
			},
		} {
			t.Run(reason+"/"+name, check)
		}
	}
}
