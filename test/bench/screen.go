package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// screen tells how far the run is. On a terminal that is one line that moves; elsewhere each phase is a line of its own and nothing moves.
type screen struct {
	w        *os.File
	terminal bool
	began    time.Time
}

func newScreen(w *os.File) *screen {
	return &screen{w: w, terminal: term.IsTerminal(int(w.Fd())) && os.Getenv("TERM") != "dumb"}
}

// phase says what is being done from now on.
func (s *screen) phase(text string) {
	s.began = time.Now()
	if s.terminal {
		s.line(text)
		return
	}
	fmt.Fprintln(s.w, text)
}

// progress says that done of total turns of the phase are over and what comes next.
func (s *screen) progress(done, total int, next string) {
	if s.terminal {
		s.line(progressText(done, total, time.Since(s.began), next))
	}
}

// progressText fits 80 columns for every lane's name.
func progressText(done, total int, passed time.Duration, next string) string {
	text := fmt.Sprintf("measuring %3d %%, %s", 100*done/total, next)
	if done > 0 {
		left := passed / time.Duration(done) * time.Duration(total-done)
		text += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	return text
}

// line replaces the line on the terminal.
func (s *screen) line(text string) { fmt.Fprintf(s.w, "\r\x1b[K%s", text) }

// clear makes room for what follows.
func (s *screen) clear() {
	if s.terminal {
		s.line("")
	}
}
