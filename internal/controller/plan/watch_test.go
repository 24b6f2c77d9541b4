package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
	"github.com/baokms/baokms/internal/report"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func seenAt(ago time.Duration) *v1alpha1.KMSNodeReport {
	r := &v1alpha1.KMSNodeReport{Spec: v1alpha1.KMSNodeReportSpec{ProviderName: "p"}}
	r.Status.ObservedAt = &metav1.Time{Time: noon.Add(-ago)}
	r.Status.Report = &report.NodeReport{GeneratedAt: report.Time(noon.Add(-ago).Format(time.RFC3339)), ActiveKey: &report.Key{KeyIDHash: "h", TransitVersion: 3}}
	return r
}

func reachable(status metav1.ConditionStatus, reason string) []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.ConditionProviderReachable, Status: status, Reason: reason}}
}

// TestConcerns: which changes of a report are a reason to judge a plan again whose
// reports count for three minutes.
func TestConcerns(t *testing.T) {
	cases := []struct {
		name   string
		old    time.Duration
		new    time.Duration
		change func(old, changed *v1alpha1.KMSNodeReport)
		want   bool
	}{
		{name: "a heartbeat", old: 2 * time.Minute, want: false},
		{name: "a heartbeat in the last moment", old: 3*time.Minute - time.Second, want: false},
		{name: "a node that was too old comes back", old: 3 * time.Minute, want: true},
		{name: "the same again", want: false},
		{name: "time went backwards", old: time.Minute, new: 2 * time.Minute, want: true},
		{name: "a clock that is a little ahead", old: time.Minute, new: -clockSlack, want: false},
		{name: "a clock that is ahead", old: time.Minute, new: -clockSlack - time.Second, want: true},
		{name: "a clock that was ahead", old: -time.Hour, new: -time.Hour, want: true},
		{name: "the provider was not seen before", change: func(old, _ *v1alpha1.KMSNodeReport) { old.Status.ObservedAt = nil }, want: true},
		{name: "the provider was never seen", change: func(old, changed *v1alpha1.KMSNodeReport) {
			old.Status = v1alpha1.KMSNodeReportStatus{}
			changed.Status = v1alpha1.KMSNodeReportStatus{}
		}, want: false},
		{name: "the key", change: func(_, changed *v1alpha1.KMSNodeReport) { changed.Status.Report.ActiveKey.TransitVersion = 4 }, want: true},
		{name: "a report begins", change: func(old, _ *v1alpha1.KMSNodeReport) { old.Status.Report = nil }, want: true},
		{name: "an observation's moment", change: func(_, changed *v1alpha1.KMSNodeReport) {
			changed.Status.Report.Observations.DeepProbe.ProbedAt = "2026-11-30T12:00:00Z"
		}, want: false},
		{name: "a retirement plan", change: func(_, changed *v1alpha1.KMSNodeReport) {
			changed.Status.RetirementPlans = []v1alpha1.NodeRetirement{{BeforeVersion: 2}}
		}, want: true},
		{name: "the provider falls silent", change: func(_, changed *v1alpha1.KMSNodeReport) {
			changed.Status.Conditions = reachable(metav1.ConditionFalse, "SocketMissing")
		}, want: true},
		{name: "the provider answers again", old: 2 * time.Minute, change: func(old, changed *v1alpha1.KMSNodeReport) {
			old.Status.Conditions, changed.Status.Conditions = reachable(metav1.ConditionFalse, "SocketMissing"), reachable(metav1.ConditionTrue, "Answering")
		}, want: true},
		{name: "the provider is silent for another reason", change: func(old, changed *v1alpha1.KMSNodeReport) {
			old.Status.Conditions, changed.Status.Conditions = reachable(metav1.ConditionFalse, "SocketMissing"), reachable(metav1.ConditionFalse, "NotListening")
		}, want: false},
		{name: "the provider's name", change: func(_, changed *v1alpha1.KMSNodeReport) { changed.Spec.ProviderName = "q" }, want: true},
		{name: "a label", change: func(_, changed *v1alpha1.KMSNodeReport) { changed.Labels = map[string]string{"a": "b"} }, want: false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			old, changed := seenAt(c.old), seenAt(c.new)
			if c.change != nil {
				c.change(old, changed)
			}
			generated := ""
			if changed.Status.Report != nil {
				generated = string(changed.Status.Report.GeneratedAt)
			}
			if got := concerns(old, changed, 3*time.Minute, noon); got != c.want {
				t.Errorf("it says %t", got)
			}
			if r := changed.Status.Report; r != nil && string(r.GeneratedAt) != generated {
				t.Error("the comparison changed the report")
			}
		})
	}
}

// TestAppearance: what of a plan concerns the other plans of its provider.
func TestAppearance(t *testing.T) {
	base := func() *v1alpha1.KMSRotationPlan {
		p := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		p.Spec.ProviderName, p.Spec.Nodes.Names = "p", []string{"b", "a"}
		p.Spec.Retirement = &v1alpha1.Retirement{BeforeVersion: 3}
		return p
	}
	cases := []struct {
		name   string
		change func(*v1alpha1.KMSRotationPlan)
		want   appearance
	}{
		{"a retirement", func(*v1alpha1.KMSRotationPlan) {}, appearance{"p", 3, []string{"a", "b"}, false}},
		{"none", func(p *v1alpha1.KMSRotationPlan) { p.Spec.Retirement = nil }, appearance{}},
		{"on its way out", func(p *v1alpha1.KMSRotationPlan) { p.DeletionTimestamp = &metav1.Time{Time: noon} }, appearance{}},
		{"by selector, resolved", func(p *v1alpha1.KMSRotationPlan) {
			p.Spec.Nodes = v1alpha1.NodeSet{Selector: &metav1.LabelSelector{}}
			p.Status.Nodes = []v1alpha1.NodeStatus{{Name: "c"}}
		}, appearance{"p", 3, []string{"c"}, false}},
		{"over", func(p *v1alpha1.KMSRotationPlan) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRetirementApplied, Status: metav1.ConditionTrue, ObservedGeneration: 2}}
		}, appearance{"p", 3, []string{"a", "b"}, true}},
		{"done, and a node is silent", func(p *v1alpha1.KMSRotationPlan) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRetirementApplied, Status: "Unknown", Reason: assess.ReasonNodesNotReporting, ObservedGeneration: 2}}
		}, appearance{"p", 3, []string{"a", "b"}, true}},
		{"over as it was before its spec changed", func(p *v1alpha1.KMSRotationPlan) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRetirementApplied, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
		}, appearance{"p", 3, []string{"a", "b"}, false}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := base()
			c.change(p)
			got := appearanceOf(p)
			if got.Provider != c.want.Provider || got.Before != c.want.Before || got.Over != c.want.Over || len(got.Nodes) != len(c.want.Nodes) {
				t.Fatalf("%+v, want %+v", got, c.want)
			}
			for i := range got.Nodes {
				if got.Nodes[i] != c.want.Nodes[i] {
					t.Errorf("nodes %q, want %q", got.Nodes, c.want.Nodes)
				}
			}
		})
	}
}

func TestSelects(t *testing.T) {
	with := func(s *metav1.LabelSelector) *v1alpha1.KMSRotationPlan {
		p := &v1alpha1.KMSRotationPlan{}
		p.Spec.Nodes.Selector = s
		return p
	}
	role := &metav1.LabelSelector{MatchLabels: map[string]string{"role": "cp"}}
	cases := []struct {
		name string
		plan *v1alpha1.KMSRotationPlan
		node labels.Set
		want bool
	}{
		{"it matches", with(role), labels.Set{"role": "cp"}, true},
		{"it does not", with(role), labels.Set{"role": "worker"}, false},
		{"no node", with(&metav1.LabelSelector{}), nil, false},
		{"every node, one without labels", with(&metav1.LabelSelector{}), labels.Set{}, true},
		{"a plan of names", with(nil), labels.Set{"role": "cp"}, false},
		{"a selector that cannot be read", with(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}}), labels.Set{}, false},
	}
	for _, c := range cases {
		if got := selects(c.plan, c.node); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestLean(t *testing.T) {
	node := nodeMetadata()
	node.ObjectMeta = metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "1", Labels: map[string]string{"a": "b"},
		Annotations: map[string]string{"large": "yes"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}}
	if _, err := lean(node); err != nil {
		t.Fatal(err)
	}
	if node.Name != "n" || node.UID != "u" || node.ResourceVersion != "1" || node.Labels["a"] != "b" || node.Annotations != nil || node.ManagedFields != nil {
		t.Errorf("of a node's metadata %+v is kept", node.ObjectMeta)
	}
	plan := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"a": "b"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}}
	if _, err := lean(plan); err != nil {
		t.Fatal(err)
	}
	if plan.ManagedFields != nil || plan.Annotations["a"] != "b" {
		t.Errorf("of a plan's metadata %+v is kept", plan.ObjectMeta)
	}
}
