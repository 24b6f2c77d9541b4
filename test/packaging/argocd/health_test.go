// Package argocd holds what deploy/argocd gives Argo CD and Flux against statuses that package assess makes: the scripts run in the interpreter
// that Argo CD has, with the libraries that it opens.
package argocd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/test/packaging/argocd/lifetest"
)

var (
	folder = filepath.Join("..", "..", "..", "deploy", "argocd")
	start  = time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
)

const (
	planScript   = "kmsrotationplan.lua"
	reportScript = "kmsnodereport.lua"
)

// health is what a script returns.
type health struct{ Status, Message string }

// run runs a script on an object as Argo CD does: the object is the global obj, and there is no other library than these.
func run(t *testing.T, script string, object any) health {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, script))
	if err != nil {
		t.Fatal(err)
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	state.SetGlobal("obj", table(state, plain(t, object)))
	if err := state.DoString(string(text)); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("%s returns %s", script, state.Get(-1).Type())
	}
	return health{lua.LVAsString(result.RawGetString("status")), lua.LVAsString(result.RawGetString("message"))}
}

// plain is an object as JSON has it.
func plain(t *testing.T, object any) any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// table makes a value of the interpreter's.
func table(state *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		t := state.NewTable()
		for key, value := range v {
			t.RawSetString(key, table(state, value))
		}
		return t
	case []any:
		t := state.NewTable()
		for _, value := range v {
			t.Append(table(state, value))
		}
		return t
	case string:
		return lua.LString(v)
	case float64:
		return lua.LNumber(v)
	case bool:
		return lua.LBool(v)
	}
	return lua.LNil
}

// TestThePlansLife: the health of a plan in each stage, and that its message is the one of Ready, which says what to do.
func TestThePlansLife(t *testing.T) {
	want := map[v1alpha1.Phase]string{
		v1alpha1.Observing: "Progressing", v1alpha1.Rotating: "Progressing", v1alpha1.Settling: "Progressing",
		v1alpha1.RewriteSafe: "Healthy", v1alpha1.AwaitingReview: "Healthy", v1alpha1.Approved: "Healthy",
		v1alpha1.Applying: "Healthy", v1alpha1.Retired: "Healthy", v1alpha1.Degraded: "Degraded",
	}
	seen := map[v1alpha1.Phase]bool{}
	for _, stage := range lifetest.Stages(t, start) {
		seen[stage.Phase] = true
		got := run(t, planScript, stage.Plan)
		ready := meta.FindStatusCondition(stage.Plan.Status.Conditions, v1alpha1.ConditionReady)
		if expected := (health{want[stage.Phase], string(stage.Phase) + ": " + ready.Message}); got != expected {
			t.Errorf("%s: %+v, want %+v", stage.Name, got, expected)
		}
	}
	for phase := range want {
		if !seen[phase] {
			t.Errorf("no stage is %s", phase)
		}
	}
}

// TestPlansThatAreNotJudged: what the manager has not said is never taken for health.
func TestPlansThatAreNotJudged(t *testing.T) {
	retired := func() *v1alpha1.KMSRotationPlan {
		all := lifetest.Stages(t, start)
		return all[len(all)-1].Plan
	}
	cases := []struct {
		name         string
		change       func(*v1alpha1.KMSRotationPlan)
		status, says string
	}{
		{"no status", func(p *v1alpha1.KMSRotationPlan) { p.Status = v1alpha1.KMSRotationPlanStatus{} }, "Progressing", "No manager has judged the plan yet"},
		{"a spec that is newer", func(p *v1alpha1.KMSRotationPlan) { p.Generation++ }, "Progressing", "The status is of an older spec"},
		{"degraded, of an older spec", func(p *v1alpha1.KMSRotationPlan) { p.Generation++; p.Status.Phase = v1alpha1.Degraded }, "Progressing", "The status is of an older spec"},
		{"no conditions", func(p *v1alpha1.KMSRotationPlan) { p.Status.Conditions = nil }, "Healthy", "Retired"},
		{"converged", func(p *v1alpha1.KMSRotationPlan) { p.Status.Phase = v1alpha1.Converged }, "Healthy", "Converged: "},
		{"a phase of a newer manager", func(p *v1alpha1.KMSRotationPlan) { p.Status.Phase = "Dancing" }, "Unknown", "The phase Dancing is newer than this script"},
	}
	for _, c := range cases {
		plan := retired()
		c.change(plan)
		if got := run(t, planScript, plan); got.Status != c.status || !strings.HasPrefix(got.Message, c.says) {
			t.Errorf("%s: %+v, want %s, %q", c.name, got, c.status, c.says)
		}
	}
}

func TestReports(t *testing.T) {
	cases := []struct {
		name   string
		change func(*v1alpha1.KMSNodeReport)
		want   health
	}{
		{"ready", func(*v1alpha1.KMSNodeReport) {}, health{"Healthy", "The provider is ready."}},
		{"no status", func(r *v1alpha1.KMSNodeReport) { r.Status = v1alpha1.KMSNodeReportStatus{} }, health{"Progressing", "The reporter has not written a report yet."}},
		{"not reachable, and ready when it last was", func(r *v1alpha1.KMSNodeReport) {
			r.Status.Conditions[0].Status, r.Status.Conditions[0].Message = "False", "there is no report socket"
		}, health{"Degraded", "there is no report socket"}},
		{"not ready", func(r *v1alpha1.KMSNodeReport) {
			r.Status.Report.Readiness.Ready, r.Status.Report.Readiness.Reasons = false, []string{"status_stale", "auth_failed"}
		}, health{"Degraded", "The provider is not ready: status_stale, auth_failed"}},
		{"reachable without a report", func(r *v1alpha1.KMSNodeReport) { r.Status.Report = nil }, health{"Progressing", "The provider has not reported yet."}},
	}
	stages := lifetest.Stages(t, start)
	for _, c := range cases {
		report := stages[len(stages)-1].Reports[0].DeepCopy()
		c.change(report)
		if got := run(t, reportScript, report); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestTheConfigMap: what is installed are the scripts that are tested.
func TestTheConfigMap(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "argocd-cm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var patch corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &patch); err != nil {
		t.Fatal(err)
	}
	if patch.Name != "argocd-cm" || len(patch.Data) != 2 {
		t.Errorf("it patches %s with %d scripts", patch.Name, len(patch.Data))
	}
	for kind, file := range map[string]string{"KMSRotationPlan": planScript, "KMSNodeReport": reportScript} {
		script, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		if patch.Data["resource.customizations.health.kms.baokms.io_"+kind] != string(script) {
			t.Errorf("the script for %s is not %s", kind, file)
		}
	}
}

// TestTheReadme: its table has the health of every phase.
func TestTheReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			for phase := range strings.SplitSeq(cells[1], ",") {
				documented[strings.TrimSpace(phase)] = strings.TrimSpace(cells[2])
			}
		}
	}
	all := lifetest.Stages(t, start)
	plan := all[len(all)-1].Plan
	for _, phase := range []v1alpha1.Phase{v1alpha1.Observing, v1alpha1.Rotating, v1alpha1.Converged, v1alpha1.Settling, v1alpha1.RewriteSafe,
		v1alpha1.AwaitingReview, v1alpha1.Approved, v1alpha1.Applying, v1alpha1.Retired, v1alpha1.Degraded} {
		plan.Status.Phase = phase
		if got := run(t, planScript, plan).Status; got != documented[string(phase)] {
			t.Errorf("%s is %s, and %q in the README", phase, got, documented[string(phase)])
		}
	}
}
