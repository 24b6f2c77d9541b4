package command

import (
	"bytes"
	"encoding/json"
	"io"
)

// WriteJSON writes a report for a machine: one object, indented, with its fields
// in the order of the types, and a newline at its end. It does not change r.
func WriteJSON(w io.Writer, r *Report) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // it is no part of a web page, and "<" is easier to read
	enc.SetIndent("", "  ")
	if err := enc.Encode(withLists(*r)); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// withLists is a copy of r in which the lists that are never null are empty
// where they were nil.
func withLists(r Report) Report {
	if r.Registry != nil && r.Registry.Snapshots == nil {
		c := *r.Registry
		c.Snapshots = []Snapshot{}
		r.Registry = &c
	}
	if r.Transit != nil && r.Transit.Versions == nil {
		c := *r.Transit
		c.Versions = []TransitVersion{}
		r.Transit = &c
	}
	if r.Benchmark != nil && r.Benchmark.Rows == nil {
		c := *r.Benchmark
		c.Rows = []BenchmarkRow{}
		r.Benchmark = &c
	}
	return r
}
