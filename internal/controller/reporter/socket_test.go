package reporter

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/report"
)

// TestSilence: whatever the socket does wrong has a reason to search for and a
// message with the next step, the same each time.
func TestSilence(t *testing.T) {
	raw := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	document := func(edit func(string) string) http.HandlerFunc {
		doc, err := report.Encode(healthy(t))
		if err != nil {
			t.Fatal(err)
		}
		return raw(http.StatusOK, edit(string(doc)))
	}
	stalled := make(chan struct{})
	t.Cleanup(func() { close(stalled) })
	cases := []struct {
		name, reason, words string
		answer              http.HandlerFunc
	}{
		{"not found", "UnexpectedAnswer", "HTTP status 404", raw(404, "{}")},
		{"server error", "UnexpectedAnswer", "HTTP status 500", raw(500, "{}")},
		{"redirect", "UnexpectedAnswer", "HTTP status 302", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}},
		{"empty", "MalformedReport", "not JSON at byte 0", raw(200, "")},
		{"a page", "MalformedReport", "not JSON at byte 1", raw(200, "<html></html>")},
		{"cut off", "MalformedReport", "not JSON", document(func(s string) string { return s[:len(s)/2] })},
		{"contradiction", "MalformedReport", "readiness.ready does not fit its reasons", document(func(s string) string {
			return strings.Replace(s, `"ready":true`, `"ready":false`, 1)
		})},
		{"too large", "MalformedReport", "larger than 1048576 bytes", raw(200, strings.Repeat(" ", report.MaxSize+1))},
		{"endless", "MalformedReport", "larger than 1048576 bytes", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}},
		{"newer version", "UnknownReportVersion", "update the manager first", document(func(s string) string {
			return strings.Replace(s, "report.baokms/v1", "report.baokms/v2", 1)
		})},
		{"newer field", "UnknownReportVersion", "update the manager first", document(func(s string) string {
			return strings.Replace(s, `"provider":{`, `"provider":{"shard":1,`, 1)
		})},
		{"another kind", "MalformedReport", "kind is not NodeReport", raw(200, `{"apiVersion":"report.baokms/v1","kind":"Problem"}`)},
		{"stalled before the answer", "Timeout", "did not answer", func(http.ResponseWriter, *http.Request) { <-stalled }},
		{"stalled in the answer", "Timeout", "did not answer", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("{"))
			w.(http.Flusher).Flush()
			<-stalled
		}},
		{"cut connection", "AnswerInterrupted", "complete HTTP answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"cut body", "AnswerInterrupted", "complete HTTP answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		}},
		{"large header", "AnswerInterrupted", "complete HTTP answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 2*headerSize))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newProvider(t, healthy(t))
			p.answers(c.answer)
			s := newSocket(p.path)
			s.client.Timeout = 2 * time.Second
			if c.reason == "Timeout" {
				s.client.Timeout = 50 * time.Millisecond
			}
			var last *silence
			for range 2 {
				got, none := s.report(t.Context())
				if got != nil || none == nil {
					t.Fatalf("told %+v, %+v", got, none)
				}
				if none.reason != c.reason || !strings.Contains(none.message, c.words) {
					t.Errorf("%s: %q, want %s: %q", none.reason, none.message, c.reason, c.words)
				}
				if last != nil && *last != *none {
					t.Errorf("the same failure is told as %+v and %+v", last, none)
				}
				last = none
			}
		})
	}
}

func TestSilenceWithoutListener(t *testing.T) {
	dir, err := os.MkdirTemp("", "bk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	check := func(got *silence, reason, words string) {
		t.Helper()
		if got == nil || got.reason != reason || !strings.Contains(got.message, words) || !strings.Contains(got.message, path) {
			t.Errorf("%+v, want %s: %q and the path", got, reason, words)
		}
	}
	_, none := newSocket(path).report(t.Context())
	check(none, "SocketMissing", "server.reportSocketPath")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, none = newSocket(path).report(t.Context())
	check(none, "NotListening", "has stopped")
	// Root may open everything, so the kernel cannot be asked for this one.
	check(newSocket(path).unanswered(fmt.Errorf("dial: %w", fs.ErrPermission)), "PermissionDenied", "group of the socket")
}

// TestStartingProvider: a provider without a registry answers 503, with a report.
func TestStartingProvider(t *testing.T) {
	p := newProvider(t, golden(t, "node-starting.json"))
	got, none := newSocket(p.path).report(t.Context())
	if none != nil || got.Registry != nil || got.Readiness.Ready || len(got.Readiness.Reasons) == 0 {
		t.Errorf("told %+v, %+v", got, none)
	}
}

// TestPlansFitTheirReport: an observation never pairs a report with the plan of
// another registry.
func TestPlansFitTheirReport(t *testing.T) {
	next := func(r *report.NodeReport, by uint64) {
		r.Registry.Generation += by
		r.Registry.StateHash = fmt.Sprintf("sha256:%064x", r.Registry.Generation)
	}
	cases := []struct {
		name string
		// moves is how often the registry moves between a report and its plan.
		moves   int
		reports int
		problem string
	}{
		{"still", 0, 1, ""},
		{"moves once", 1, 2, ""},
		{"moves twice", 2, 3, ""},
		{"never still", 99, 3, "registry_moved"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newProvider(t, healthy(t))
			left := c.moves
			p.planned = func(w http.ResponseWriter, before int) {
				if left > 0 {
					left--
					p.change(func(r *report.NodeReport) { next(r, 1) })
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				write(w, http.StatusOK, planOf(p.told, before))
			}
			o := newSocket(p.path).observe(t.Context(), func(*report.NodeReport) []int32 { return []int32{2} })
			if o.silence != nil || len(o.plans) != 1 || o.plans[0].BeforeVersion != 2 {
				t.Fatalf("observed %+v", o)
			}
			if n := p.count("/v1/report"); n != c.reports {
				t.Errorf("%d reports were asked for, want %d", n, c.reports)
			}
			got := o.plans[0]
			if c.problem != "" {
				if got.Plan != nil || got.Problem.Reason != c.problem {
					t.Errorf("entry %+v, want the problem %s", got, c.problem)
				}
				return
			}
			if got.Problem != nil || got.Plan.StateHash != o.report.Registry.StateHash {
				t.Errorf("plan %+v for the registry %+v", got.Plan, o.report.Registry)
			}
		})
	}
}

// TestObservedAt: a report is told as seen before it was asked for, and never later
// because its plans took long or because it was asked for again.
func TestObservedAt(t *testing.T) {
	for _, moves := range []int{0, 1} {
		p := newProvider(t, healthy(t))
		left := moves
		p.planned = func(w http.ResponseWriter, before int) {
			if left > 0 {
				left--
				p.change(func(r *report.NodeReport) { r.Registry.StateHash = fmt.Sprintf("sha256:%064x", 1) })
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			write(w, http.StatusOK, planOf(p.told, before))
		}
		// received is when each report had been received.
		received := []time.Time{time.Now()}
		o := newSocket(p.path).observe(t.Context(), func(*report.NodeReport) []int32 {
			received = append(received, time.Now())
			return []int32{2, 3}
		})
		last := len(received) - 1
		if o.silence != nil || len(o.plans) != 2 || last != moves+1 {
			t.Fatalf("observed %+v after %d reports", o, last)
		}
		if o.at.After(received[last]) || o.at.Before(received[last-1]) {
			t.Errorf("of %d reports the last is told as seen %s after it was received, the one before it was %s earlier",
				last, o.at.Sub(received[last]), received[last].Sub(received[last-1]))
		}
	}
}

// TestPlanAnswers: what is wrong with one plan is told in its entry and nowhere else.
func TestPlanAnswers(t *testing.T) {
	refusal := &report.Problem{APIVersion: report.APIVersion, Kind: report.KindProblem, Reason: "rotation_pending", Message: "version 3 is pending", NextStep: "wait"}
	stalled := make(chan struct{})
	t.Cleanup(func() { close(stalled) })
	cases := []struct {
		name, reason, words string
		planned             func(p *provider, w http.ResponseWriter, before int)
		asked               int
	}{
		{"refused", "rotation_pending", "version 3 is pending", func(_ *provider, w http.ResponseWriter, _ int) { write(w, http.StatusConflict, refusal) }, 2},
		{"malformed", "plan_unanswered", "not JSON", func(_ *provider, w http.ResponseWriter, _ int) { _, _ = w.Write([]byte("<")) }, 2},
		{"of another version", "plan_unanswered", "of another version", func(p *provider, w http.ResponseWriter, before int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			write(w, http.StatusOK, planOf(p.told, before+1))
		}, 2},
		// Only the first of several is waited for.
		{"stalled", "plan_unanswered", "did not answer", func(*provider, http.ResponseWriter, int) { <-stalled }, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newProvider(t, healthy(t))
			p.planned = func(w http.ResponseWriter, before int) { c.planned(p, w, before) }
			s := newSocket(p.path)
			s.client.Timeout = 2 * time.Second
			if c.name == "stalled" {
				s.client.Timeout = 200 * time.Millisecond
			}
			o := s.observe(t.Context(), func(*report.NodeReport) []int32 { return []int32{2, 3} })
			if o.silence != nil || o.report == nil || len(o.plans) != 2 {
				t.Fatalf("observed %+v", o)
			}
			for i, entry := range o.plans {
				if entry.BeforeVersion != int32(i+2) || entry.Plan != nil || entry.Problem.Reason != c.reason || !strings.Contains(entry.Problem.Message, c.words) {
					t.Errorf("entry %+v, want %s: %q", entry, c.reason, c.words)
				}
				if _, err := report.Encode(entry.Problem); err != nil {
					t.Error(err)
				}
			}
			if n := p.count("/v1/retirement-plan?before-version=2") + p.count("/v1/retirement-plan?before-version=3"); n != c.asked {
				t.Errorf("%d plans were asked for, want %d", n, c.asked)
			}
		})
	}
}
