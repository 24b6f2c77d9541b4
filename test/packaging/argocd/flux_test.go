package argocd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/test/packaging/argocd/lifetest"
)

// compute is what Flux makes of a plan.
func compute(t *testing.T, plan *v1alpha1.KMSRotationPlan) *status.Result {
	t.Helper()
	o := &unstructured.Unstructured{Object: plain(t, plan).(map[string]any)}
	// The generation is a whole number there.
	o.SetGeneration(plan.Generation)
	if plan.Status.ObservedGeneration != 0 {
		if err := unstructured.SetNestedField(o.Object, plan.Status.ObservedGeneration, "status", "observedGeneration"); err != nil {
			t.Fatal(err)
		}
	}
	result, err := status.Compute(o)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestFlux: Flux reads the conditions as they are meant. A plan counts as done when it is Ready.
func TestFlux(t *testing.T) {
	done := map[v1alpha1.Phase]bool{v1alpha1.RewriteSafe: true, v1alpha1.Retired: true}
	for _, stage := range lifetest.Stages(t, start) {
		want := status.InProgressStatus
		if done[stage.Phase] {
			want = status.CurrentStatus
		}
		if got := compute(t, stage.Plan); got.Status != want {
			t.Errorf("%s (%s): %s, %s, want %s", stage.Name, stage.Phase, got.Status, got.Message, want)
		}
	}
}

// TestFluxAndASpecThatIsNewer: a plan that was Ready is not done again before the manager has seen the new spec.
func TestFluxAndASpecThatIsNewer(t *testing.T) {
	all := lifetest.Stages(t, start)
	plan := all[len(all)-1].Plan
	plan.Generation++
	if got := compute(t, plan); got.Status != status.InProgressStatus {
		t.Errorf("%s, %s", got.Status, got.Message)
	}
}

// unjudged is a new plan as the API server keeps it: its status is the default of the definition.
func unjudged(t *testing.T) *v1alpha1.KMSRotationPlan {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "..", "..", "config", "crd", "kms.baokms.io_kmsrotationplans.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct {
						Properties struct {
							Status struct {
								Default v1alpha1.KMSRotationPlanStatus
							}
						}
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	if len(definition.Spec.Versions) != 1 {
		t.Fatalf("the definition was not understood: %d versions", len(definition.Spec.Versions))
	}
	plan := lifetest.Stages(t, start)[0].Plan
	plan.Status = definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties.Status.Default
	return plan
}

// TestNewPlan: what no manager has judged is waited for, by Flux with and without the expressions and by Argo CD.
func TestNewPlan(t *testing.T) {
	plan := unjudged(t)
	if got := compute(t, plan); got.Status != status.InProgressStatus {
		t.Errorf("Flux: %s, %s", got.Status, got.Message)
	}
	current, failed := expressions(t)
	for _, p := range []cel.Program{current, failed} {
		if out, _, err := p.Eval(plain(t, plan).(map[string]any)); err != nil || out.Value() != false {
			t.Errorf("Flux's expression: %v, %v", out, err)
		}
	}
	if got := run(t, planScript, plan); got.Status != "Progressing" || !strings.HasPrefix(got.Message, "No manager has judged the plan yet") {
		t.Errorf("Argo CD: %+v", got)
	}
}

// expressions are the health checks of Flux that the README gives.
func expressions(t *testing.T) (current, failed cel.Program) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	block, _, _ := strings.Cut(rest, "```")
	var spec struct {
		HealthCheckExprs []struct{ APIVersion, Kind, Current, Failed string } `json:"healthCheckExprs"`
	}
	if err := yaml.Unmarshal([]byte(block), &spec); err != nil {
		t.Fatal(err)
	}
	if len(spec.HealthCheckExprs) != 1 || spec.HealthCheckExprs[0].APIVersion != v1alpha1.GroupVersion.String() || spec.HealthCheckExprs[0].Kind != "KMSRotationPlan" {
		t.Fatalf("the README was not understood: %+v", spec)
	}
	// Flux checks no types: the object's own fields are the variables.
	env, err := cel.NewEnv()
	if err != nil {
		t.Fatal(err)
	}
	program := func(expr string) cel.Program {
		t.Helper()
		parsed, issues := env.Parse(expr)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", expr, issues.Err())
		}
		p, err := env.Program(parsed)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		return p
	}
	return program(spec.HealthCheckExprs[0].Current), program(spec.HealthCheckExprs[0].Failed)
}

// TestFluxExpressions: what the README gives says of each stage what Argo CD's script says.
func TestFluxExpressions(t *testing.T) {
	current, failed := expressions(t)
	verdict := func(p cel.Program, plan map[string]any) bool {
		t.Helper()
		out, _, err := p.Eval(plan)
		if err != nil {
			t.Fatal(err)
		}
		return out.Value() == true
	}
	stages := lifetest.Stages(t, start)
	// Of an older spec neither its end nor its failure counts.
	for _, phase := range []v1alpha1.Phase{v1alpha1.Retired, v1alpha1.Degraded} {
		for _, stage := range stages {
			if stage.Phase == phase {
				stage.Name, stage.Plan = stage.Name+", of an older spec", stage.Plan.DeepCopy()
				stage.Plan.Generation++
				stages = append(stages, stage)
			}
		}
	}
	for _, stage := range stages {
		plan := plain(t, stage.Plan).(map[string]any)
		got := "Progressing"
		switch {
		case verdict(failed, plan):
			got = "Degraded"
		case verdict(current, plan):
			got = "Healthy"
		}
		if want := run(t, planScript, stage.Plan).Status; got != want {
			t.Errorf("%s: %s with Flux, %s with Argo CD", stage.Name, got, want)
		}
	}
	// Without a status they have no value: Flux waits, and takes it neither for done nor for failed.
	for _, p := range []cel.Program{current, failed} {
		if out, _, err := p.Eval(map[string]any{"metadata": map[string]any{}}); err == nil {
			t.Errorf("a plan without a status is %v", out.Value())
		}
	}
}
