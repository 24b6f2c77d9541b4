package stack

import (
	"strings"
	"sync"
)

// tail is a writer that keeps the last bytes written to it, at most limit. It is safe for concurrent use.
type tail struct {
	mu    sync.Mutex
	limit int
	kept  []byte
}

func newTail(limit int) *tail { return &tail{limit: limit} }

// Write never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	// Cut at twice the limit, so that each byte is moved once and not with every write.
	if len(t.kept) > 2*t.limit {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-t.limit:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept[max(0, len(t.kept)-t.limit):])
}

// lastLines is the last n lines of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
