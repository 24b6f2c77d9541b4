package dashboards

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// alert is one of deploy/prometheus/plan-alerts.yaml.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var rules struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy", "prometheus", "plan-alerts.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules.Groups) != 1 || len(rules.Groups[0].Rules) < 6 {
		t.Fatal("the file was not understood")
	}
	return rules.Groups[0].Rules
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", "plan-alerts.yaml"},
		{"test", "rules", "plan-alerts_test.yaml"},
	} {
		cmd := exec.CommandContext(t.Context(), promtool(t), args...)
		cmd.Dir = filepath.Join(root, "deploy", "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

// TestEachAlertIsTested: promtool does not mind an alert without a test.
func TestEachAlertIsTested(t *testing.T) {
	tests := read(t, "deploy", "prometheus", "plan-alerts_test.yaml")
	for _, a := range alerts(t) {
		if !strings.Contains(tests, `ALERTS{alertname="`+a.Alert+`",alertstate="firing",`) {
			t.Errorf("no test in plan-alerts_test.yaml lets %s fire", a.Alert)
		}
	}
}

// TestEachAlertHelps: what somebody who looks at it reads.
func TestEachAlertHelps(t *testing.T) {
	anchors := anchorsOf(read(t, "docs", "manager.md"))
	others := read(t, "deploy", "prometheus", "alerts.yaml")
	names := map[string]bool{}
	for _, a := range alerts(t) {
		if names[a.Alert] || !strings.HasPrefix(a.Alert, "OpenBaoKMS") || strings.Contains(others, "alert: "+a.Alert+"\n") {
			t.Errorf("%s: its name is not its own, or does not begin with OpenBaoKMS", a.Alert)
		}
		names[a.Alert] = true
		if s := a.Labels["severity"]; s != "warning" || len(a.Labels) != 1 {
			t.Errorf("%s: its labels are %v: nothing of the manager is worth waking somebody", a.Alert, a.Labels)
		}
		if s := a.Annotations["summary"]; len(s) < 20 || strings.Contains(s, "\n") {
			t.Errorf("%s: its summary is no line: %q", a.Alert, s)
		}
		if d := a.Annotations["description"]; !strings.Contains(d, " First: ") || strings.Contains(d, "\n") {
			t.Errorf("%s: its description does not say what to do First, or is not one paragraph: %q", a.Alert, d)
		}
		anchor, ok := strings.CutPrefix(a.Annotations["runbook"], "docs/manager.md#")
		if !ok || !anchors[anchor] {
			t.Errorf("%s: its runbook %q is no heading of docs/manager.md", a.Alert, a.Annotations["runbook"])
		}
		if len(a.Annotations) != 3 {
			t.Errorf("%s: annotations are summary, description and runbook, not %v", a.Alert, a.Annotations)
		}
	}
}

// anchorsOf are the names by which a Markdown page's headings are linked to.
func anchorsOf(page string) map[string]bool {
	found := map[string]bool{}
	punctuation := regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	for line := range strings.Lines(page) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := punctuation.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			found[strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return found
}

var labelRead = regexp.MustCompile(`\$labels\.(\w+)`)

// ruleExpressions are the expressions of the alerts, with the labels that their annotations read.
func ruleExpressions(t *testing.T) []expression {
	t.Helper()
	var all []expression
	for _, a := range alerts(t) {
		text := a.Annotations["summary"] + a.Annotations["description"]
		all = append(all, expression{Name: "alert " + a.Alert, Expr: a.Expr, Labels: matches(labelRead, text)})
	}
	return all
}
