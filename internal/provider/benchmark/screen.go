package benchmark

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
)

// screen is the one line that tells how far the run is. What would not fit the
// terminal is cut: a line that wraps cannot be rewritten. That it cannot be
// written is no reason to end a run.
type screen struct {
	w           io.Writer
	width       int // columns of the terminal
	began       time.Time
	done, total int
	each        time.Duration // of a turn
}

// newScreen writes nowhere when w is nil, and 80 columns when width is 0.
func newScreen(w io.Writer, width int) *screen {
	if w == nil {
		w = io.Discard
	}
	return &screen{w: w, width: cmp.Or(width, 80)}
}

// plan says how long what follows will take: it is known before anything is
// measured.
func (s *screen) plan(total int, each time.Duration) {
	s.total, s.each = total, each
	s.line(fmt.Sprintf("warming up, then %v of measuring", whole(time.Duration(total)*each)))
}

// begin starts to count turns.
func (s *screen) begin() { s.began = time.Now() }

// turn says what is measured next.
func (s *screen) turn(next load.Cell) {
	each := s.each
	if s.done > 0 {
		each = time.Since(s.began) / time.Duration(s.done)
	}
	left := each * time.Duration(s.total-s.done)
	s.line(fmt.Sprintf("%d%%, %v left, %s", 100*s.done/s.total, whole(left), next))
	s.done++
}

// whole is d without fractions of a second, and never nothing.
func whole(d time.Duration) time.Duration { return max(d.Round(time.Second), time.Second) }

// line replaces the line by a text of ASCII. The last column stays empty: some
// terminals wrap when it is written.
func (s *screen) line(text string) {
	_, _ = fmt.Fprintf(s.w, "\r\x1b[K%s", text[:min(len(text), max(s.width-1, 0))])
}

// clear makes room for what follows.
func (s *screen) clear() { s.line("") }
