package assess_test

import (
	"testing"
	"time"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
	"github.com/baokms/baokms/internal/report"
)

// TestConvergedIsWhatTheClockRunsBy: a ready node that does not say that nothing is
// pending keeps the clock from running, and the condition says so.
func TestConvergedIsWhatTheClockRunsBy(t *testing.T) {
	for _, state := range []report.RotationState{report.RotationUnknown, report.RotationPending, "later"} {
		w := newWorld(t)
		w.judge()
		w.pass(time.Minute)
		in := w.input()
		in.Reports["cp-2"].Status.Report.Rotation.State = state
		w.take(in)
		w.wants(v1alpha1.ConditionConverged, isFalse, assess.ReasonNodesNotReady, "cp-2 (rotation state "+string(state)+") is not ready.")
		w.wants(v1alpha1.ConditionRewriteSafe, isFalse, assess.ReasonNotConverged, "cp-2")
		w.wantPhase(v1alpha1.Observing)
		if s := &w.plan.Status; s.ConvergedSince != nil || s.Summary.Nodes != "2/3" {
			t.Errorf("converged since %v, %s", s.ConvergedSince, s.Summary.Nodes)
		}
	}
}
