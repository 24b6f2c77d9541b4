package assess_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
)

// TestNodeGoesBackWithItsClock: a machine that is reverted to a snapshot has the
// clock of then, until somebody corrects it.
func TestNodeGoesBackWithItsClock(t *testing.T) {
	for _, c := range []struct {
		name   string
		maxAge time.Duration
		behind time.Duration
	}{
		{"its report is too old at once", 3 * time.Minute, time.Hour},
		{"its report counts", 3 * time.Minute, 2 * time.Minute},
		{"its report counts for a day", 24 * time.Hour, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.plan.Spec.ReportMaxAge.Duration = c.maxAge
			w.judge()
			w.pass(20 * time.Minute)
			m := w.machines["cp-1"]
			w.node("cp-1").LastSeen = &metav1.Time{Time: w.now}
			m.generation, m.history = 5, "older"
			for range 4 {
				w.now = w.now.Add(5 * time.Second)
				m.seen = w.now.Add(-c.behind)
				w.judge()
				if n := w.node("cp-1"); n.Generation != 7 || n.StateHash != stateHash("cp-1") || !n.LastSeen.After(m.seen) || n.WentBackFrom != nil {
					t.Fatalf("an older report replaced what was told: %+v", n)
				}
			}
			w.pass(30 * time.Second) // with the right clock
			w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodeWentBack, "cp-1 (generation 5 with version 3, was generation 7 with version 3)")
			if n := w.node("cp-1"); !n.LastSeen.Time.Equal(w.now) {
				t.Errorf("last seen at %s, want %s", n.LastSeen, w.now)
			}
		})
	}
}

// TestNodeGoesBackAfterAWrongClock: a clock that was far ahead is nothing that later
// reports are older than.
func TestNodeGoesBackAfterAWrongClock(t *testing.T) {
	w := newWorld(t)
	w.judge()
	m := w.machines["cp-1"]
	m.seen = w.now.Add(24 * time.Hour)
	m.save("more")
	w.judge()
	if n := w.node("cp-1"); !n.LastSeen.Time.Equal(start) || n.Generation != 8 || n.Reasons[0] != assess.NodeReportFromFuture {
		t.Errorf("node %+v, last seen at %s", n, n.LastSeen)
	}
	m.generation, m.history = 5, "older"
	w.pass(30 * time.Second)
	w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodeWentBack, "cp-1 (generation 5 with version 3, was generation 8 with version 3)")
}

// TestProviderUnreachable: a provider that does not answer its reporter is not told
// as well, however long its last report counts; what it reported stays.
func TestProviderUnreachable(t *testing.T) {
	w := newWorld(t).asksRetirement(3)
	w.plan.Spec.ReportMaxAge.Duration = 24 * time.Hour
	w.judge()
	w.pass(5 * time.Minute)
	w.wants(v1alpha1.ConditionRewriteSafe, isTrue, assess.ReasonSettled)
	reachable := func(status metav1.ConditionStatus) {
		t.Helper()
		in := w.input()
		in.Reports["cp-2"].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProviderReachable, Status: status, Reason: "SocketMissing"}}
		w.take(in)
	}
	reachable(isTrue)
	w.wantSince(start)
	digest := w.plan.Status.Retirement.Digest
	for range 2 {
		reachable(isFalse)
		w.wants(v1alpha1.ConditionNodesReporting, isTrue, assess.ReasonAllReporting)
		w.wants(v1alpha1.ConditionConverged, isFalse, assess.ReasonNodesNotReady, "cp-2 (provider_unreachable) is not ready", "doctor")
		w.wants(v1alpha1.ConditionRewriteSafe, isFalse, assess.ReasonNotConverged)
		if n := w.node("cp-2"); n.Ready || len(n.Reasons) != 1 || n.Reasons[0] != assess.NodeProviderUnreachable || n.Generation != 7 {
			t.Errorf("node %+v", n)
		}
		if s := &w.plan.Status; s.Summary.Nodes != "2/3" || s.ConvergedSince != nil || s.Retirement.Digest != digest {
			t.Errorf("%s, converged since %v, digest %s, was %s", s.Summary.Nodes, s.ConvergedSince, s.Retirement.Digest, digest)
		}
		w.now = w.now.Add(6 * time.Minute)
	}
	reachable(isTrue)
	w.wantSince(w.now)
}
