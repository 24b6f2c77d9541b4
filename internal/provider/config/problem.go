package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration. It holds no value
// from the file.
type Problem struct {
	// Field is the full path of the field ("auth.jwt.role"), or what else is
	// concerned: "the file".
	Field string
	// Line is the line in the file, 0 when the field is not in it.
	Line int
	// Text continues a sentence that begins with the field.
	Text string
	// Fix is what to write.
	Fix string
	// Unknown: the file has a field of this name and there is none. The name is the
	// file's own then, so that where others will read it only the line may be told.
	Unknown bool
}

func (p Problem) String() string {
	s := p.Field + " " + p.Text
	if p.Line > 0 {
		s = fmt.Sprintf("line %d: %s", p.Line, s)
	}
	if p.Fix != "" {
		s += "; " + p.Fix
	}
	return s
}

// Error says why a configuration was refused.
type Error struct {
	// File is the path that was loaded, empty when Parse was called.
	File string
	// Problems are all that were found, in the order of the file; fields that
	// are not in it come last. Empty when the file could not be read.
	Problems []Problem
	// Err is why the file could not be read, usually a *securefile.Error.
	Err error
}

// Error has one line, or one line and then one more for each problem.
func (e *Error) Error() string { return strings.Join(e.Lines(), "\n") }

// Lines is Error as lines for a terminal.
func (e *Error) Lines() []string {
	if e.Err != nil {
		return []string{e.Err.Error()}
	}
	name := "the configuration"
	if e.File != "" {
		name = "configuration file " + e.File
	}
	head := fmt.Sprintf("%s has %d problems:", name, len(e.Problems))
	if len(e.Problems) == 1 {
		head = name + " has a problem:"
	}
	lines := []string{head}
	for _, p := range e.Problems {
		lines = append(lines, "  "+p.String())
	}
	return lines
}

// Unwrap returns the reason why the file could not be read.
func (e *Error) Unwrap() error { return e.Err }

// report collects what is wrong while a configuration is read. Its zero value
// is ready.
type report struct {
	problems []Problem
	lines    map[string]int  // line of every known field that the file has
	bad      map[string]bool // fields that already have a problem
}

func (r *report) add(field string, line int, text, fix string) {
	r.problems = append(r.problems, Problem{Field: field, Line: line, Text: text, Fix: fix})
	if r.bad == nil {
		r.bad = map[string]bool{}
	}
	r.bad[field] = true
}

// at is add for a field whose line is known from the file, if it is there.
func (r *report) at(field, text, fix string) { r.add(field, r.lines[field], text, fix) }

// found notes where the file has a field.
func (r *report) found(field string, line int) {
	if r.lines == nil {
		r.lines = map[string]int{}
	}
	r.lines[field] = line
}

// has tells whether the file has a field.
func (r *report) has(field string) bool { return r.lines[field] > 0 }

// sound tells whether none of the fields, nor a section around one, has a
// problem yet. Rules between fields judge only sound ones, so that one mistake
// is reported once.
func (r *report) sound(fields ...string) bool {
	for _, f := range fields {
		for {
			if r.bad[f] {
				return false
			}
			dot := strings.LastIndexByte(f, '.')
			if dot < 0 {
				break
			}
			f = f[:dot]
		}
	}
	return true
}

// err is nil, or everything that was reported in the order of the file.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(order(a), order(b)) })
	return &Error{Problems: r.problems}
}

func order(p Problem) int {
	if p.Line == 0 {
		return math.MaxInt
	}
	return p.Line
}
