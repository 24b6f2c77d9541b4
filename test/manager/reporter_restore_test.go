package manager

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// TestReporterTakesItsStatusBack: nothing that another writer put into the status,
// such as a restore of an older one, stays beside what the provider says, and none of
// it stands against a write.
func TestReporterTakesItsStatusBack(t *testing.T) {
	t.Parallel()
	applyReporterRights(t)
	provider, node := name(t, "provider"), name(t, "cp-1")
	unanswered := func(before int32) v1alpha1.NodeRetirement {
		return v1alpha1.NodeRetirement{BeforeVersion: before, Problem: decoded[report.Problem](t, "problem.json")}
	}
	restore := func() {
		t.Helper()
		old := v1alpha1.KMSNodeReportStatus{
			ObservedAt: &metav1.Time{Time: time.Now().Add(-time.Hour)}, Report: decoded[report.NodeReport](t, "node-rotating.json"),
			RetirementPlans: []v1alpha1.NodeRetirement{unanswered(2), unanswered(3)},
			Conditions:      []metav1.Condition{condition(v1alpha1.ConditionProviderReachable, metav1.ConditionFalse)},
		}
		old.Report.Provider.Name = provider
		if old.Report.Rotation.Pending == nil {
			t.Fatalf("the restored report has nothing pending: %+v", old.Report.Rotation)
		}
		// The reporter may write between the read and the update.
		eventually(t, func(g gomega.Gomega) {
			o := emptyReport(node, "")
			g.Expect(env.client.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(gomega.Succeed())
			o.Status = old
			g.Expect(env.client.Status().Update(t.Context(), o, client.FieldOwner("restore"))).To(gomega.Succeed())
		})
	}
	own := func(want ...int32) {
		t.Helper()
		reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
			reachable(g, o, metav1.ConditionTrue, "Answering")
			g.Expect(time.Since(o.Status.ObservedAt.Time)).To(gomega.BeNumerically("<", patience))
			g.Expect(o.Status.Report.Rotation).To(gomega.Equal(report.Rotation{State: report.RotationActive}))
			var got []int32
			for _, p := range o.Status.RetirementPlans {
				got = append(got, p.BeforeVersion)
				g.Expect(p.Problem).To(gomega.BeNil())
				g.Expect(p.Plan.StateHash).To(gomega.Equal(o.Status.Report.Registry.StateHash))
			}
			g.Expect(got).To(gomega.Equal(want))
		})
	}
	create(t, emptyReport(node, provider))
	restore()
	plan := create(t, &v1alpha1.KMSRotationPlan{
		ObjectMeta: metav1.ObjectMeta{Name: name(t, "plan")},
		Spec: v1alpha1.KMSRotationPlanSpec{ProviderName: provider, Nodes: v1alpha1.NodeSet{Names: []string{node}},
			Retirement: &v1alpha1.Retirement{BeforeVersion: 3}},
	})
	r := runReporter(t, node, newReportSocket(t, provider), reporterOn(t, node))
	own(3)
	// While it runs, too.
	restore()
	own(3)
	if err := env.client.Delete(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	own()
	restore()
	own()
	for _, line := range r.log.warnings() {
		t.Errorf("it warns: %s", line)
	}
}
