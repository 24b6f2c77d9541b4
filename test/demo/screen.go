package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// The rules of this screen:
//
//   - one step, one line: what happens, in the present tense, and how long it
//     took;
//   - what a step shows is indented below it, cut to the terminal's 80 columns;
//   - colour only on a terminal and never with NO_COLOR; without it the text
//     says the same;
//   - nothing moves, so that a copy of the output reads like the screen.
type screen struct {
	w      io.Writer
	colour bool
	number int
}

const width = 80

func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{w: f, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s *screen) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) bold(t string) string  { return s.paint("1", t) }
func (s *screen) dim(t string) string   { return s.paint("2", t) }
func (s *screen) green(t string) string { return s.paint("32", t) }

// title opens the demo or one of its parts.
func (s *screen) title(text string) { fmt.Fprintf(s.w, "\n%s\n\n", s.bold(text)) }

// step runs one step and prints its line when it is done.
func (s *screen) step(text string, do func() error) error {
	s.number++
	began := time.Now()
	err := do()
	mark := s.green("✓")
	if err != nil {
		mark = s.paint("31", "✗")
	}
	took := fmt.Sprintf("%.1fs", time.Since(began).Seconds())
	fmt.Fprintf(s.w, " %s %2d  %-62s %s\n", mark, s.number, text, s.dim(fmt.Sprintf("%8s", took)))
	return err
}

// show prints a name and a value below a step.
func (s *screen) show(name, value string) {
	const indent = 7
	if room := width - indent - 16; len(value) > room {
		value = value[:room-1] + "…"
	}
	fmt.Fprintf(s.w, "%s%s %s\n", strings.Repeat(" ", indent), s.dim(fmt.Sprintf("%-14s", name)), value)
}

// say prints a sentence below a step.
func (s *screen) say(format string, args ...any) {
	fmt.Fprintf(s.w, "       %s\n", fmt.Sprintf(format, args...))
}

// table shows the one row that kubectl get printed, without the name and the age, for
// which there is no room.
func (s *screen) table(printed string) {
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	from, to := strings.Index(lines[0], "PHASE"), strings.Index(lines[0], "AGE")
	for i, line := range lines {
		if 0 <= from && from < to && to <= len(line) {
			line = line[from:to]
		}
		if line = strings.TrimRight(line, " "); i == 0 {
			line = s.dim(line)
		}
		fmt.Fprintf(s.w, "       %s\n", line)
	}
}

// quote shows what a command printed, as it looks on a terminal of 80 columns.
func (s *screen) quote(out string) { fmt.Fprintf(s.w, "\n%s\n\n", strings.TrimSpace(out)) }
