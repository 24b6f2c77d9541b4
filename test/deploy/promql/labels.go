package main

import (
	"maps"

	"github.com/prometheus/prometheus/promql/parser"
)

// labelsOf returns the labels that the result of an expression can have, and
// finds labels in by, on and group_left that are not there.
func (j *judge) labelsOf(e parser.Expr) set {
	switch e := e.(type) {
	case *parser.VectorSelector:
		return j.series(e)
	case *parser.MatrixSelector:
		return j.labelsOf(e.VectorSelector)
	case *parser.SubqueryExpr:
		return j.labelsOf(e.Expr)
	case *parser.ParenExpr:
		return j.labelsOf(e.Expr)
	case *parser.UnaryExpr:
		return j.labelsOf(e.Expr)
	case *parser.AggregateExpr:
		return j.aggregate(e)
	case *parser.BinaryExpr:
		return j.binary(e)
	case *parser.Call:
		return j.call(e)
	}
	return set{}
}

func (j *judge) series(s *parser.VectorSelector) set {
	result := maps.Clone(j.catalog.target)
	if m := j.catalog.metrics[s.Name]; m != nil {
		for l := range m.labels {
			result[l] = true
		}
	}
	return result
}

func (j *judge) aggregate(e *parser.AggregateExpr) set {
	inner := j.labelsOf(e.Expr)
	j.among(e.Grouping, inner, e.Op.String())
	result := set{}
	switch {
	case e.Op == parser.TOPK || e.Op == parser.BOTTOMK:
		return inner
	case e.Without:
		result = maps.Clone(inner)
		remove(result, e.Grouping)
	default:
		add(result, e.Grouping)
	}
	if name, ok := e.Param.(*parser.StringLiteral); ok && e.Op == parser.COUNT_VALUES {
		result[name.Val] = true
	}
	return result
}

func (j *judge) call(e *parser.Call) set {
	result := set{}
	for _, arg := range e.Args {
		maps.Copy(result, j.labelsOf(arg))
	}
	switch e.Func.Name {
	case "histogram_quantile":
		if !result["le"] {
			j.wrong("histogram_quantile needs the label le; it gets %s", list(result))
		}
		delete(result, "le")
	case "absent", "absent_over_time", "scalar", "vector", "time":
		return set{}
	case "label_replace", "label_join":
		if name, ok := e.Args[1].(*parser.StringLiteral); ok {
			result[name.Val] = true
		}
	}
	return result
}

func (j *judge) binary(e *parser.BinaryExpr) set {
	left, right := j.labelsOf(e.LHS), j.labelsOf(e.RHS)
	match := e.VectorMatching
	switch {
	case match == nil && e.LHS.Type() == parser.ValueTypeVector:
		return left // with a scalar
	case match == nil:
		return right
	case match.On:
		j.among(match.MatchingLabels, left, "on, left of "+e.Op.String())
		j.among(match.MatchingLabels, right, "on, right of "+e.Op.String())
	default:
		remove(left, match.MatchingLabels)
		remove(right, match.MatchingLabels)
		if e.Op != parser.LOR && match.Card != parser.CardManyToOne && match.Card != parser.CardOneToMany && !maps.Equal(left, right) {
			j.wrong("the sides of %s never match: left has %s, right %s", e.Op, list(left), list(right))
		}
	}
	return j.matched(e, left, right)
}

// matched are the labels after two vectors were matched.
func (j *judge) matched(e *parser.BinaryExpr, left, right set) set {
	match := e.VectorMatching
	switch {
	case e.Op == parser.LOR:
		maps.Copy(left, right)
	case e.Op.IsSetOperator():
	case match.Card == parser.CardManyToOne:
		j.among(match.Include, right, "group_left")
		add(left, match.Include)
	case match.Card == parser.CardOneToMany:
		j.among(match.Include, left, "group_right")
		add(right, match.Include)
		return right
	case match.On:
		kept := set{}
		add(kept, match.MatchingLabels)
		return kept
	}
	return left
}

// among complains about labels that are not there.
func (j *judge) among(names []string, there set, where string) {
	for _, l := range names {
		if !there[l] {
			j.wrong("%s: there is no label %s; there is %s", where, l, list(there))
		}
	}
}

func add(s set, names []string) {
	for _, n := range names {
		s[n] = true
	}
}

func remove(s set, names []string) {
	for _, n := range names {
		delete(s, n)
	}
}
