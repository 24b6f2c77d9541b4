package reporter

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

func TestStatusOf(t *testing.T) {
	then, now := time.Unix(1_000_000, 0).UTC(), time.Unix(1_000_060, 0).UTC()
	const name = "openbao-kms-workload-a" // of the golden report
	old := func(spec string, none *silence) *v1alpha1.KMSNodeReport {
		at := metav1.NewTime(then)
		o := &v1alpha1.KMSNodeReport{Spec: v1alpha1.KMSNodeReportSpec{ProviderName: spec}}
		o.Generation = 4
		o.Status = v1alpha1.KMSNodeReportStatus{
			ObservedAt: &at, Report: golden(t, "node-rotating.json"),
			RetirementPlans: []v1alpha1.NodeRetirement{problem(2, "rotation_pending", "m", "n"), problem(5, "old", "m", "n")},
			Conditions:      conditions(o, none, then),
		}
		return o
	}
	silent := &silence{reasonNoSocket, "there is no socket"}
	answered := observation{at: now, report: healthy(t), plans: []v1alpha1.NodeRetirement{{BeforeVersion: 3, Plan: planOf(healthy(t), 3)}}}
	type want struct {
		status, reason, words string
		changed               time.Time
		fresh                 bool // the new report; else the old one
		plans                 []string
	}
	cases := []struct {
		name string
		old  *v1alpha1.KMSNodeReport
		seen observation
		want want
	}{
		{"answers", old(name, nil), answered, want{"True", "Answering", "answers", then, true, []string{"plan 3"}}},
		{"answers again", old(name, silent), answered, want{"True", "Answering", "answers", now, true, []string{"plan 3"}}},
		{"falls silent", old(name, nil), observation{at: now, silence: silent},
			want{"False", "SocketMissing", "there is no socket", now, false, []string{"rotation_pending 2", "provider_unreachable 3"}}},
		{"stays silent", old(name, silent), observation{at: now, silence: silent},
			want{"False", "SocketMissing", "there is no socket", then, false, []string{"rotation_pending 2", "provider_unreachable 3"}}},
		{"silent for another reason", old(name, silent), observation{at: now, silence: &silence{reasonTimeout, "slow"}},
			want{"False", "Timeout", "slow", then, false, []string{"rotation_pending 2", "provider_unreachable 3"}}},
		{"another provider", old("someone-else", nil), answered,
			want{"False", "OtherProvider", `is "openbao-kms-workload-a" now, and this is the report of "someone-else"; when that is meant, delete`, now, false, []string{"rotation_pending 2", "provider_unreachable 3"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := statusOf(c.old, c.seen, []int32{2, 3})
			if len(got.Conditions) != 1 {
				t.Fatalf("conditions %+v", got.Conditions)
			}
			cond := got.Conditions[0]
			if cond.Type != "ProviderReachable" || string(cond.Status) != c.want.status || cond.Reason != c.want.reason ||
				!strings.Contains(cond.Message, c.want.words) || !cond.LastTransitionTime.Equal(&metav1.Time{Time: c.want.changed}) || cond.ObservedGeneration != 4 {
				t.Errorf("condition %+v, want %+v", cond, c.want)
			}
			wantAt, wantReport := then, c.old.Status.Report
			if c.want.fresh {
				wantAt, wantReport = now, c.seen.report
			}
			if !got.ObservedAt.Time.Equal(wantAt) || !reflect.DeepEqual(got.Report, wantReport) {
				t.Errorf("observed at %s, want %s; report of generation %d", got.ObservedAt, wantAt, got.Report.Registry.Generation)
			}
			var plans []string
			for _, p := range got.RetirementPlans {
				what := "plan"
				if p.Problem != nil {
					what = p.Problem.Reason
				}
				plans = append(plans, what+" "+string('0'+rune(p.BeforeVersion)))
			}
			if !reflect.DeepEqual(plans, c.want.plans) {
				t.Errorf("plans %v, want %v", plans, c.want.plans)
			}
		})
	}
}

// TestFirstStatusWithoutProvider: a report that was made and never filled says
// nothing but that nobody answers.
func TestFirstStatusWithoutProvider(t *testing.T) {
	old := &v1alpha1.KMSNodeReport{Spec: v1alpha1.KMSNodeReportSpec{ProviderName: "p"}}
	got := statusOf(old, observation{at: time.Unix(5, 0), silence: &silence{reasonNoSocket, "gone"}}, nil)
	if got.ObservedAt != nil || got.Report != nil || got.RetirementPlans != nil || len(got.Conditions) != 1 || got.Conditions[0].Status != metav1.ConditionFalse {
		t.Errorf("status %+v", got)
	}
}
