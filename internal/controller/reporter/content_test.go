package reporter

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// told is a status during a rotation, with everything that one can have.
func told(t *testing.T) v1alpha1.KMSNodeReportStatus {
	t.Helper()
	r := golden(t, "node-rotating.json")
	r.Rotation.Pending.EstimatedPromotion = "2026-11-30T06:20:00Z"
	at := metav1.NewTime(time.Unix(1000, 0))
	return v1alpha1.KMSNodeReportStatus{
		ObservedAt:      &at,
		Report:          r,
		RetirementPlans: []v1alpha1.NodeRetirement{{BeforeVersion: 2, Plan: planOf(r, 2)}, problem(3, "rotation_pending", "m", "n")},
		Conditions:      conditions(&v1alpha1.KMSNodeReport{}, nil, at.Time),
	}
}

func TestSameContent(t *testing.T) {
	cases := []struct {
		name string
		same bool
		edit func(s *v1alpha1.KMSNodeReportStatus)
	}{
		{"nothing", true, func(*v1alpha1.KMSNodeReportStatus) {}},
		{"times", true, func(s *v1alpha1.KMSNodeReportStatus) {
			moveTimes(s.Report, time.Hour)
			later := metav1.NewTime(s.ObservedAt.Add(time.Hour))
			s.ObservedAt, s.Conditions[0].LastTransitionTime = &later, later
		}},
		{"empty for absent", true, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.Readiness.Reasons = nil }},
		{"promotion, rounded", true, func(s *v1alpha1.KMSNodeReportStatus) {
			s.Report.Rotation.Pending.EstimatedPromotion = "2026-11-30T06:20:05Z"
		}},
		{"promotion, rounded down", true, func(s *v1alpha1.KMSNodeReportStatus) {
			s.Report.Rotation.Pending.EstimatedPromotion = "2026-11-30T06:19:55Z"
		}},
		{"promotion, later", false, func(s *v1alpha1.KMSNodeReportStatus) {
			s.Report.Rotation.Pending.EstimatedPromotion = "2026-11-30T06:20:06Z"
		}},
		{"promotion, sooner", false, func(s *v1alpha1.KMSNodeReportStatus) {
			s.Report.Rotation.Pending.EstimatedPromotion = "2026-11-30T06:19:54Z"
		}},
		{"promotion, none", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.Rotation.Pending.EstimatedPromotion = "" }},
		{"an observation", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.Rotation.Pending.Observations++ }},
		{"pending gone", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.Rotation.Pending = nil }},
		{"a probe that was never", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.Observations.DeepProbe.ProbedAt = "" }},
		{"metadata never seen", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.Observations.Metadata.Seen = nil }},
		{"a minimum in OpenBao", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.Observations.Metadata.Seen.MinDecryptionVersion++ }},
		{"readiness", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.Readiness.Ready = !s.Report.Readiness.Ready }},
		{"a reason", false, func(s *v1alpha1.KMSNodeReportStatus) {
			s.Report.Readiness.Reasons = append(s.Report.Readiness.Reasons, "auth_failed")
		}},
		{"the active key", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.ActiveKey.TransitVersion++ }},
		{"the generation", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.Registry.Generation++ }},
		{"a check", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.Preflight.Checks[0].Result = report.Fail }},
		{"the build", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report.Provider.Version = "v2" }},
		{"the report gone", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Report = nil }},
		{"a plan", false, func(s *v1alpha1.KMSNodeReportStatus) { s.RetirementPlans[0].Plan.NextGeneration++ }},
		{"a plan's problem", false, func(s *v1alpha1.KMSNodeReportStatus) { s.RetirementPlans[1].Problem.Message = "other" }},
		{"a plan gone", false, func(s *v1alpha1.KMSNodeReportStatus) { s.RetirementPlans = s.RetirementPlans[:1] }},
		{"unreachable", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Conditions[0].Status = metav1.ConditionFalse }},
		{"why it is", false, func(s *v1alpha1.KMSNodeReportStatus) { s.Conditions[0].Message = "other" }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, b := told(t), told(t)
			c.edit(&b)
			if got, back := sameContent(a, b), sameContent(b, a); got != c.same || back != c.same {
				t.Errorf("same %v and %v, want %v", got, back, c.same)
			}
			if fresh := told(t); a.Report.GeneratedAt != fresh.Report.GeneratedAt || !a.ObservedAt.Equal(fresh.ObservedAt) ||
				a.Report.Rotation.Pending.EstimatedPromotion != fresh.Report.Rotation.Pending.EstimatedPromotion {
				t.Error("the comparison changed what it compared")
			}
		})
	}
}
