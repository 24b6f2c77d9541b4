package deploytest

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Rules is a file of alerts in deploy/prometheus. Beside NAME.yaml is NAME_test.yaml with promtool's tests of it.
type Rules struct {
	// Groups are the names of its groups.
	Groups []string
	// Alerts are those of all groups.
	Alerts []Alert
	name   string
}

// Alert is one alert as Prometheus reads it.
type Alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// ReadRules reads deploy/prometheus/NAME.yaml. Fewer alerts than least end the test: the file was not understood.
func ReadRules(t testing.TB, name string, least int) *Rules {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []Alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict([]byte(Read(t, "deploy", "prometheus", name+".yaml")), &file); err != nil {
		t.Fatalf("deploy/prometheus/%s.yaml: %v", name, err)
	}
	r := &Rules{name: name}
	for _, g := range file.Groups {
		r.Groups = append(r.Groups, g.Name)
		r.Alerts = append(r.Alerts, g.Rules...)
	}
	if len(r.Alerts) < least {
		t.Fatalf("%d alerts in deploy/prometheus/%s.yaml, want at least %d: the file was not understood", len(r.Alerts), name, least)
	}
	return r
}

// CheckPromtool: promtool accepts the file and every one of its tests.
func (r *Rules) CheckPromtool(t testing.TB) {
	t.Helper()
	dir := Path(t, "deploy", "prometheus")
	Run(t, dir, Tool(t, "promtool"), "check", "rules", "--lint=all", "--lint-fatal", r.name+".yaml")
	Run(t, dir, Tool(t, "promtool"), "test", "rules", r.name+"_test.yaml")
}

// CheckTested: promtool does not mind an alert without a test.
func (r *Rules) CheckTested(t testing.TB) {
	t.Helper()
	tests := Read(t, "deploy", "prometheus", r.name+"_test.yaml")
	for _, a := range r.Alerts {
		// The comma: a sample that is expected has further labels, a query has none.
		if !strings.Contains(tests, `ALERTS{alertname="`+a.Alert+`",alertstate="firing",`) {
			t.Errorf("no test in %s_test.yaml lets %s fire", r.name, a.Alert)
		}
	}
}

// CheckHelp: what somebody who was woken up reads. Every runbook is a heading of page, which is below docs/.
func (r *Rules) CheckHelp(t testing.TB, page string) {
	t.Helper()
	anchors := anchorsOf(Read(t, "docs", page))
	names := map[string]bool{}
	for _, a := range r.Alerts {
		if names[a.Alert] || !strings.HasPrefix(a.Alert, "OpenBaoKMS") {
			t.Errorf("%s: its name is not its own, or does not begin with OpenBaoKMS", a.Alert)
		}
		names[a.Alert] = true
		if s := a.Annotations["summary"]; len(s) < 20 || strings.Contains(s, "\n") {
			t.Errorf("%s: its summary is no line: %q", a.Alert, s)
		}
		if d := a.Annotations["description"]; !strings.Contains(d, " First: ") || strings.Contains(d, "\n") {
			t.Errorf("%s: its description does not say what to do First, or is not one paragraph: %q", a.Alert, d)
		}
		anchor, ok := strings.CutPrefix(a.Annotations["runbook"], "docs/"+page+"#")
		if !ok || !anchors[anchor] {
			t.Errorf("%s: its runbook %q is no heading of docs/%s", a.Alert, a.Annotations["runbook"], page)
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

var (
	labelRead = regexp.MustCompile(`\$labels\.(\w+)`)
	// subQuery is a query within an annotation, with the arguments of its format.
	subQuery  = regexp.MustCompile(`printf ("(?:[^"\\]|\\.)*")[^|]*\| query`)
	fieldRead = regexp.MustCompile(`\.Labels\.(\w+)|sortByLabel "(\w+)"`)
)

// expressions are the expressions of the alerts, and the queries in their annotations, with the labels that are read from each.
func (r *Rules) expressions(t testing.TB) []expression {
	t.Helper()
	var all []expression
	for _, a := range r.Alerts {
		text := a.Annotations["summary"] + a.Annotations["description"]
		all = append(all, expression{Name: "alert " + a.Alert, Expr: a.Expr, Labels: matches(labelRead, text)})
		queries := subQuery.FindAllStringSubmatch(text, -1)
		for _, m := range queries {
			format, err := strconv.Unquote(m[1])
			if err != nil {
				t.Fatalf("%s: %v", a.Alert, err)
			}
			all = append(all, expression{
				Name: "query in alert " + a.Alert, Expr: strings.ReplaceAll(format, "%q", `"any"`), Labels: matches(fieldRead, text),
			})
		}
		if strings.Count(text, "query") != len(queries) {
			t.Errorf("%s: a query in its annotations was not understood", a.Alert)
		}
	}
	return all
}
