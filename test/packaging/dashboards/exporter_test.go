package dashboards

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/yaml"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/test/deploy/deploytest"
	"github.com/baokms/baokms/test/packaging/argocd/lifetest"
)

// series are the samples that are wanted of a scrape, "name{labels}" with the labels sorted, without those that every one has.
type series map[string]float64

// set adds a sample; labels are pairs.
func (s series) set(value float64, name string, labels ...string) {
	var pairs []string
	for i := 0; i < len(labels); i += 2 {
		pairs = append(pairs, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
	}
	slices.Sort(pairs)
	s[name+"{"+strings.Join(pairs, ",")+"}"] = value
}

// states adds one sample for each state.
func (s series) states(now, name, label string, all []string, labels ...string) {
	for _, state := range all {
		value := 0.0
		if state == now {
			value = 1
		}
		s.set(value, name, append([]string{label, state}, labels...)...)
	}
}

func (s series) time(at *metav1.Time, name string, labels ...string) {
	if at != nil {
		s.set(float64(at.Unix()), name, labels...)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var (
	phases = []string{"Observing", "Rotating", "Converged", "Settling", "RewriteSafe", "AwaitingReview", "Approved", "Applying", "Retired", "Degraded"}
	states = []string{"active", "pending", "unknown"}
)

// plan adds the series of a plan.
func (s series) plan(p *v1alpha1.KMSRotationPlan, generation int64) {
	of := []string{"plan", p.Name}
	s.set(1, "baokms_plan_info", append(of, "provider", p.Spec.ProviderName)...)
	s.set(float64(generation), "baokms_plan_generation", of...)
	if r := p.Spec.Retirement; r != nil {
		s.set(float64(r.BeforeVersion), "baokms_plan_retirement_before_version", of...)
	}
	now := p.Status
	s.set(float64(now.ObservedGeneration), "baokms_plan_observed_generation", of...)
	if now.Phase == "" {
		return
	}
	s.states(string(now.Phase), "baokms_plan_phase", "phase", phases, of...)
	for _, c := range now.Conditions {
		s.states(string(c.Status), "baokms_plan_condition", "status", []string{"True", "False", "Unknown"}, append(of, "condition", c.Type, "reason", c.Reason)...)
	}
	if now.ActiveKeyIDHash != "" {
		s.set(1, "baokms_plan_active_key_info", append(of, "key_id_hash", now.ActiveKeyIDHash)...)
		s.set(float64(now.ActiveTransitVersion), "baokms_plan_active_transit_version", of...)
	}
	s.time(now.ConvergedSince, "baokms_plan_converged_since_timestamp_seconds", of...)
	s.time(now.RewriteSafeAfter, "baokms_plan_rewrite_safe_after_timestamp_seconds", of...)
	if r := now.Retirement; r != nil {
		s.set(float64(r.NodesPlanned), "baokms_plan_retirement_nodes_planned", of...)
		s.set(float64(r.NodesApplied), "baokms_plan_retirement_nodes_applied", of...)
	}
	for _, n := range now.Nodes {
		node := append(of, "node", n.Name)
		s.set(number(n.Ready), "baokms_plan_node_ready", node...)
		if n.TransitVersion != 0 {
			s.set(float64(n.TransitVersion), "baokms_plan_node_transit_version", node...)
		}
		if n.RotationState != "" {
			s.states(n.RotationState, "baokms_plan_node_rotation_state", "state", states, node...)
		}
		if r := n.Retirement; r != nil && r.State != "" {
			s.states(string(r.State), "baokms_plan_node_retirement_state", "state", []string{"Planned", "Applied", "Changed"}, node...)
		}
	}
}

// report adds the series of a report.
func (s series) report(k *v1alpha1.KMSNodeReport) {
	of, r := []string{"node", k.Name}, k.Status.Report
	s.set(1, "baokms_node_report_info", append(of, "provider", k.Spec.ProviderName, "version", r.Provider.Version, "fingerprint", r.Provider.Fingerprint)...)
	s.time(k.Status.ObservedAt, "baokms_node_report_observed_timestamp_seconds", of...)
	s.set(number(meta.IsStatusConditionTrue(k.Status.Conditions, v1alpha1.ConditionProviderReachable)), "baokms_node_report_provider_reachable", of...)
	s.set(number(r.Readiness.Ready), "baokms_node_report_ready", of...)
	for _, reason := range r.Readiness.Reasons {
		s.set(1, "baokms_node_report_unready_reason_info", append(of, "reason", reason)...)
	}
	s.set(number(r.Readiness.PersistenceDegraded), "baokms_node_report_persistence_degraded", of...)
	s.set(float64(r.ActiveKey.TransitVersion), "baokms_node_report_active_transit_version", of...)
	s.set(1, "baokms_node_report_active_key_info", append(of, "key_id_hash", r.ActiveKey.KeyIDHash)...)
	s.states(string(r.Rotation.State), "baokms_node_report_rotation_state", "state", states, of...)
	s.set(float64(r.Registry.Generation), "baokms_node_report_registry_generation", of...)
	s.states(string(r.Preflight.Result), "baokms_node_report_preflight_result", "result", []string{"pass", "warn", "unknown", "fail"}, of...)
}

// scraped are the samples of a scrape. The labels that kube-state-metrics gives to every series of a custom resource must be there.
func scraped(t *testing.T, text string) series {
	t.Helper()
	found := series{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// No value of a label here has a comma, a brace or a space.
		name, rest, _ := strings.Cut(line, "{")
		inner, value, ok := strings.Cut(rest, "} ")
		var number float64
		if _, err := fmt.Sscan(value, &number); !ok || err != nil {
			t.Fatalf("a line was not understood: %s", line)
		}
		labels := strings.Split(inner, ",")
		kept := slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return strings.HasPrefix(l, "customresource_") })
		if len(labels)-len(kept) != 3 {
			t.Errorf("not of a custom resource: %s", line)
		}
		slices.Sort(kept)
		found[name+"{"+strings.Join(kept, ",")+"}"] = number
	}
	return found
}

// TestKubeStateMetrics: every series of plans in each stage of their life and of reports, with its value, and no other.
func TestKubeStateMetrics(t *testing.T) {
	w := newWorld(t)
	want := series{}
	for _, s := range w.stages {
		want.plan(s.Plan, 1)
	}
	want.plan(&v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: "not-judged"}, Spec: w.stages[0].Plan.Spec,
		Status: v1alpha1.KMSRotationPlanStatus{ObservedGeneration: -1}}, 1)
	reports := w.stages[len(w.stages)-1].Reports
	troubled := w.troubled()
	w.write(troubled)
	for _, r := range append(slices.Clone(reports), troubled) {
		want.report(r)
	}
	url := w.exporter()
	var text string
	deploytest.Eventually(t, func() error {
		var err error
		if text, err = deploytest.Get(url); err != nil {
			return err
		}
		if n := len(scraped(t, text)); n < len(want) {
			return fmt.Errorf("it exports %d series, want %d: missing %q", n, len(want), missing(want, scraped(t, text)))
		}
		return nil
	})
	got := scraped(t, text)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, ok := got[name]; !ok || value != want[name] {
			t.Errorf("%s is %v, there %t, want %v", name, value, ok, want[name])
		}
	}
	if extra := missing(got, want); extra != nil {
		t.Errorf("nobody knows of %q", extra)
	}
	checkMetrics(t, text)
	// Hashes only: what a key is called is told nowhere else, either.
	if !strings.Contains(text, lifetest.KeyHash(3)) {
		t.Error("no series has the hash of the key")
	}
}

// missing are the names of one that the other has not.
func missing(of, in series) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if _, ok := in[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}

// TestPhases: kube-state-metrics is told of every phase that the API has; of another it would show none.
func TestPhases(t *testing.T) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(deploytest.Read(t, "config", "crd", "kms.baokms.io_kmsrotationplans.yaml")), &crd); err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, v := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["phase"].Enum {
		known = append(known, strings.Trim(string(v.Raw), `"`))
	}
	want := slices.Clone(phases)
	slices.Sort(want)
	slices.Sort(known)
	if !slices.Equal(known, want) {
		t.Errorf("the API has the phases %q, deploy/kube-state-metrics %q", known, want)
	}
}
