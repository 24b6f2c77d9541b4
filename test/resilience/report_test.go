package resilience

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// report prints a line for each phase and each method, and the notes. A call belongs to the phase in which it ended.
func (w *world) report() {
	w.t.Helper()
	var text strings.Builder
	calls := w.load.done()
	for i, p := range w.phases[:len(w.phases)-1] {
		next := w.phases[i+1]
		s := next.served.minus(p.served)
		fmt.Fprintf(&text, "\n%-22s %8s  reached the server: %d logins, %d renewals, %d encrypts, %d decrypts, %d reads; sent %d; Status %s",
			p.name, next.began.Sub(p.began).Round(100*time.Millisecond), s.logins, s.renewals, s.encrypts, s.decrypts, s.reads,
			next.sent-p.sent, w.statusWords(p.began, next.began))
		for _, m := range []method{encrypt, decrypt} {
			fmt.Fprintf(&text, "\n    %s", summary(m, calls, p.began, next.began))
		}
	}
	longest, asked := time.Duration(0), 0
	w.load.mu.Lock()
	for _, s := range w.load.statuses {
		longest, asked = max(longest, s.took), asked+1
	}
	w.load.mu.Unlock()
	w.note("Status was asked %d times, longest %v", asked, short(longest))
	for _, n := range w.notes {
		fmt.Fprintf(&text, "\n  %s", n)
	}
	w.t.Log(text.String())
}

// summary is one method's calls that ended between two moments: how many with which code, and the longest.
func summary(m method, calls []call, from, to time.Time) string {
	counts := map[codes.Code]int{}
	var longest call
	for _, c := range calls {
		if c.method != m || c.ended.Before(from) || !c.ended.Before(to) {
			continue
		}
		counts[c.code]++
		if c.ended.Sub(c.began) >= longest.ended.Sub(longest.began) {
			longest = c
		}
	}
	var words []string
	for code, n := range counts {
		words = append(words, fmt.Sprintf("%v %d", code, n))
	}
	slices.Sort(words)
	if len(words) == 0 {
		return fmt.Sprintf("%s: no call", m)
	}
	return fmt.Sprintf("%s: %s; longest %s of %s", m, strings.Join(words, ", "), short(longest.ended.Sub(longest.began)), longest.deadline)
}

// statusWords are the different answers of Status between two moments, in order.
func (w *world) statusWords(from, to time.Time) string {
	w.load.mu.Lock()
	defer w.load.mu.Unlock()
	var words []string
	for _, s := range w.load.statuses {
		if s.ended.Before(from) || !s.ended.Before(to) {
			continue
		}
		word := s.healthz
		if s.err != nil {
			word = "failed"
		}
		if len(words) == 0 || words[len(words)-1] != word {
			words = append(words, word)
		}
	}
	return strings.Join(words, " → ")
}
