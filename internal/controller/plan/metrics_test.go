package plan

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/baokms/baokms/api/v1alpha1"
)

func fakeClient(t *testing.T, broken error, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if broken != nil {
				return broken
			}
			return c.List(ctx, list, o...)
		},
	}).Build()
}

func judged(name string, phase v1alpha1.Phase, nodes int, summary string) *v1alpha1.KMSRotationPlan {
	p := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Status.Phase, p.Status.Nodes = phase, make([]v1alpha1.NodeStatus, nodes)
	if summary != "" {
		p.Status.Summary = &v1alpha1.PlanSummary{Nodes: summary}
	}
	return p
}

func TestMetrics(t *testing.T) {
	seen := func(name string, at *metav1.Time) *v1alpha1.KMSNodeReport {
		return &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.KMSNodeReportStatus{ObservedAt: at}}
	}
	c := fakeClient(t, nil,
		judged("a", v1alpha1.Settling, 3, "2/3"), judged("b", v1alpha1.Degraded, 0, ""), judged("c", "", 0, ""), judged("d", "Other", 9, "9/9"),
		seen("cp-1", &metav1.Time{Time: noon.Add(-90 * time.Second)}), seen("cp-2", &metav1.Time{Time: noon.Add(time.Minute)}), seen("cp-3", nil))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{client: c, now: func() time.Time { return noon }})
	want := `
# HELP baokms_manager_plan_nodes Nodes of a plan.
# TYPE baokms_manager_plan_nodes gauge
baokms_manager_plan_nodes{plan="a"} 3
baokms_manager_plan_nodes{plan="b"} 0
# HELP baokms_manager_plan_nodes_converged Nodes of a plan that are on its key, ready, with nothing pending.
# TYPE baokms_manager_plan_nodes_converged gauge
baokms_manager_plan_nodes_converged{plan="a"} 2
baokms_manager_plan_nodes_converged{plan="b"} 0
# HELP baokms_manager_plans KMSRotationPlans by phase; phase is none for a plan that was not judged yet.
# TYPE baokms_manager_plans gauge
baokms_manager_plans{phase="Applying"} 0
baokms_manager_plans{phase="Approved"} 0
baokms_manager_plans{phase="AwaitingReview"} 0
baokms_manager_plans{phase="Converged"} 0
baokms_manager_plans{phase="Degraded"} 1
baokms_manager_plans{phase="Observing"} 0
baokms_manager_plans{phase="Retired"} 0
baokms_manager_plans{phase="RewriteSafe"} 0
baokms_manager_plans{phase="Rotating"} 0
baokms_manager_plans{phase="Settling"} 1
baokms_manager_plans{phase="none"} 2
# HELP baokms_manager_report_age_seconds Time since the node's provider last answered its reporter; at least 0.
# TYPE baokms_manager_report_age_seconds gauge
baokms_manager_report_age_seconds{node="cp-1"} 90
baokms_manager_report_age_seconds{node="cp-2"} 0
`
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	if got := page.Body.String(); got != want[1:] {
		t.Errorf("the metrics are\n%s\nwant\n%s", got, want)
	}
	// A series ends with its object.
	for _, o := range []client.Object{judged("a", "", 0, ""), seen("cp-1", nil)} {
		if err := c.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.Metric {
			for _, l := range m.Label {
				if v := l.GetValue(); v == "a" || v == "cp-1" {
					t.Errorf("%s still has %s=%q", family.GetName(), l.GetName(), v)
				}
			}
		}
	}
}

func TestMetricsTellOfABrokenCache(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{client: fakeClient(t, errors.New("it stops")), now: time.Now})
	if _, err := registry.Gather(); err == nil || !strings.Contains(err.Error(), "reading plans from the cache: it stops") {
		t.Errorf("gathering ends with %v", err)
	}
}

func TestConvergedNodes(t *testing.T) {
	for summary, want := range map[string]int{"2/3": 2, "0/0": 0, "1000/1000": 1000, "": 0, "many": 0} {
		s := judged("p", "", 0, summary).Status
		if got := convergedNodes(&s); got != want {
			t.Errorf("%q counts %d, want %d", summary, got, want)
		}
	}
}
