package deploytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/goldentest"
)

// Dashboard is a dashboard of deploy/grafana.
type Dashboard struct {
	name, text string
	content    dashboard
}

// dashboard is what is read of its file.
type dashboard struct {
	UID        string  `json:"uid"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []variable `json:"list"`
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
	Transformations []struct {
		Options struct {
			RenameByName map[string]string `json:"renameByName"`
		} `json:"options"`
	} `json:"transformations"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type variable struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Definition string          `json:"definition"`
	AllValue   string          `json:"allValue"`
	Query      json.RawMessage `json:"query"`
}

// ReadDashboard reads deploy/grafana/NAME.json.
func ReadDashboard(t testing.TB, name string) *Dashboard {
	t.Helper()
	d := &Dashboard{name: name, text: Read(t, "deploy", "grafana", name+".json")}
	if err := json.Unmarshal([]byte(d.text), &d.content); err != nil {
		t.Fatalf("deploy/grafana/%s.json: %v", name, err)
	}
	return d
}

// CheckCanonical: an export of Grafana differs in every line from the last; with sorted keys a change shows as what it is. With -update it
// writes the file so.
func (d *Dashboard) CheckCanonical(t testing.TB) {
	t.Helper()
	goldentest.Check(t, Path(t, "deploy", "grafana", d.name+".json"), d.canonical(t))
}

func (d *Dashboard) canonical(t testing.TB) string {
	t.Helper()
	var tree any
	dec := json.NewDecoder(strings.NewReader(d.text))
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
	return out.String()
}

// CheckRows: its rows are the questions that it answers, in this order.
func (d *Dashboard) CheckRows(t testing.TB, want ...string) {
	t.Helper()
	var rows []string
	for _, p := range d.content.Panels {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		}
	}
	if !slices.Equal(rows, want) {
		t.Errorf("its rows are %q, want %q", rows, want)
	}
}

// CheckPanels: links to the dashboard find it, its panels lie beside each other, and each says what it shows, in what unit, of the chosen
// datasource. narrowed says what is wrong with how a query is narrowed to the dashboard's variables.
func (d *Dashboard) CheckPanels(t testing.TB, narrowed func(expr string) error) {
	t.Helper()
	if d.content.UID != d.name {
		t.Errorf("its uid is %q, want %q", d.content.UID, d.name)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.content.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: its id %d is not its own", p.Title, p.ID)
		}
		ids[p.ID] = true
		p.checkPlace(t, taken)
		if p.Type != "row" {
			p.checkContent(t, narrowed)
		}
	}
}

// checkPlace takes a panel's cells of Grafana's grid, which is 24 wide.
func (p *panel) checkPlace(t testing.TB, taken map[[2]int]string) {
	t.Helper()
	for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
		for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
			if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
				t.Fatalf("%s lies on %q or beyond the edge", p.Title, other)
			}
			taken[[2]int{x, y}] = p.Title
		}
	}
}

func (p *panel) checkContent(t testing.TB, narrowed func(expr string) error) {
	t.Helper()
	chosen := datasource{Type: "prometheus", UID: "${datasource}"}
	if len(p.Description) < 40 || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource != chosen {
		t.Errorf("%s: it lacks a description, a unit, a query or the variable datasource", p.Title)
	}
	for _, q := range p.Targets {
		if q.Datasource != chosen {
			t.Errorf("%s %s: its datasource is not the variable", p.Title, q.RefID)
		}
		if err := narrowed(q.Expr); err != nil {
			t.Errorf("%s %s: %v: %s", p.Title, q.RefID, err, q.Expr)
		}
	}
}

// rateInterval is what Grafana would choose for a rate. Scrapes here are a second apart, so any that holds two of them does.
const rateInterval = "1m"

var (
	legendLabel = regexp.MustCompile(`{{\s*(\w+)\s*}}`)
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	valueOf     = regexp.MustCompile(`^Value #(\w+)$`)
)

// expressions are the queries of the variables and the panels as Grafana sends them with everything chosen.
func (d *Dashboard) expressions(t testing.TB) []expression {
	t.Helper()
	variables := []string{"$__rate_interval", rateInterval}
	var all []expression
	for _, v := range d.content.Templating.List {
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
	for _, p := range d.content.Panels {
		all = append(all, p.expressions(t)...)
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

// expressions are a panel's queries with the labels that its legends and, of a table, its columns show.
func (p *panel) expressions(t testing.TB) []expression {
	t.Helper()
	var all []expression
	for _, q := range p.Targets {
		all = append(all, expression{
			Name: fmt.Sprintf("panel %q %s", p.Title, q.RefID), Expr: q.Expr, Labels: matches(legendLabel, q.LegendFormat),
		})
	}
	for _, change := range p.Transformations {
		for column := range change.Options.RenameByName {
			if valueOf.MatchString(column) {
				continue
			}
			by, there := regexp.MustCompile(`by \([^)]*\b`+regexp.QuoteMeta(column)+`\b`), false
			for i := range all {
				if by.MatchString(all[i].Expr) {
					all[i].Labels, there = append(all[i].Labels, column), true
				}
			}
			if !there {
				t.Errorf("%s: its column %s is the label of no query", p.Title, column)
			}
		}
	}
	return all
}
