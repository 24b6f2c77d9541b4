package setup

import (
	"fmt"
	"strings"
)

// Problem is what is wrong with one flag. It never holds the flag's value.
type Problem struct {
	// Flag is the flag's name without dashes.
	Flag string
	// Text continues a sentence that begins with the flag.
	Text string
	// Fix is what to write.
	Fix string
}

func (p Problem) String() string {
	s := "--" + p.Flag + " " + p.Text
	if p.Fix != "" {
		s += "; " + p.Fix
	}
	return s
}

// FlagError lists everything that is wrong with the flags, in the order of
// Options.Flags. Nothing has been written. It is an error of usage.
type FlagError struct {
	Problems []Problem
}

// Error has one line, or one line and then one more for each problem.
func (e *FlagError) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the flags have %d problems:", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// problems collects what is wrong: at most one problem for each flag, since the
// second is usually a consequence of the first.
type problems map[string]Problem

func (p problems) add(flag, text, fix string) {
	if _, known := p[flag]; !known {
		p[flag] = Problem{flag, text, fix}
	}
}

// err is nil, or everything in the order of the flags.
func (p problems) err(flags []Flag) error {
	if len(p) == 0 {
		return nil
	}
	var e FlagError
	for _, f := range flags {
		if one, wrong := p[f.Name]; wrong {
			e.Problems = append(e.Problems, one)
		}
	}
	return &e
}
