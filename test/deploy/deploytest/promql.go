package deploytest

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// expression, question and problem are those of the command test/deploy/promql.
type expression struct {
	Name   string   `json:"name"`
	Expr   string   `json:"expr"`
	Labels []string `json:"labels,omitempty"`
}

type question struct {
	Scrapes      []string     `json:"scrapes"`
	TargetLabels []string     `json:"targetLabels"`
	Others       []string     `json:"others"`
	Expressions  []expression `json:"expressions"`
}

type problem struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// prometheusOwn are the metrics that Prometheus makes itself. Everything else
// must be in a scrape.
var prometheusOwn = []string{"up"}

// targetLabels are on every series; `cluster` as the head of the rule files says.
var targetLabels = []string{"job", "cluster", "instance"}

// problemsOf holds expressions against scrapes.
func problemsOf(t testing.TB, scrapes []string, expressions []expression) []problem {
	t.Helper()
	in, err := json.Marshal(question{scrapes, targetLabels, prometheusOwn, expressions})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", ".")
	cmd.Dir = Path(t, "test", "deploy", "promql")
	cmd.Stdin = bytes.NewReader(in)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go run ./test/deploy/promql: %v\n%s", err, stderr.String())
	}
	var problems []problem
	if err := json.Unmarshal(out, &problems); err != nil {
		t.Fatal(err)
	}
	return problems
}

// matches returns what the groups of a pattern found.
func matches(pattern *regexp.Regexp, text string) []string {
	var found []string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.Join(m[1:], ""))
	}
	return found
}
