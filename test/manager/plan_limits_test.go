package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
	"github.com/baokms/baokms/internal/report"
)

// refusesToJudge checks that a status says why it says nothing, in every condition.
func refusesToJudge(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus, reason, words string) {
	g.Expect(s.Conditions).To(gomega.HaveLen(9))
	for _, c := range s.Conditions {
		want := metav1.ConditionUnknown
		if c.Type == v1alpha1.ConditionReady {
			want = metav1.ConditionFalse
		}
		g.Expect([]any{c.Status, c.Reason}).To(gomega.Equal([]any{want, reason}), c.Type)
		g.Expect(c.Message).To(gomega.ContainSubstring(words))
	}
	g.Expect(s.Nodes).To(gomega.BeEmpty())
	g.Expect(s.ConvergedSince).To(gomega.BeNil())
}

// TestTooManyNodes: a selector that matches more nodes than a plan has room for is
// told so, and the plan is judged once it matches less.
func TestTooManyNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	role := map[string]string{f.provider: "yes"}
	t.Cleanup(func() {
		if err := env.client.DeleteAllOf(context.Background(), &corev1.Node{}, client.MatchingLabels(role)); err != nil {
			t.Errorf("removing the nodes: %v", err)
		}
	})
	var making errgroup.Group
	making.SetLimit(8)
	for i := range assess.MaxNodes + 1 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node(i + 1), Labels: role}}
		making.Go(func() error { return env.client.Create(t.Context(), node) })
	}
	if err := making.Wait(); err != nil {
		t.Fatal(err)
	}
	f.run(env.api.RESTConfig(), nil)
	p := f.plan("plan", 0, func(s *v1alpha1.KMSRotationPlanSpec) {
		s.Nodes = v1alpha1.NodeSet{Selector: &metav1.LabelSelector{MatchLabels: role}}
	})
	s := f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
		refusesToJudge(g, s, assess.ReasonTooManyNodes, "matches 1001 nodes, and a plan has room for 1000")
	})
	if s.Summary.Nodes != "0/1001" || s.Phase != v1alpha1.Observing {
		t.Errorf("%s in phase %s", s.Summary.Nodes, s.Phase)
	}
	if err := env.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node(1)}}); err != nil {
		t.Fatal(err)
	}
	s = f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
		g.Expect(says(s, v1alpha1.ConditionNodesReporting)).To(gomega.Equal("False ReportsMissing"))
	})
	if len(s.Nodes) != assess.MaxNodes {
		t.Errorf("%d nodes", len(s.Nodes))
	}
}

// TestStatusTooLarge: a plan about whose nodes there is more to tell than etcd takes
// says so, and the same worker goes on with the others.
func TestStatusTooLarge(t *testing.T) {
	t.Parallel()
	const nodes, size = 20, 90_000 // together more than the 1.5 MiB that etcd takes
	f := newFleet(t)
	crowded := f.plan("crowded", nodes, nil)
	sound := f.plan("sound", 0, func(s *v1alpha1.KMSRotationPlanSpec) { s.Nodes.Names = []string{f.node(nodes + 1)} })
	f.report(f.node(nodes+1), f.healthy(3, 7))
	for _, n := range f.nodes(nodes) {
		// No provider has such a code, but the API takes it.
		told := f.healthy(3, 7)
		told.Report.Readiness = report.Readiness{Reasons: []string{strings.Repeat("r", size)}}
		f.report(n, told)
	}
	w := &wire{}
	f.run(w.tap(env.api.RESTConfig()), nil)
	f.until(crowded, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
		refusesToJudge(g, s, assess.ReasonStatusTooLarge, "what there is to tell of 20 nodes does not fit into one object")
	})
	f.phase(sound, v1alpha1.RewriteSafe)
	// It is not tried over and over: what is refused costs as much as what is written.
	refused := 0
	for _, e := range w.seen() {
		if e.resource == "kmsrotationplans/status" && e.status >= 400 && e.status != 409 {
			refused++
		}
	}
	if refused < 1 || refused > 3 {
		t.Errorf("the API server refused the status %d times", refused)
	}
	for _, n := range f.nodes(nodes) {
		f.report(n, f.healthy(3, 7))
	}
	f.phase(crowded, v1alpha1.RewriteSafe)
}

// TestLargestPlan: what a manager tells of as many nodes as a plan can have, each
// with an approved retirement, fits into one object.
func TestLargestPlan(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	name := func(i int) string { return fmt.Sprintf("ip-10-0-%d-%d.eu-west-1.compute.internal", i/256, i%256) }
	var names []string
	reports := map[string]*v1alpha1.KMSNodeReport{}
	for i := range assess.MaxNodes {
		names = append(names, name(i))
		reports[name(i)] = &v1alpha1.KMSNodeReport{Spec: v1alpha1.KMSNodeReportSpec{ProviderName: f.provider}}
	}
	p := f.plan("plan", 0, func(s *v1alpha1.KMSRotationPlanSpec) {
		s.Nodes.Names, s.Retirement = names, &v1alpha1.Retirement{BeforeVersion: 9, Evidence: &v1alpha1.Evidence{Rewrite: "CHG-1", Backups: "CHG-2"}}
	})
	for i, n := range names {
		reports[n].Status = f.retiring(f.healthy(9, 10+i), 9)
	}
	now := time.Now()
	judge := func(after time.Duration) {
		out := assess.Assess(assess.Input{Plan: p, Nodes: names, Reports: reports, Now: now.Add(after)})
		if err := apply(t, "bao-kms-manager", p.Name, out.Status); err != nil {
			t.Fatal(err)
		}
		read(t, p)
	}
	judge(0)
	f.edit(p, func(s *v1alpha1.KMSRotationPlanSpec) { s.Retirement.ApprovedDigest = p.Status.Retirement.Digest })
	judge(3 * time.Second) // it has settled, so there are commands
	if p.Status.Phase != v1alpha1.Approved || !strings.HasPrefix(p.Status.Nodes[999].Retirement.Command, "bao-kms-provider retire-versions") {
		t.Errorf("it is %s: %+v", p.Status.Phase, p.Status.Nodes[999].Retirement)
	}
	document, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	owners, err := json.Marshal(p.ManagedFields)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a plan of %d nodes has %d bytes, %d of them about who owns its fields", len(names), len(document), len(owners))
	// etcd takes 1.5 MiB.
	if limit := 1_300_000; len(document) > limit {
		t.Errorf("it has %d bytes, more than %d", len(document), limit)
	}
}
