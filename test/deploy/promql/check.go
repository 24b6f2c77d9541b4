package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// check returns what is wrong with an expression.
func check(c *catalog, e Expression) []string {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(e.Expr)
	if err != nil {
		return []string{err.Error()}
	}
	j := &judge{catalog: c}
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			j.selector(s, path)
		}
		return nil
	})
	result := j.labelsOf(expr)
	for _, l := range e.Labels {
		if !result[l] {
			j.wrong("its result has no label %s, which is read from it; it has %s", l, list(result))
		}
	}
	return j.problems
}

// judge collects the problems of one expression.
type judge struct {
	catalog  *catalog
	problems []string
}

func (j *judge) wrong(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(j.problems, text) {
		j.problems = append(j.problems, text)
	}
}

// selector holds a selector against the catalog. path leads to it.
func (j *judge) selector(s *parser.VectorSelector, path []parser.Node) {
	m := j.catalog.metrics[s.Name]
	if m == nil {
		j.wrong("the metric %q does not exist", s.Name)
		return
	}
	for _, match := range s.LabelMatchers {
		if match.Name != model.MetricNameLabel && !j.catalog.target[match.Name] {
			j.matcher(s.Name, m, match)
		}
	}
	j.use(s.Name, m, path)
}

// matcher looks whether a label exists, and each literal value that it is
// compared with. Of a regular expression each alternative must match something.
func (j *judge) matcher(name string, m *metric, match *labels.Matcher) {
	values, exists := m.labels[match.Name]
	if !exists {
		j.wrong("%s has no label %q", name, match.Name)
		return
	}
	for _, v := range wanted(match) {
		if v != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(values)), matches(match.Type, v)) {
			j.wrong("%s has no %s %q; it has %s", name, match.Name, v, list(values))
		}
	}
}

// wanted are the values or patterns of which each must be there.
func wanted(match *labels.Matcher) []string {
	if regular(match.Type) && !strings.ContainsAny(match.Value, "()[]") {
		return strings.Split(match.Value, "|")
	}
	return []string{match.Value}
}

func regular(t labels.MatchType) bool { return t == labels.MatchRegexp || t == labels.MatchNotRegexp }

// matches tells whether a value is the wanted one. The parser has compiled the
// whole pattern; its alternatives compile too.
func matches(t labels.MatchType, want string) func(string) bool {
	if regular(t) {
		return regexp.MustCompile("^(?:" + want + ")$").MatchString
	}
	return func(value string) bool { return value == want }
}

var (
	// ofCounters make something of a counter that means something.
	ofCounters = []string{"rate", "irate", "increase", "resets", "changes", "absent", "absent_over_time", "present_over_time", "last_over_time", "timestamp"}
	// onlyOfCounters mean nothing for a gauge.
	onlyOfCounters = []string{"rate", "irate", "increase", "resets"}
)

// use looks whether a metric's kind fits the function around it.
func (j *judge) use(name string, m *metric, path []parser.Node) {
	function := ""
	for _, node := range slices.Backward(path) {
		if call, ok := node.(*parser.Call); ok {
			function = call.Func.Name
			break
		}
	}
	switch {
	case m.kind == counter && !slices.Contains(ofCounters, function):
		j.wrong("%s is a counter: its value depends on the last restart, use its rate or increase", name)
	case m.kind == gauge && slices.Contains(onlyOfCounters, function):
		j.wrong("%s is a gauge: %s takes every fall for a restart", name, function)
	}
}

func list(s set) string {
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(s)), ", ")
}
