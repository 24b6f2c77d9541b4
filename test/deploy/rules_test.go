package deploy

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	rulesDir  = filepath.Join(root, "deploy", "prometheus")
	rulesFile = filepath.Join(rulesDir, "alerts.yaml")
)

// rules are a Prometheus rule file.
type rules struct {
	Groups []struct {
		Name  string  `json:"name"`
		Rules []alert `json:"rules"`
	} `json:"groups"`
}

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var r rules
	if err := yaml.UnmarshalStrict([]byte(read(t, rulesFile)), &r); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range r.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 12 {
		t.Fatalf("%d alerts: the file was not understood", len(all))
	}
	return all
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	mustRun(t, rulesDir, tool(t, "promtool"), "check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml")
	mustRun(t, rulesDir, tool(t, "promtool"), "test", "rules", "alerts_test.yaml")
}

// TestEachAlertIsTested: promtool does not mind an alert without a test.
func TestEachAlertIsTested(t *testing.T) {
	tests := read(t, filepath.Join(rulesDir, "alerts_test.yaml"))
	for _, a := range alerts(t) {
		if !strings.Contains(tests, `ALERTS{alertname="`+a.Alert+`",alertstate="firing"`) {
			t.Errorf("no test in alerts_test.yaml lets %s fire", a.Alert)
		}
	}
}

// TestEachAlertHelps: what somebody who was woken up reads.
func TestEachAlertHelps(t *testing.T) {
	anchors := anchorsOf(read(t, filepath.Join(root, "docs", "troubleshoot.md")))
	names := map[string]bool{}
	for _, a := range alerts(t) {
		if names[a.Alert] || !strings.HasPrefix(a.Alert, "OpenBaoKMS") {
			t.Errorf("%s: its name is not its own, or does not begin with OpenBaoKMS", a.Alert)
		}
		names[a.Alert] = true
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity is %q", a.Alert, s)
		}
		summary := a.Annotations["summary"]
		if len(summary) < 20 || strings.Contains(summary, "\n") {
			t.Errorf("%s: its summary is no line: %q", a.Alert, summary)
		}
		if d := a.Annotations["description"]; !strings.Contains(d, " First: ") || strings.Contains(d, "\n") {
			t.Errorf("%s: its description does not say what to do First, or is not one paragraph: %q", a.Alert, d)
		}
		anchor, ok := strings.CutPrefix(a.Annotations["runbook"], "docs/troubleshoot.md#")
		if !ok || !anchors[anchor] {
			t.Errorf("%s: its runbook %q is no heading of docs/troubleshoot.md", a.Alert, a.Annotations["runbook"])
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

// TestRulesFitTheOperator does what the head of the rule file says for a
// PrometheusRule: all of it, two columns further in, below spec.
func TestRulesFitTheOperator(t *testing.T) {
	text := read(t, rulesFile)
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

var (
	labelRead = regexp.MustCompile(`\$labels\.(\w+)`)
	// subQuery is a query within an annotation, with the arguments of its format.
	subQuery  = regexp.MustCompile(`printf ("(?:[^"\\]|\\.)*")[^|]*\| query`)
	fieldRead = regexp.MustCompile(`\.Labels\.(\w+)|sortByLabel "(\w+)"`)
)

// ruleExpressions are the expressions of the alerts, and the queries in their
// annotations, with the labels that are read from each.
func ruleExpressions(t *testing.T) []expression {
	t.Helper()
	var all []expression
	for _, a := range alerts(t) {
		text := a.Annotations["summary"] + a.Annotations["description"]
		all = append(all, expression{Name: "alert " + a.Alert, Expr: a.Expr, Labels: matches(labelRead, text)})
		for _, m := range subQuery.FindAllStringSubmatch(text, -1) {
			format, err := strconv.Unquote(m[1])
			if err != nil {
				t.Fatalf("%s: %v", a.Alert, err)
			}
			all = append(all, expression{
				Name: "query in alert " + a.Alert, Expr: strings.ReplaceAll(format, "%q", `"any"`), Labels: matches(fieldRead, text),
			})
		}
		if strings.Count(text, "query") != len(subQuery.FindAllString(text, -1)) {
			t.Errorf("%s: a query in its annotations was not understood", a.Alert)
		}
	}
	return all
}

// matches returns what the groups of a pattern found.
func matches(pattern *regexp.Regexp, text string) []string {
	var found []string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.Join(m[1:], ""))
	}
	return found
}
