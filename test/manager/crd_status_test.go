package manager

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
)

// table is what `kubectl get` prints of one object: columns by their names; wide
// adds those of -o wide.
func table(t *testing.T, resource, name string, wide bool) (columns []string, row map[string]any) {
	t.Helper()
	raw, err := env.api.Client().Discovery().RESTClient().Get().
		AbsPath("/apis/kms.baokms.io/v1alpha1", resource, name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got metav1.Table
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 1 {
		t.Fatalf("%d rows", len(got.Rows))
	}
	row = map[string]any{}
	for i, c := range got.ColumnDefinitions {
		if c.Priority > 0 && !wide {
			continue
		}
		columns = append(columns, c.Name)
		row[c.Name] = got.Rows[0].Cells[i]
	}
	return columns, row
}

func condition(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "Test", Message: "m", LastTransitionTime: metav1.NewTime(time.Unix(1e9, 0))}
}

func TestPlanColumns(t *testing.T) {
	plan := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: name(t, "plan")}}
	plan.Spec.ProviderName, plan.Spec.Nodes.Names = "openbao-kms-workload-a", []string{"cp-1"}
	create(t, plan)

	columns, row := table(t, "kmsrotationplans", plan.Name, false)
	if want := []string{"Name", "Phase", "Version", "Nodes", "Converged", "Rewrite-Safe", "Retirement", "Age"}; !slices.Equal(columns, want) {
		t.Errorf("columns %v, want %v", columns, want)
	}
	for _, c := range columns[1:7] {
		if row[c] != nil && row[c] != "" {
			t.Errorf("before any status, %s shows %v", c, row[c])
		}
	}

	plan.Status.Phase = v1alpha1.Applying
	plan.Status.ActiveTransitVersion = 3
	plan.Status.Summary = &v1alpha1.PlanSummary{Nodes: "3/3", Retirement: "1/3 applied"}
	plan.Status.Conditions = []metav1.Condition{
		condition(v1alpha1.ConditionConverged, metav1.ConditionTrue), condition(v1alpha1.ConditionRewriteSafe, metav1.ConditionFalse),
	}
	if err := env.client.Status().Update(t.Context(), plan, strict); err != nil {
		t.Fatal(err)
	}
	_, row = table(t, "kmsrotationplans", plan.Name, true)
	delete(row, "Age")
	want := map[string]any{"Name": plan.Name, "Provider": "openbao-kms-workload-a", "Phase": "Applying", "Version": 3.0, "Nodes": "3/3",
		"Converged": "True", "Rewrite-Safe": "False", "Retirement": "1/3 applied"}
	if fmt.Sprint(row) != fmt.Sprint(want) {
		t.Errorf("row\n%v, want\n%v", row, want)
	}
}

func TestNodeReportColumns(t *testing.T) {
	o := create(t, object("KMSNodeReport", name(t, "cp-1"), fields{"spec": fields{"providerName": "openbao-kms-workload-a"}}))
	columns, _ := table(t, "kmsnodereports", o.GetName(), false)
	if want := []string{"Name", "Reachable", "Ready", "Version", "Rotation", "Preflight", "Seen", "Age"}; !slices.Equal(columns, want) {
		t.Errorf("columns %v, want %v", columns, want)
	}
	reachable, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.KMSNodeReportStatus{
		ObservedAt: &metav1.Time{Time: time.Now().Add(-2*time.Hour - time.Minute)},
		Conditions: []metav1.Condition{condition(v1alpha1.ConditionProviderReachable, metav1.ConditionFalse)},
	})
	if err != nil {
		t.Fatal(err)
	}
	reachable["report"] = golden("node-rotating.json")
	o.Object["status"] = runtimeJSON(reachable)
	if err := env.client.Status().Update(t.Context(), o, strict); err != nil {
		t.Fatal(err)
	}
	_, row := table(t, "kmsnodereports", o.GetName(), true)
	delete(row, "Age")
	want := map[string]any{"Name": o.GetName(), "Provider": "openbao-kms-workload-a", "Reachable": "False", "Ready": true, "Version": 2.0,
		"Rotation": "pending", "Preflight": "warn", "Seen": "121m"}
	if fmt.Sprint(row) != fmt.Sprint(want) {
		t.Errorf("row\n%v, want\n%v", row, want)
	}
}

// apply writes a plan's status as its owner, by server-side apply without force.
func apply(t *testing.T, owner, plan string, s v1alpha1.KMSRotationPlanStatus) error {
	t.Helper()
	typed := &v1alpha1.KMSRotationPlan{Status: s}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	if content["spec"] != nil || content["metadata"] != nil {
		t.Errorf("status alone is written as %v", content)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("KMSRotationPlan"))
	u.SetName(plan)
	return env.client.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(owner))
}

// TestStatusHasOneOwner: status is applied by one owner, which owns nothing
// else; what it leaves out is gone, and another owner is refused.
func TestStatusHasOneOwner(t *testing.T) {
	plan := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: name(t, "plan")}}
	plan.Spec.ProviderName, plan.Spec.Nodes.Names = "p", []string{"cp-1", "cp-2"}
	create(t, plan)

	first := v1alpha1.KMSRotationPlanStatus{
		ObservedGeneration: 1, Phase: v1alpha1.Observing,
		Nodes: []v1alpha1.NodeStatus{
			{Name: "cp-1", Ready: true, KeyIDHash: "h1", TransitVersion: 1, Reasons: []string{"a", "b"}},
			{Name: "cp-2", Reasons: []string{"starting"}},
		},
		Conditions: []metav1.Condition{condition(v1alpha1.ConditionConverged, metav1.ConditionFalse), condition(v1alpha1.ConditionReady, metav1.ConditionFalse)},
	}
	if err := apply(t, "bao-kms-manager", plan.Name, first); err != nil {
		t.Fatal(err)
	}
	read(t, plan)
	if plan.Generation != 1 || plan.Spec.ProviderName != "p" || len(plan.Spec.Nodes.Names) != 2 || plan.Spec.SettleTime.Duration != 5*time.Minute {
		t.Errorf("applying status changed the spec: generation %d, %+v", plan.Generation, plan.Spec)
	}
	owned := 0
	for _, m := range plan.ManagedFields {
		if m.Manager != "bao-kms-manager" {
			continue
		}
		owned++
		if m.Operation != metav1.ManagedFieldsOperationApply || m.Subresource != "status" || !strings.HasPrefix(m.FieldsV1.GetRawString(), `{"f:status":{`) ||
			strings.Contains(m.FieldsV1.GetRawString(), "f:spec") || strings.Contains(m.FieldsV1.GetRawString(), "f:metadata") {
			t.Errorf("the manager owns %s by %s of %q", m.FieldsV1.GetRawString(), m.Operation, m.Subresource)
		}
	}
	if owned != 1 {
		t.Errorf("the manager owns fields %d times, want once", owned)
	}

	// Another owner: refused, with the first one's name.
	err := apply(t, "somebody", plan.Name, v1alpha1.KMSRotationPlanStatus{Phase: v1alpha1.Retired})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "bao-kms-manager"`) || !strings.Contains(err.Error(), ".status.phase") {
		t.Errorf("another owner of status: %v", err)
	}
	err = apply(t, "somebody", plan.Name, v1alpha1.KMSRotationPlanStatus{Nodes: []v1alpha1.NodeStatus{{Name: "cp-1", Ready: true, Reasons: []string{"c"}}}})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `.status.nodes[name="cp-1"]`) {
		t.Errorf("another owner of a node: %v", err)
	}

	// What the owner leaves out is gone: a node, a condition, a reason.
	second := first
	second.Nodes = []v1alpha1.NodeStatus{{Name: "cp-1", Ready: true, Reasons: []string{"b"}}}
	second.Conditions = first.Conditions[1:]
	if err := apply(t, "bao-kms-manager", plan.Name, second); err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.KMSRotationPlan
	got.Name = plan.Name
	s := read(t, &got).Status
	if len(s.Nodes) != 1 || s.Nodes[0].Name != "cp-1" || s.Nodes[0].KeyIDHash != "" || !slices.Equal(s.Nodes[0].Reasons, []string{"b"}) ||
		len(s.Conditions) != 1 || s.Conditions[0].Type != v1alpha1.ConditionReady {
		t.Errorf("status after the second apply: %+v", s)
	}
	// The same again writes nothing.
	if err := apply(t, "bao-kms-manager", plan.Name, second); err != nil {
		t.Fatal(err)
	}
	if before := got.ResourceVersion; read(t, &got).ResourceVersion != before {
		t.Errorf("applying the same status made resource version %s of %s", got.ResourceVersion, before)
	}
	// Whoever writes the plan itself does not write its status.
	got.Status.Phase = v1alpha1.Retired
	if err := env.client.Update(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	if phase := read(t, &got).Status.Phase; phase != v1alpha1.Observing {
		t.Errorf("an update of the plan set its phase to %s", phase)
	}
}

// TestStatusRules: values of status that the columns and scripts rely on.
func TestStatusRules(t *testing.T) {
	plan := create(t, object("KMSRotationPlan", name(t, "plan"), fields{"spec": spec(nil)}))
	seen := fields{"keyIDHash": "h", "transitVersion": 1, "firstSeen": "2026-11-30T06:15:00Z", "lastSeen": "2026-11-30T06:15:00Z"}
	keys := func(n int) []any {
		var all []any
		for range n {
			all = append(all, seen)
		}
		return all
	}
	node := func(f fields) fields {
		f["name"] = "cp-1"
		f["ready"] = true
		return fields{"nodes": []any{f}}
	}
	cases := []struct {
		name   string
		status fields
		field  string // empty when it is accepted
		words  string
	}{
		{"phase", fields{"phase": "Done"}, "status.phase", `Unsupported value: "Done"`},
		{"every key", fields{"keyHistory": keys(16)}, "", ""},
		{"a key too many", fields{"keyHistory": keys(17)}, "status.keyHistory", "must have at most 16 items"},
		{"state", node(fields{"retirement": fields{"state": "Done"}}), "status.nodes[0].retirement.state", `Unsupported value: "Done"`},
		{"changed", node(fields{"retirement": fields{"state": "Changed"}}), "", ""},
		{"a node twice", fields{"nodes": []any{fields{"name": "a", "ready": true}, fields{"name": "a", "ready": true}}}, "status.nodes[1]", "Duplicate value"},
		{"a node without a word", fields{"nodes": []any{fields{"name": "a"}}}, "status.nodes[0].ready", "Required value"},
		{"unknown", fields{"phases": "Retired"}, "status.phases", "unknown field"},
	}
	for _, phase := range []v1alpha1.Phase{v1alpha1.Observing, v1alpha1.Rotating, v1alpha1.Converged, v1alpha1.Settling, v1alpha1.RewriteSafe,
		v1alpha1.AwaitingReview, v1alpha1.Approved, v1alpha1.Applying, v1alpha1.Retired, v1alpha1.Degraded} {
		cases = append(cases, struct {
			name   string
			status fields
			field  string
			words  string
		}{string(phase), fields{"phase": phase}, "", ""})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := plan.DeepCopy()
			o.Object["status"] = runtimeJSON(c.status)
			err := env.client.Status().Update(t.Context(), o, client.DryRunAll, strict)
			if c.field != "" {
				refused(t, err, c.field, c.words)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
