package deploytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// told is a test that collects what it is told; what ends it ends the check.
type told struct {
	testing.TB
	texts []string
}

// ended is what a told test panics with when it would end.
type ended struct{}

func (*told) Helper() {}

func (t *told) Errorf(format string, args ...any) {
	t.texts = append(t.texts, fmt.Sprintf(format, args...))
}

func (t *told) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(ended{})
}

// listen returns all that a check says.
func listen(t *testing.T, check func(testing.TB)) string {
	t.Helper()
	heard := &told{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != (ended{}) {
				panic(r)
			}
		}()
		check(heard)
	}()
	return strings.Join(heard.texts, "\n")
}

// expect compares what was heard: nothing, or a text that has want in it.
func expect(t *testing.T, heard, want string) {
	t.Helper()
	if want == "" && heard != "" || !strings.Contains(heard, want) {
		t.Errorf("it says %q, want %q", heard, want)
	}
}

// TestDashboardChecks breaks one thing of a dashboard that is as it should be.
func TestDashboardChecks(t *testing.T) {
	first := func(d *Dashboard) *panel {
		for i := range d.content.Panels {
			if d.content.Panels[i].Type != "row" {
				return &d.content.Panels[i]
			}
		}
		t.Fatal("the dashboard has no panel")
		return nil
	}
	for _, c := range []struct {
		name  string
		spoil func(*Dashboard)
		want  string
	}{
		{"nothing", func(*Dashboard) {}, ""},
		{"row", func(d *Dashboard) { d.content.Panels[0].Title = "Another?" }, "its rows are"},
		{"uid", func(d *Dashboard) { d.content.UID = "x" }, `its uid is "x"`},
		{"no id", func(d *Dashboard) { first(d).ID = 0 }, "its id 0 is not its own"},
		{"id of another", func(d *Dashboard) { first(d).ID = d.content.Panels[0].ID }, "is not its own"},
		{"overlap", func(d *Dashboard) { first(d).GridPos = d.content.Panels[0].GridPos }, "lies on"},
		{"beyond the edge", func(d *Dashboard) { first(d).GridPos.X, first(d).GridPos.Y = 24, 1000 }, "beyond the edge"},
		{"description", func(d *Dashboard) { first(d).Description = "short" }, "it lacks a description"},
		{"unit", func(d *Dashboard) { first(d).FieldConfig.Defaults.Unit = "" }, "it lacks a description, a unit"},
		{"query", func(d *Dashboard) { first(d).Targets = nil }, "it lacks a description, a unit, a query"},
		{"panel's datasource", func(d *Dashboard) { first(d).Datasource.UID = "mine" }, "or the variable datasource"},
		{"query's datasource", func(d *Dashboard) { first(d).Targets[0].Datasource.UID = "mine" }, "A: its datasource is not the variable"},
		{"not narrowed", func(d *Dashboard) { first(d).Targets[0].Expr = "up" }, "A: not narrowed: up"},
		{"unknown variable", func(d *Dashboard) { first(d).Targets[0].Expr += "$nobody" }, "a variable in it is not the dashboard's"},
		{"allValue", func(d *Dashboard) { d.content.Templating.List[1].AllValue = ".+" }, "its query or allValue was not understood"},
		{"definition", func(d *Dashboard) { d.content.Templating.List[1].Definition = "label_values(up, job)" }, "query and definition differ"},
		{"column", func(d *Dashboard) {
			for i := range d.content.Panels {
				for _, change := range d.content.Panels[i].Transformations {
					if names := change.Options.RenameByName; names != nil {
						names["nobody"] = "Nobody"
					}
				}
			}
		}, "its column nobody is the label of no query"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := ReadDashboard(t, "baokms")
			c.spoil(d)
			expect(t, listen(t, func(t testing.TB) {
				d.CheckRows(t, "Are all nodes on one key?", "Is it fast?", "Is anything about to expire?")
				d.CheckPanels(t, func(expr string) error {
					if !strings.Contains(expr, "$cluster") {
						return errors.New("not narrowed")
					}
					return nil
				})
				d.expressions(t)
			}), c.want)
		})
	}
}

// TestCanonical: keys are sorted, numbers and text stay as they were.
func TestCanonical(t *testing.T) {
	d := Dashboard{text: `{"b":[1.0,12345678901234567890],"a":"<&>"}`}
	want := "{\n  \"a\": \"<&>\",\n  \"b\": [\n    1.0,\n    12345678901234567890\n  ]\n}\n"
	if got := d.canonical(t); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRuleChecks breaks one thing of an alert that is as it should be.
func TestRuleChecks(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Alert)
		want  string
	}{
		{"nothing", func(*Alert) {}, ""},
		{"prefix", func(a *Alert) { a.Alert = "Other" }, "does not begin with OpenBaoKMS"},
		{"no test", func(a *Alert) { a.Alert = "OpenBaoKMSOther" }, "no test in alerts_test.yaml lets OpenBaoKMSOther fire"},
		{"short summary", func(a *Alert) { a.Annotations["summary"] = "short" }, "its summary is no line"},
		{"two lines", func(a *Alert) { a.Annotations["summary"] += "\nmore" }, "its summary is no line"},
		{"no first step", func(a *Alert) { a.Annotations["description"] = "It is down." }, "what to do First"},
		{"two paragraphs", func(a *Alert) { a.Annotations["description"] += "\nmore" }, "is not one paragraph"},
		{"another page", func(a *Alert) { a.Annotations["runbook"] = "docs/manager.md#x" }, "is no heading of docs/troubleshoot.md"},
		{"no heading", func(a *Alert) { a.Annotations["runbook"] += "x" }, "is no heading of docs/troubleshoot.md"},
		{"one annotation more", func(a *Alert) { a.Annotations["more"] = "x" }, "annotations are summary, description and runbook"},
		{"odd query", func(a *Alert) { a.Annotations["summary"] += ` {{ query "up" }}` }, "a query in its annotations was not understood"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ReadRules(t, "alerts", 1)
			c.spoil(&r.Alerts[0])
			expect(t, listen(t, func(t testing.TB) {
				r.CheckTested(t)
				r.CheckHelp(t, "troubleshoot.md")
				r.expressions(t)
			}), c.want)
		})
	}
	t.Run("the same name", func(t *testing.T) {
		r := ReadRules(t, "alerts", 1)
		r.Alerts = append(r.Alerts, r.Alerts[0])
		expect(t, listen(t, func(t testing.TB) { r.CheckHelp(t, "troubleshoot.md") }), "its name is not its own")
	})
	t.Run("too few", func(t *testing.T) {
		expect(t, listen(t, func(t testing.TB) { ReadRules(t, "alerts", 1000) }), "the file was not understood")
	})
}

// TestExpressions: a label that a legend, a column or an annotation reads is asked for.
func TestExpressions(t *testing.T) {
	var p panel
	text := `{"title": "P", "targets": [{"expr": "sum by (job, node) (x)", "refId": "A", "legendFormat": "{{ job }} of {{cluster}}"}],
		"transformations": [{"options": {"renameByName": {"Value #A": "X", "node": "Node"}}}]}`
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	got := p.expressions(t)
	if want := `[{panel "P" A sum by (job, node) (x) [job cluster node]}]`; fmt.Sprint(got) != want {
		t.Errorf("of a panel: %v, want %s", got, want)
	}
	r := Rules{Alerts: []Alert{{Alert: "A", Expr: "up == 0", Annotations: map[string]string{
		"summary": `{{ $labels.instance }} {{ with printf "up{job=%q}" $labels.job | query }}{{ (first .).Labels.version }}{{ end }}`,
	}}}}
	all := r.expressions(t)
	if want := `[{alert A up == 0 [instance job]} {query in alert A up{job="any"} [version]}]`; fmt.Sprint(all) != want {
		t.Errorf("of an alert: %v, want %s", all, want)
	}
}
