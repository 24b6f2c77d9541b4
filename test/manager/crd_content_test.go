package manager

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// TestNodeReportKeepsEverything: what a provider says reaches the readers of a
// KMSNodeReport byte for byte; the schema forgets nothing.
func TestNodeReportKeepsEverything(t *testing.T) {
	for _, file := range []string{"node-healthy.json", "node-rotating.json", "node-starting.json"} {
		t.Run(file, func(t *testing.T) {
			want := decoded[report.NodeReport](t, file)
			o := create(t, object("KMSNodeReport", name(t, "node"), fields{"spec": fields{"providerName": want.Provider.Name}}))
			o.Object["status"] = runtimeJSON(fields{
				"observedAt": "2026-11-30T06:15:00Z",
				"report":     golden(file),
				"retirementPlans": []any{
					fields{"beforeVersion": 2, "plan": golden("plan-nothing-to-do.json")},
					fields{"beforeVersion": 3, "plan": golden("plan.json")},
					fields{"beforeVersion": 4, "problem": golden("problem.json")},
				},
			})
			written := runtimeJSON(o.Object["status"].(map[string]any))
			if err := env.client.Status().Update(t.Context(), o, strict); err != nil {
				t.Fatal(err)
			}
			if got := read(t, o).Object["status"]; !reflect.DeepEqual(got, written) {
				t.Errorf("read back:\n%v\nwritten:\n%v", got, written)
			}

			var typed v1alpha1.KMSNodeReport
			typed.Name = o.GetName()
			read(t, &typed)
			sameReport(t, typed.Status.Report, want)
			if plans := typed.Status.RetirementPlans; len(plans) != 3 {
				t.Errorf("%d retirement plans, want 3", len(plans))
			} else {
				sameReport(t, plans[0].Plan, decoded[report.RetirementPlan](t, "plan-nothing-to-do.json"))
				sameReport(t, plans[1].Plan, decoded[report.RetirementPlan](t, "plan.json"))
				sameReport(t, plans[2].Problem, decoded[report.Problem](t, "problem.json"))
			}
		})
	}
}

func decoded[D report.Document](t testing.TB, file string) *D {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(env.root, "internal", "report", "testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	d, err := report.Decode[D](doc)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sameReport compares in report's own spelling, which its Decode insists on.
func sameReport[D report.Document](t *testing.T, got, want *D) {
	t.Helper()
	if got == nil {
		t.Fatalf("the server lost a document of %T", *want)
	}
	a, err := report.Encode(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := report.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("read back:\n%s\nwritten:\n%s", a, b)
	}
	if _, err := report.Decode[D](a); err != nil {
		t.Errorf("what came back is no document of v1: %v", err)
	}
}

// TestLargestReport: a node with as many versions as a document can hold fits
// the server's limit of a request and its budget for rules.
func TestLargestReport(t *testing.T) {
	r := golden("node-healthy.json")
	var snapshots []any
	for i := range 8192 {
		hash := strings.Repeat("A", 38) + string([]byte{
			'A' + byte(i/17576%26), 'A' + byte(i/676%26), 'A' + byte(i/26%26), 'A' + byte(i%26), 'A',
		})
		snapshots = append(snapshots, fields{"keyIdHash": hash, "transitVersion": i + 1, "state": "removed"})
	}
	r["snapshots"] = snapshots
	o := create(t, object("KMSNodeReport", name(t, "node"), fields{"spec": fields{"providerName": "p"}}))
	o.Object["status"] = runtimeJSON(fields{"report": r, "retirementPlans": questions(256)})
	if err := env.client.Status().Update(t.Context(), o, strict); err != nil {
		t.Fatal(err)
	}
	got, _, err := unstructured.NestedSlice(read(t, o).Object, "status", "report", "snapshots")
	if err != nil || len(got) != 8192 {
		t.Errorf("%d snapshots, %v", len(got), err)
	}
}

func TestSamples(t *testing.T) {
	dir := filepath.Join(env.root, "config", "samples")
	var list struct{ Resources []string }
	doc, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(doc, &list); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Resources) != 3 || len(files) != len(list.Resources)+1 {
		t.Errorf("kustomization.yaml names %d of %d files", len(list.Resources), len(files)-1)
	}
	for _, file := range list.Resources {
		t.Run(file, func(t *testing.T) {
			o := sample(t, file)
			if err := env.client.Create(t.Context(), o.DeepCopy(), client.DryRunAll, strict); err != nil {
				t.Error(err)
			}
		})
	}
}

func sample(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(env.root, "config", "samples", file))
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = yaml.YAMLToJSONStrict(doc); err != nil {
		t.Fatal(err)
	}
	o := new(unstructured.Unstructured)
	if err := o.UnmarshalJSON(doc); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestSampleReport: the example of a report is one that a provider could give,
// and the server keeps all of it.
func TestSampleReport(t *testing.T) {
	o := sample(t, "node-report.yaml")
	want := runtimeJSON(o.Object["status"].(map[string]any))
	o.SetName(name(t, "node"))
	o.Object["status"] = nil
	create(t, o)
	o.Object["status"] = runtimeJSON(want)
	if err := env.client.Status().Update(t.Context(), o, strict); err != nil {
		t.Fatal(err)
	}
	if got := read(t, o).Object["status"]; !reflect.DeepEqual(got, want) {
		t.Errorf("read back:\n%v\nwritten:\n%v", got, want)
	}
	var typed v1alpha1.KMSNodeReport
	typed.Name = o.GetName()
	s := read(t, &typed).Status
	sameReport(t, s.Report, s.Report)
	if len(s.RetirementPlans) != 1 || s.RetirementPlans[0].Plan == nil {
		t.Fatalf("%d retirement plans", len(s.RetirementPlans))
	}
	plan := s.RetirementPlans[0].Plan
	sameReport(t, plan, plan)
	if s.Report.Provider.Name != typed.Spec.ProviderName || plan.StateHash != s.Report.Registry.StateHash ||
		plan.ActiveKeyIDHash != s.Report.ActiveKey.KeyIDHash || plan.NextGeneration != s.Report.Registry.Generation+1 ||
		s.RetirementPlans[0].BeforeVersion != int32(plan.BeforeVersion) {
		t.Error("the report and its retirement plan do not belong together")
	}
}

func TestDefaults(t *testing.T) {
	cases := []struct {
		name             string
		change           fields
		maxAge, settling string
	}{
		{"left out", nil, "3m", "5m"},
		{"given", fields{"reportMaxAge": "90s", "settleTime": "1h30m"}, "90s", "1h30m"},
		{"no settling", fields{"settleTime": "0s"}, "3m", "0s"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plan := read(t, create(t, object("KMSRotationPlan", name(t, "plan"), fields{"spec": spec(c.change)})))
			// Whoever waits for observedGeneration waits for the manager.
			if got, want := plan.Object["status"], any(fields{"observedGeneration": int64(-1)}); !reflect.DeepEqual(got, want) {
				t.Errorf("status %v, want %v", got, want)
			}
			got := plan.Object["spec"].(map[string]any)
			if got["reportMaxAge"] != c.maxAge || got["settleTime"] != c.settling {
				t.Errorf("reportMaxAge %v and settleTime %v, want %s and %s", got["reportMaxAge"], got["settleTime"], c.maxAge, c.settling)
			}
			// Nothing else is made up.
			delete(got, "reportMaxAge")
			delete(got, "settleTime")
			if want := runtimeJSON(spec(nil)); !reflect.DeepEqual(got, want) {
				t.Errorf("spec %v, want %v", got, want)
			}
		})
	}
	t.Run("Go's zero", func(t *testing.T) {
		plan := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: name(t, "plan")}}
		plan.Spec.ProviderName, plan.Spec.Nodes.Names = "p", []string{"cp-1"}
		create(t, plan)
		if plan.Status.ObservedGeneration != -1 {
			t.Errorf("status %+v", plan.Status)
		}
		if plan.Spec.ReportMaxAge.Duration != 3*time.Minute || plan.Spec.SettleTime.Duration != 5*time.Minute {
			t.Errorf("reportMaxAge %s, settleTime %s", plan.Spec.ReportMaxAge.Duration, plan.Spec.SettleTime.Duration)
		}
		doc, err := json.Marshal(&v1alpha1.KMSRotationPlan{})
		if err != nil {
			t.Fatal(err)
		}
		// An apply of status alone claims nothing else.
		if string(doc) != "{}" {
			t.Errorf("an empty plan is written as %s", doc)
		}
	})
}
