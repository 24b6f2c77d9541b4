// Command promql holds PromQL expressions against metrics that were really
// scraped, and says which of them name what does not exist. test/deploy/deploytest
// runs it on alert rules and dashboards.
//
// It is a Go module of its own for the sake of one dependency: Prometheus' own
// parser, the only one that says of an expression what Prometheus will say.
// That module is large, and nothing of it may reach the product's go.mod. Of the
// parser itself only a few small packages are compiled.
//
// It reads a Question as JSON from standard input and writes the problems, a
// list of Problem, to standard output. It opens no file and no connection.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Question is what is asked.
type Question struct {
	// Scrapes are answers of /metrics in Prometheus' text format. A metric
	// exists if it is in any of them, and so does a label's value.
	Scrapes []string `json:"scrapes"`
	// TargetLabels are the labels that Prometheus adds to every series. They
	// may have any value.
	TargetLabels []string `json:"targetLabels"`
	// Others are metrics that Prometheus makes itself, with target labels only.
	Others []string `json:"others"`
	// Expressions are what is held against them.
	Expressions []Expression `json:"expressions"`
}

// Expression is one expression and what is made of its result.
type Expression struct {
	// Name says where it stands.
	Name string `json:"name"`
	Expr string `json:"expr"`
	// Labels are those that somebody reads from the result: an annotation, a
	// legend. Each must be there.
	Labels []string `json:"labels,omitempty"`
}

// Problem is what is wrong with one expression.
type Problem struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "promql: %v\n", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var q Question
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		return fmt.Errorf("reading the question: %w", err)
	}
	c, err := newCatalog(q)
	if err != nil {
		return err
	}
	problems := []Problem{}
	for _, e := range q.Expressions {
		for _, text := range check(c, e) {
			problems = append(problems, Problem{Name: e.Name, Text: text})
		}
	}
	return json.NewEncoder(out).Encode(problems)
}
