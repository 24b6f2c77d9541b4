package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const scrape = `# TYPE calls_total counter
calls_total{method="Encrypt",status="OK"} 3
calls_total{method="Decrypt",status="Internal"} 0
# TYPE took_seconds histogram
took_seconds_bucket{method="Encrypt",le="0.5"} 1
took_seconds_bucket{method="Encrypt",le="+Inf"} 1
took_seconds_sum{method="Encrypt"} 0.1
took_seconds_count{method="Encrypt"} 1
# TYPE pause_seconds summary
pause_seconds{quantile="0.5"} 1
pause_seconds_sum 1
pause_seconds_count 1
# TYPE ready gauge
ready 1
# TYPE state gauge
state{state="active"} 1
`

func ask(t *testing.T, e Expression) []string {
	t.Helper()
	in, err := json.Marshal(Question{
		Scrapes:      []string{scrape, "# TYPE state gauge\nstate{state=\"pending\"} 1\n"},
		TargetLabels: []string{"job", "instance"}, Others: []string{"up"}, Expressions: []Expression{e},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(bytes.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	var problems []Problem
	if err := json.Unmarshal(out.Bytes(), &problems); err != nil {
		t.Fatal(err)
	}
	texts := []string{}
	for _, p := range problems {
		if p.Name != e.Name {
			t.Errorf("a problem of %q is told of %q", e.Name, p.Name)
		}
		texts = append(texts, p.Text)
	}
	return texts
}

func TestCheck(t *testing.T) {
	const none = ""
	for _, c := range []struct {
		expr   string
		labels []string
		want   string // the beginning of the only problem
	}{
		{"ready == 0", []string{"instance"}, none},
		{"ready ==", nil, "1:9: parse error"},
		{"rady == 0", nil, `the metric "rady" does not exist`},
		{`up{job="any"} == 0 and on (job, instance) ready`, nil, none},
		{`{__name__=~"re.*"}`, nil, `the metric "" does not exist`},

		{`state{state="pending"}`, nil, none},
		{`state{state="pendin"}`, nil, `state has no state "pendin"; it has active, pending`},
		{`state{state!="gone"}`, nil, `state has no state "gone"`},
		{`state{state=""}`, nil, none},
		{`state{stat="pending"}`, nil, `state has no label "stat"`},
		{`state{state=~"active|pending"}`, nil, none},
		{`state{state=~"active|pend"}`, nil, `state has no state "pend"`},
		{`state{state=~"a.*"}`, nil, none},
		{`state{state!~"(active|x).*"}`, nil, none},
		{`state{state!~"(y|x).*"}`, nil, `state has no state "(y|x).*"`},

		{"calls_total > 3", nil, "calls_total is a counter"},
		{"max_over_time(calls_total[5m])", nil, "calls_total is a counter"},
		{"rate(calls_total[5m])", []string{"status"}, none},
		{"rate(ready[5m])", nil, "ready is a gauge: rate"},
		{"changes(ready[5m])", nil, none},
		{"rate(took_seconds_count[5m])", nil, none},
		{"rate(pause_seconds_sum[5m])", nil, none},
		{`pause_seconds{quantile="0.5"}`, nil, none},
		{"rate(took_seconds[5m])", nil, `the metric "took_seconds" does not exist`},

		{"sum by (method) (rate(calls_total[5m]))", []string{"method"}, none},
		{"sum by (method) (rate(calls_total[5m]))", []string{"instance"}, "its result has no label instance, which is read from it; it has method"},
		{"sum by (reason) (rate(calls_total[5m]))", nil, "sum: there is no label reason; there is instance, job, method, status"},
		{"sum without (method) (rate(calls_total[5m]))", []string{"method"}, "its result has no label method"},
		{"topk(1, ready)", []string{"instance"}, none},
		{`count_values by (job) ("v", ready)`, []string{"v", "job"}, none},
		{"histogram_quantile(0.9, sum by (method, le) (rate(took_seconds_bucket[5m])))", []string{"method"}, none},
		{"histogram_quantile(0.9, sum by (method) (rate(took_seconds_bucket[5m])))", nil, "histogram_quantile needs the label le; it gets method"},
		{`took_seconds_bucket{le="0.7"}`, nil, `took_seconds_bucket has no le "0.7"; it has +Inf, 0.5`},

		{"ready and state", nil, "the sides of and never match: left has instance, job, right instance, job, state"},
		{"ready and on (job) state", []string{"instance"}, none},
		{"ready and ignoring (state) state", nil, none},
		{"ready and on (cluster) state", nil, "on, left of and: there is no label cluster"},
		{"ready * on (instance) up", []string{"job"}, "its result has no label job"},
		{"state * on (instance) group_left () ready", []string{"state", "job"}, none},
		{"ready * on (instance) group_left (state) state", []string{"state"}, none},
		{"ready * on (instance) group_left (reason) state", nil, "group_left: there is no label reason"},
		{"ready * on (instance) group_right (job) state", []string{"state", "job"}, none},
		{"ready == 0 or state", []string{"state"}, none},
		{"1 - ready", []string{"instance"}, none},
		{"absent(ready)", []string{"instance"}, "its result has no label instance"},
		{`label_replace(ready, "node", "$1", "instance", "(.*):.*")`, []string{"node"}, none},
		{"max_over_time((ready == 0)[5m:1m])", []string{"instance"}, none},
		{"vector(0) or -ready", []string{"instance"}, none},
	} {
		got := ask(t, Expression{Name: "alert X", Expr: c.expr, Labels: c.labels})
		// A counter without rate and a wrong value come together.
		found := slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, c.want) })
		if (c.want == none) != (len(got) == 0) || (c.want != none && !found) {
			t.Errorf("%s: got %q, want %q", c.expr, got, c.want)
		}
	}
}

func TestBadQuestions(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"scrape": []}`, "reading the question"},
		{`{"scrapes": ["x{"]}`, "scrape 1"},
	} {
		err := run(strings.NewReader(c.in), &bytes.Buffer{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.in, err, c.want)
		}
	}
}
