package dashboards

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the dashboard in its canonical form")

// dashboard is what the tests read of deploy/grafana/baokms-plans.json.
type dashboard struct {
	UID    string `json:"uid"`
	Panels []struct {
		ID          int        `json:"id"`
		Type        string     `json:"type"`
		Title       string     `json:"title"`
		Description string     `json:"description"`
		Datasource  datasource `json:"datasource"`
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
			Expr         string     `json:"expr"`
			RefID        string     `json:"refId"`
			LegendFormat string     `json:"legendFormat"`
			Datasource   datasource `json:"datasource"`
		} `json:"targets"`
		FieldConfig struct {
			Defaults struct {
				Unit string `json:"unit"`
			} `json:"defaults"`
		} `json:"fieldConfig"`
		Transformations []struct {
			ID      string `json:"id"`
			Options struct {
				RenameByName map[string]string `json:"renameByName"`
			} `json:"options"`
		} `json:"transformations"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name       string          `json:"name"`
			Type       string          `json:"type"`
			Definition string          `json:"definition"`
			AllValue   string          `json:"allValue"`
			Query      json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

func loadDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "deploy", "grafana", "baokms-plans.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTheDashboardIsCanonical: an export of Grafana differs in every line from the last; with sorted keys a change shows as what it is.
func TestTheDashboardIsCanonical(t *testing.T) {
	text := read(t, "deploy", "grafana", "baokms-plans.json")
	var tree any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(tree); err != nil {
		t.Fatal(err)
	}
	switch {
	case out.String() == text:
	case !*update:
		t.Fatal("deploy/grafana/baokms-plans.json has other spacing or another order of keys: run in test/packaging go test ./dashboards -run Canonical -update")
	default:
		if err := os.WriteFile(filepath.Join(root, "deploy", "grafana", "baokms-plans.json"), out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// ofPlans are the metrics that have the label plan; one of them is narrowed to the chosen plans, too.
var ofPlans = regexp.MustCompile(`baokms_(plan_|manager_plan_)\w+`)

// selector is a metric with its matchers.
var selector = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)

func TestEachPanelIsComplete(t *testing.T) {
	prometheus := datasource{Type: "prometheus", UID: "${datasource}"}
	d := loadDashboard(t)
	if d.UID != "baokms-plans" {
		t.Errorf("its uid is %s", d.UID)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	var questions []string
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: its id %d is not its own", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %q or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			questions = append(questions, p.Title)
			continue
		}
		if len(p.Description) < 40 || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource != prometheus {
			t.Errorf("%s: it lacks a description, a unit, a query or the variable datasource", p.Title)
		}
		for _, q := range p.Targets {
			if q.Datasource != prometheus {
				t.Errorf("%s %s: its datasource is not the variable", p.Title, q.RefID)
			}
			found := selector.FindAllStringSubmatch(q.Expr, -1)
			if len(found) == 0 {
				t.Errorf("%s %s: no metric is narrowed: %s", p.Title, q.RefID, q.Expr)
			}
			for _, m := range found {
				if !strings.Contains(m[2], `cluster=~"$cluster"`) || ofPlans.MatchString(m[1]) && !strings.HasPrefix(m[1], "baokms_manager_plans") && !strings.Contains(m[2], `plan=~"$plan"`) {
					t.Errorf("%s %s: %s is not narrowed to what is chosen: %s", p.Title, q.RefID, m[1], q.Expr)
				}
			}
		}
	}
	if want := []string{"Where does each plan stand?", "Does every node report?", "Does the manager work?"}; !slices.Equal(questions, want) {
		t.Errorf("its rows are %q, want %q", questions, want)
	}
}

// expression, question and problem are those of the command test/deploy/promql.
type expression struct {
	Name   string   `json:"name"`
	Expr   string   `json:"expr"`
	Labels []string `json:"labels,omitempty"`
}

var (
	legendLabel = regexp.MustCompile(`{{\s*(\w+)\s*}}`)
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	valueOf     = regexp.MustCompile(`^Value #(\w+)$`)
)

// dashboardExpressions are the queries of the panels and the variables as Grafana sends them with everything chosen.
func dashboardExpressions(t *testing.T) []expression {
	t.Helper()
	d := loadDashboard(t)
	variables := []string{"$__rate_interval", "30s"}
	var all []expression
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Definition)
		if m == nil || v.AllValue != ".*" {
			// With ".*" a label that does not exist matches too.
			t.Fatalf("variable %s: its query or allValue was not understood", v.Name)
		}
		if !strings.Contains(string(v.Query), strings.ReplaceAll(v.Definition, `"`, `\"`)) {
			t.Errorf("variable %s: query and definition differ", v.Name)
		}
		variables = append(variables, "$"+v.Name, v.AllValue)
		all = append(all, expression{Name: "variable " + v.Name, Expr: m[1], Labels: m[2:]})
	}
	for _, p := range d.Panels {
		// The columns of a table that are labels must be in one of its queries.
		var columns []string
		for _, change := range p.Transformations {
			for from := range change.Options.RenameByName {
				if !valueOf.MatchString(from) {
					columns = append(columns, from)
				}
			}
		}
		for _, q := range p.Targets {
			labels := matches(legendLabel, q.LegendFormat)
			for _, column := range columns {
				if regexp.MustCompile(`by \([^)]*\b` + column + `\b`).MatchString(q.Expr) {
					labels = append(labels, column)
				}
			}
			all = append(all, expression{Name: fmt.Sprintf("panel %q %s", p.Title, q.RefID), Expr: q.Expr, Labels: labels})
		}
	}
	replace := strings.NewReplacer(variables...)
	for i := range all {
		all[i].Expr = replace.Replace(all[i].Expr)
		if strings.Contains(all[i].Expr, "$") {
			t.Errorf("%s: a variable in it is not the dashboard's: %s", all[i].Name, all[i].Expr)
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
