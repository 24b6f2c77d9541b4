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
		if s.Summary != nil || s.Nodes != nil || s.Retirement != nil || s.ConvergedSince != nil {
			t.Errorf("%s: it tells of %+v", reason, s)
		}
	}
}

// TestUnjudged: a plan that is too large says so in every condition, tells of no
// node, and keeps of the past what a return to an earlier key and a lapsed approval
// are noticed by.
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
			if s.Nodes != nil || s.ConvergedSince != nil || s.RewriteSafeAfter != nil || s.ActiveKeyIDHash != "" {
				t.Errorf("it judges: %+v", s)
			}
			if len(s.KeyHistory) != len(before.KeyHistory) || s.KeyHistory[0] != before.KeyHistory[0] {
				t.Errorf("key history %v, was %v", s.KeyHistory, before.KeyHistory)
			}
			if r := s.Retirement; r == nil || r.ApprovedDigest != before.Retirement.ApprovedDigest || r.Digest != "" || r.NodesPlanned != 0 || *r.Evidence != *before.Retirement.Evidence {
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
