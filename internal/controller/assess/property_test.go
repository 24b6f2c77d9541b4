package assess_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
	"github.com/baokms/baokms/internal/report"
)

// upset lets something happen to one machine or to the set.
func (w *world) upset(t *rapid.T) {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(w.machines))).Draw(t, "node")
	m := w.machines[name]
	switch rapid.IntRange(0, 10).Draw(t, "event") {
	case 0:
		if m.pending == 0 {
			m.observe(m.active + 1)
		}
	case 1:
		if m.pending != 0 {
			m.promote()
		}
	case 2:
		m.retire(3)
	case 3:
		m.reasons = []string{"status_stale"}
	case 4:
		m.reasons = nil
	case 5:
		m.checks = map[string]report.Result{report.CheckTransitKey: rapid.SampledFrom([]report.Result{report.Warn, report.Unknown, report.Fail}).Draw(t, "check")}
	case 6:
		m.unasked = !m.unasked
	case 7:
		m.seen = w.now.Add(-w.plan.Spec.ReportMaxAge.Duration)
	case 8:
		w.join(rapid.SampledFrom([]string{"cp-3", "cp-4", "cp-5"}).Draw(t, "joins"))
	case 9:
		if len(w.machines) > 1 {
			delete(w.machines, name)
		}
	case 10:
		if m.pending == 0 {
			m.restore()
		}
	}
}

// TestDeterministic: the order of inputs does not matter, the same input gives the
// same output, nothing of it is changed, and what was judged stays judged.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t).asksRetirement(3)
		for _, name := range []string{"x", "y", "z"} {
			p := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: name}}
			p.Spec.ProviderName, p.Spec.Nodes.Names = provider, []string{rapid.SampledFrom([]string{"cp-1", "cp-2", "cp-9"}).Draw(t, "shared")}
			p.Spec.Retirement = &v1alpha1.Retirement{BeforeVersion: rapid.Int32Range(2, 4).Draw(t, "before")}
			w.others = append(w.others, p)
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 200_000).Draw(t, "ms")) * time.Millisecond)
			if rapid.Bool().Draw(t, "report") {
				w.report()
			}
			w.upset(t)
			if r := w.plan.Status.Retirement; r != nil && r.Digest != "" && rapid.Bool().Draw(t, "approve") {
				w.approve()
			}
			in := w.input()
			before := in.Plan.DeepCopy()
			first := assess.Assess(in)
			in.Nodes, in.Others = rapid.Permutation(in.Nodes).Draw(t, "nodes"), rapid.Permutation(in.Others).Draw(t, "others")
			second := assess.Assess(in)
			if !first.Next.Equal(second.Next) || !equality.Semantic.DeepEqual(first.Status, second.Status) {
				t.Fatalf("two judgements of one input differ:\n%+v\n%+v", first, second)
			}
			if !equality.Semantic.DeepEqual(in.Plan, before) {
				t.Fatal("the input was changed")
			}
			was := w.take(in).DeepCopy()
			if again := w.judge(); !equality.Semantic.DeepEqual(again, was) {
				t.Fatalf("judged again:\n%+v\n%+v", again, was)
			}
			if !w.out.Next.IsZero() && !w.out.Next.After(w.now) {
				t.Fatalf("next %s is not after %s", w.out.Next, w.now)
			}
			for i, n := range w.plan.Status.Nodes {
				if i > 0 && w.plan.Status.Nodes[i-1].Name >= n.Name {
					t.Fatal("nodes are not sorted")
				}
				if r := n.Retirement; r.Command != "" && (r.State != v1alpha1.RetirementPlanned || condition(t, &w.plan.Status, v1alpha1.ConditionRetirementApproved).Status != isTrue) {
					t.Fatalf("a command for %+v", r)
				}
			}
		}
	})
}

// TestNothingChangesBeforeNext: until then, time alone changes nothing.
func TestNothingChangesBeforeNext(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t).asksRetirement(3)
		w.plan.Spec.ReportMaxAge.Duration = time.Duration(rapid.IntRange(1, 300).Draw(t, "max age")) * time.Second
		w.plan.Spec.SettleTime.Duration = time.Duration(rapid.IntRange(0, 600).Draw(t, "settle")) * time.Second
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			w.upset(t)
			was := w.judge().DeepCopy()
			next := w.out.Next
			if next.IsZero() {
				next = w.now.Add(24 * time.Hour)
			}
			w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(w.now))-1).Draw(t, "early")))
			if early := w.judge(); !equality.Semantic.DeepEqual(early, was) {
				t.Fatalf("changed at %s, before %s:\n%+v\n%+v", w.now, next, early, was)
			}
			if rapid.Bool().Draw(t, "report") {
				w.report()
			}
		}
	})
}

// TestApplyingKeepsTheApproval: in whatever order the nodes apply, and whatever
// happens to them besides that is no change of a plan.
func TestApplyingKeepsTheApproval(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := approved(t)
		digest := w.plan.Status.Retirement.Digest
		names := rapid.Permutation([]string{"cp-1", "cp-2", "cp-3"}).Draw(t, "order")
		for i, name := range names {
			m := w.machines[name]
			m.retire(3)
			if rapid.Bool().Draw(t, "goes on") {
				m.observe(4)
				m.promote()
			}
			m.unasked = rapid.Bool().Draw(t, "unasked")
			w.pass(time.Duration(rapid.IntRange(30, 240).Draw(t, "seconds"))*time.Second, rapid.SampledFrom(append([]string{""}, names...)).Draw(t, "silent"))
			w.report()
			w.judge()
			w.wants(v1alpha1.ConditionRetirementApproved, isTrue, assess.ReasonApproved)
			r := w.plan.Status.Retirement
			if r.Digest != digest || int(r.NodesApplied) != i+1 || len(r.ChangedNodes) != 0 {
				t.Fatalf("after %s: %+v", name, r)
			}
		}
		w.wantPhase(v1alpha1.Retired)
	})
}

// TestAnyOtherChangeLapses: a node that has not applied, and whose plan changes.
func TestAnyOtherChangeLapses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := approved(t)
		names := rapid.Permutation([]string{"cp-1", "cp-2", "cp-3"}).Draw(t, "order")
		applied := rapid.IntRange(0, 2).Draw(t, "applied")
		for _, name := range names[:applied] {
			w.machines[name].retire(3)
		}
		w.pass(30 * time.Second)
		odd := names[applied]
		m := w.machines[odd]
		switch rapid.IntRange(0, 4).Draw(t, "change") {
		case 0:
			m.observe(4)
		case 1:
			m.save("anything")
		case 2:
			m.retire(2)
		case 3:
			m.history, m.generation = "older", 3
		case 4:
			m.key, m.history = "other", "other"
		}
		m.unasked = rapid.Bool().Draw(t, "unasked")
		for range 2 {
			w.pass(30 * time.Second)
			w.wants(v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonPlanChanged, odd+" differs from what was approved")
			w.wantState(odd, v1alpha1.RetirementChanged)
			w.wantPhase(v1alpha1.Degraded)
			for _, n := range w.plan.Status.Nodes {
				if n.Retirement.Command != "" {
					t.Fatalf("a command on %s", n.Name)
				}
			}
		}
		for _, name := range names[:applied] {
			w.wantState(name, v1alpha1.RetirementApplied)
		}
	})
}

// TestSettleIsNeverShortened: data may be rewritten only when every judgement for
// the whole settle time before found the nodes converged, with breaks, restarts
// and clocks that are set as they come. The test keeps the true time.
func TestSettleIsNeverShortened(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		settle := w.plan.Spec.SettleTime.Duration
		elapsed := time.Duration(0)    // true time, from start
		broken, safe := elapsed, false // when it was last broken, or first seen
		healthy := func() { w.machines["cp-2"].reasons = nil }
		w.judge()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			step := time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second
			breaks := false
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0: // not ready, seen
				w.machines["cp-2"].reasons, breaks = []string{"status_stale"}, true
			case 1: // the manager is away for long, and nobody knows what happened
				step = w.plan.Spec.ReportMaxAge.Duration + step
				breaks = !safe
			case 2: // its clock is set back
				w.now = w.now.Add(-time.Duration(rapid.IntRange(1, 7200).Draw(t, "back")) * time.Second)
			case 3: // its clock is set forward by more than it may be away
				w.now = w.now.Add(w.plan.Spec.ReportMaxAge.Duration + step)
			default:
				healthy()
			}
			elapsed += step
			w.now = w.now.Add(step)
			w.report()
			w.judge()
			if breaks {
				broken = elapsed
			}
			safe = condition(t, &w.plan.Status, v1alpha1.ConditionRewriteSafe).Status == isTrue
			if safe && elapsed-broken < settle {
				t.Fatalf("safe at %s, broken at %s: %s too early", elapsed, broken, settle-(elapsed-broken))
			}
			if (w.plan.Status.ConvergedSince != nil) != (len(w.machines["cp-2"].reasons) == 0) {
				t.Fatalf("converged since %v", w.plan.Status.ConvergedSince)
			}
		}
	})
}
