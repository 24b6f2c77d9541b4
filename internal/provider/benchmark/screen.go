package benchmark

import (
	"fmt"
	"io"
	"time"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
)

// screen is the one line that tells how far the run is. It fits 80 columns. That
// it cannot be written is no reason to end a run.
type screen struct {
	w           io.Writer
	began       time.Time
	done, total int
}

func newScreen(w io.Writer) *screen {
	if w == nil {
		w = io.Discard
	}
	return &screen{w: w}
}

// begin starts to count turns.
func (s *screen) begin(total int) { s.began, s.total = time.Now(), total }

// turn says what is measured next.
func (s *screen) turn(next load.Cell) {
	text := fmt.Sprintf("%d%%, %s", 100*s.done/s.total, next)
	if s.done > 0 {
		left := time.Since(s.began) / time.Duration(s.done) * time.Duration(s.total-s.done)
		text += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	s.line(text)
	s.done++
}

// line replaces the line.
func (s *screen) line(text string) { _, _ = fmt.Fprintf(s.w, "\r\x1b[K%s", text) }

// clear makes room for what follows.
func (s *screen) clear() { s.line("") }
