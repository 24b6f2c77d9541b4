package assess_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
)

// large is a plan of many nodes, among many plans that are all at odds with it.
func large(t tester, nodes, plans int) *world {
	w := newWorld(t).asksRetirement(3)
	w.machines = map[string]*machine{}
	var names []string
	for i := range nodes {
		names = append(names, w.join(fmt.Sprintf("node-%04d-%0200d", i, 0)).name)
	}
	for i := range plans {
		p := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("plan-%03d", i)}}
		p.Spec.ProviderName, p.Spec.Nodes.Names, p.Spec.Retirement = provider, names, &v1alpha1.Retirement{BeforeVersion: 2}
		w.others = append(w.others, p)
	}
	return w
}

// TestMessagesAreBounded: however much there is to tell, the API takes it.
func TestMessagesAreBounded(t *testing.T) {
	w := large(t, 1000, 100)
	for name, m := range w.machines {
		m.key, m.reasons, m.pending = name, []string{"status_stale"}, 4
	}
	w.judge()
	w.wants(v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodesDiverged, "There are 992 more of these.", "There are 92 more of these.")
	for _, c := range w.plan.Status.Conditions {
		if len(c.Message) > 32768 {
			t.Errorf("%s has a message of %d bytes", c.Type, len(c.Message))
		}
	}
	for _, m := range w.machines {
		m.seen = start.Add(-time.Hour)
	}
	w.judge()
	w.wants(v1alpha1.ConditionNodesReporting, isFalse, assess.ReasonReportsTooOld, "and 992 more have not reported")
}

func BenchmarkAssess(b *testing.B) {
	for _, nodes := range []int{3, 100, 1000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			w := large(b, nodes, 100)
			w.judge()
			in := w.input()
			b.ReportAllocs()
			for b.Loop() {
				assess.Assess(in)
			}
		})
	}
}
