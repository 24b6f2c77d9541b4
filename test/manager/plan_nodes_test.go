package manager

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
	"github.com/baokms/baokms/internal/controller/plan"
)

// TestNodesBySelector: Nodes are watched from the first plan with a selector on, by
// their metadata alone; nodes join and leave.
func TestNodesBySelector(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	w := &wire{}
	f.run(w.tap(env.api.RESTConfig()), nil)
	named := f.plan("named", 1, nil)
	f.phase(named, v1alpha1.Observing)
	for _, e := range w.seen() {
		if e.resource == "nodes" {
			t.Fatalf("without any selector there was %s", e)
		}
	}

	role := map[string]string{f.provider: "yes"}
	p := f.plan("selected", 0, func(s *v1alpha1.KMSRotationPlanSpec) {
		s.Nodes = v1alpha1.NodeSet{Selector: &metav1.LabelSelector{MatchLabels: role}}
	})
	members := func(want ...string) {
		t.Helper()
		f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
			names := []string{}
			for _, n := range s.Nodes {
				names = append(names, n.Name)
			}
			g.Expect(names).To(gomega.Equal(append([]string{}, want...)))
			g.Expect(s.Phase).NotTo(gomega.BeEmpty())
		})
	}
	members()
	if got := says(p.Status, v1alpha1.ConditionNodesReporting); got != "Unknown NoNodes" {
		t.Errorf("NodesReporting is %s", got)
	}
	node := func(n int, labels map[string]string) *corev1.Node {
		return create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node(n), Labels: labels}})
	}
	two := node(2, role)
	members(two.Name)
	one := node(1, nil)
	f.report(two.Name, f.healthy(3, 7))
	f.phase(p, v1alpha1.RewriteSafe)

	label := func(o *corev1.Node, labels map[string]string) {
		t.Helper()
		before := read(t, o).DeepCopy()
		o.Labels = labels
		if err := env.client.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	label(one, role)
	members(one.Name, two.Name)
	if p.Status.RewriteSafeAfter != nil {
		t.Error("with a node that joined and does not report, the clock runs")
	}
	// The report of a node that joined finds the plan.
	f.report(one.Name, f.healthy(3, 7))
	f.phase(p, v1alpha1.RewriteSafe)
	label(two, map[string]string{f.provider: "no"})
	members(one.Name)
	if err := env.client.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	members()
	for _, e := range w.seen() {
		if e.resource == "nodes" && (!e.metadataOnly || e.verb != "list" && e.verb != "watch") {
			t.Errorf("%s asks for more than metadata", e)
		}
	}
}

// TestNodesThatCannotBeListed: a manager that may not see Nodes judges the plans
// that name theirs; of the others it says why not, and takes them up once it may. So
// it does with a selector that is none.
func TestNodesThatCannotBeListed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var mu sync.Mutex
	hidden := true
	w := &wire{meddle: func(r *http.Request) *http.Response {
		mu.Lock()
		defer mu.Unlock()
		if !hidden || r.URL.Path != "/api/v1/nodes" {
			return nil
		}
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Request: r, Body: io.NopCloser(bytes.NewReader(nil))}
	}}
	log := &process{t: t}
	f.run(w.tap(env.api.RESTConfig()), func(o *plan.Options) { o.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	role := map[string]string{f.provider: "yes"}
	create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node(1), Labels: role}})
	selected := f.plan("selected", 0, func(s *v1alpha1.KMSRotationPlanSpec) {
		s.Nodes = v1alpha1.NodeSet{Selector: &metav1.LabelSelector{MatchLabels: role}}
	})
	named := f.plan("named", 1, nil)
	f.report(f.node(1), f.healthy(3, 7))
	f.phase(named, v1alpha1.RewriteSafe)
	bad := f.plan("bad", 0, func(s *v1alpha1.KMSRotationPlanSpec) {
		s.Nodes = v1alpha1.NodeSet{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"no key": "x"}}}
	})
	f.until(bad, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
		refusesToJudge(g, s, assess.ReasonSelectorInvalid, "spec.nodes.selector cannot be used")
	})
	eventually(t, func(g gomega.Gomega) {
		g.Expect(log.logs()).To(gomega.ContainSubstring("the nodes cannot be listed, and spec.nodes.selector cannot be resolved"))
	})
	f.until(selected, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
		refusesToJudge(g, s, assess.ReasonNodesUnreadable, "Let it list and watch nodes")
	})
	mu.Lock()
	hidden = false
	mu.Unlock()
	f.phase(selected, v1alpha1.RewriteSafe)
}
