package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// lastLines is how many lines of a failed build are shown.
const lastLines = 30

// progress reads the output of `go build -v` as it comes: one line for each module downloaded and each package compiled, and the
// compiler's errors. It is safe for concurrent use.
type progress struct {
	mu         sync.Mutex
	partial    []byte
	downloaded int
	compiled   int
	tail       []string
}

// Write takes the next piece of output. It never fails.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = append(p.partial, b...)
	for {
		i := bytes.IndexByte(p.partial, '\n')
		if i < 0 {
			return len(b), nil
		}
		p.take(string(p.partial[:i]))
		p.partial = p.partial[i+1:]
	}
}

func (p *progress) take(line string) {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		p.downloaded++
		return
	case isPackage(line):
		p.compiled++
		return
	}
	p.tail = append(p.tail, line)
	if len(p.tail) > lastLines {
		p.tail = p.tail[1:]
	}
}

// isPackage tells a line that only names a package from a message.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " :\t#")
}

// last returns the end of the output without the lines that only told of progress.
func (p *progress) last() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.partial) > 0 {
		p.take(string(p.partial))
		p.partial = nil
	}
	return append([]string{}, p.tail...)
}

func (p *progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.compiled > 0:
		return fmt.Sprintf("compiled %d packages", p.compiled)
	case p.downloaded > 0:
		return fmt.Sprintf("downloaded %d modules", p.downloaded)
	default:
		return "looking up what is needed"
	}
}

// screen is where progress is shown: on a terminal one line moves, anywhere else a plain line comes every 30 seconds.
type screen struct {
	out   io.Writer
	every time.Duration
	moves bool
}

func newScreen(out *os.File) *screen {
	info, err := out.Stat()
	if err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != "" {
		return &screen{out: out, every: 200 * time.Millisecond, moves: true}
	}
	return &screen{out: out, every: 30 * time.Second}
}

func (s *screen) line(format string, args ...any) {
	fmt.Fprintf(s.out, format+"\n", args...)
}

// follow shows a build's progress until the function that it returns is called; that function waits for the last write.
func (s *screen) follow(name string, start time.Time, p *progress) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	if !s.moves {
		s.line("%-15s building", name)
	}
	go func() {
		defer close(ended)
		ticker := time.NewTicker(s.every)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				if s.moves {
					fmt.Fprint(s.out, "\r\x1b[K")
				}
				return
			case <-ticker.C:
				s.tick(name, time.Since(start), p)
			}
		}
	}()
	return func() { close(quit); <-ended }
}

func (s *screen) tick(name string, elapsed time.Duration, p *progress) {
	text := fmt.Sprintf("%-15s %4.0f s  %s", name, elapsed.Seconds(), p)
	if s.moves {
		fmt.Fprintf(s.out, "\r%s\x1b[K", text)
		return
	}
	s.line("%s", text)
}
