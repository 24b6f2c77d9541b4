package deploy

import (
	"reflect"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/baokms/baokms/test/deploy/deploytest"
)

func rules(t *testing.T) *deploytest.Rules {
	t.Helper()
	return deploytest.ReadRules(t, "alerts", 12)
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	rules(t).CheckPromtool(t)
}

func TestEachAlertIsTested(t *testing.T) {
	rules(t).CheckTested(t)
}

func TestEachAlertHelps(t *testing.T) {
	r := rules(t)
	r.CheckHelp(t, "troubleshoot.md")
	for _, a := range r.Alerts {
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity is %q", a.Alert, s)
		}
	}
}

// TestRulesFitTheOperator does what the head of the rule file says for a
// PrometheusRule: all of it, two columns further in, below spec.
func TestRulesFitTheOperator(t *testing.T) {
	text := deploytest.Read(t, "deploy", "prometheus", "alerts.yaml")
	indented := regexp.MustCompile(`(?m)^`).ReplaceAllString(text, "  ")
	var plain map[string]any
	var object struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(text), &plain); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte("spec:\n"+indented), &object); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(plain, object.Spec) {
		t.Error("the rules change when they are indented below spec")
	}
}

// TestTheChecker runs the tests of test/deploy/promql, which as a module of its
// own is not part of ./... here.
func TestTheChecker(t *testing.T) {
	deploytest.Run(t, "promql", "go", "vet", "./...")
	deploytest.Run(t, "promql", "go", "test", "./...")
}
