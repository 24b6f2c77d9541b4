package deploy

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

var dashboardFile = filepath.Join(root, "deploy", "grafana", "baokms.json")

// dashboard is what the tests read of it.
type dashboard struct {
	Panels     []panel `json:"panels"`
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

type panel struct {
	ID          int        `json:"id"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Datasource  datasource `json:"datasource"`
	GridPos     struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets []struct {
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
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

func loadDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTheDashboardIsCanonical: an export of Grafana differs in every line from
// the last; with sorted keys a change shows as what it is.
func TestTheDashboardIsCanonical(t *testing.T) {
	text := read(t, dashboardFile)
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
	if out.String() == text {
		return
	}
	if !*update {
		t.Fatal("deploy/grafana/baokms.json has other spacing or another order of keys: run go test ./test/deploy -run Canonical -update")
	}
	if err := os.WriteFile(dashboardFile, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheDashboardsQuestions(t *testing.T) {
	var questions []string
	for _, p := range loadDashboard(t).Panels {
		if p.Type == "row" {
			questions = append(questions, p.Title)
		}
	}
	want := []string{"Are all nodes on one key?", "Is it fast?", "Is anything about to expire?"}
	if !slices.Equal(questions, want) {
		t.Errorf("its rows are %q, want %q", questions, want)
	}
}

// chosen is what narrows a panel's metrics to the variables.
const chosen = `job=~"$job",cluster=~"$cluster",instance=~"$instance"`

func TestEachPanelIsComplete(t *testing.T) {
	prometheus := datasource{Type: "prometheus", UID: "${datasource}"}
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range loadDashboard(t).Panels {
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
			continue
		}
		if len(p.Description) < 40 || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource != prometheus {
			t.Errorf("%s: it lacks a description, a unit, a query or the variable datasource", p.Title)
		}
		for _, q := range p.Targets {
			if q.Datasource != prometheus {
				t.Errorf("%s %s: its datasource is not the variable", p.Title, q.RefID)
			}
			if n := strings.Count(q.Expr, "openbao_kms_"); n == 0 || n != strings.Count(q.Expr, chosen) {
				t.Errorf("%s %s: a metric is not narrowed to the chosen nodes: %s", p.Title, q.RefID, q.Expr)
			}
		}
	}
}

var (
	legendLabel = regexp.MustCompile(`{{\s*(\w+)\s*}}`)
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
)

// dashboardExpressions are the queries of the panels and the variables as
// Grafana sends them with everything chosen.
func dashboardExpressions(t *testing.T) []expression {
	t.Helper()
	d := loadDashboard(t)
	variables := []string{"$__rate_interval", "1m"}
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
		for _, q := range p.Targets {
			all = append(all, expression{
				Name: fmt.Sprintf("panel %q %s", p.Title, q.RefID), Expr: q.Expr, Labels: matches(legendLabel, q.LegendFormat),
			})
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
