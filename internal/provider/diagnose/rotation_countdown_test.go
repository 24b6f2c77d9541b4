package diagnose

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/observe"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/report"
)

// view is a provider's that never changes.
type view struct{ v *status.View }

func (v view) Load() *status.View { return v.v }

// reportSocket serves handler on a Unix socket and returns its path.
func reportSocket(t *testing.T, handler http.Handler) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bk") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "report.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return path
}

// provides is what a provider says that serves a registry and promotes at a
// moment, zero for none that it knows.
func provides(s *story, r *registry.Registry, at time.Time) http.Handler {
	return observe.ReportHandler(observe.ReportOptions{
		Views: view{status.New(status.Facts{
			Registry: r, Rules: s.rules(), PromotionAt: at, MaxStaleness: time.Minute,
			Metadata: status.Metadata{ValidatedAt: time.Now(), ProbedAt: time.Now()},
		})},
		ProviderName: s.config.Transit.KeyIDScope.ProviderName, Version: "v1.0.0", Fingerprint: s.config.Fingerprint(),
	})
}

func answer(code int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	})
}

// Only the running provider knows the moment, and only what it says of exactly
// the registry that the files hold is told.
func TestTheMomentComesFromTheRunningProvider(t *testing.T) {
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	for name, c := range map[string]struct {
		handler func(*story) http.Handler
		moment  command.Time
		when    string
	}{
		"counting": {func(s *story) http.Handler { return provides(s, s.registry, soon) }, command.At(soon),
			"with the first good metadata probe from " + string(command.At(soon)) + " on, within 30s of it"},
		"ended": {func(s *story) http.Handler { return provides(s, s.registry, soon.Add(-2*time.Hour)) }, command.At(soon.Add(-2 * time.Hour)),
			"with the next good metadata probe, within 30s: the delay has ended"},
		"not begun": {func(s *story) http.Handler { return provides(s, s.registry, time.Time{}) }, "",
			"at the earliest 2m after the next good metadata probe, which begins the delay"},
		"other generation": {func(s *story) http.Handler {
			r := s.registry
			s.rotate(3).probe(1)
			later := s.registry
			s.rotate(2).registry = r
			return provides(s, later, soon)
		}, "", "holds another generation"},
		"no registry":  {func(s *story) http.Handler { return provides(s, nil, time.Time{}) }, "", "no usable answer"},
		"no report":    {func(*story) http.Handler { return answer(200, "CANARY") }, "", "no usable answer"},
		"an error":     {func(*story) http.Handler { return answer(500, "CANARY") }, "", "no usable answer"},
		"a redirect":   {func(*story) http.Handler { return http.RedirectHandler("/v1/report/", http.StatusFound) }, "", "no usable answer"},
		"far too long": {func(*story) http.Handler { return answer(200, strings.Repeat(" ", 2*report.MaxSize)) }, "", "no usable answer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t).rotate(2).probe(3)
			s.now = time.Now
			s.config.Server.ReportSocketPath = reportSocket(t, c.handler(s))
			r := s.rotationReport(t.Context(), checked(planChecks)).Rotation
			last := r.Ahead[0]
			if r.Pending == nil || !r.Pending.Stable || r.Pending.EstimatedPromotion != c.moment {
				t.Errorf("pending is %+v, want the moment %q", r.Pending, c.moment)
			}
			if !strings.Contains(last.What, "version 2 becomes active") || !strings.Contains(last.When, c.when) || strings.Contains(last.When, "CANARY") {
				t.Errorf("ahead is %+v, want %q", last, c.when)
			}
		})
	}
}

// A report socket that says nothing holds nobody up for long.
func TestASilentReportSocketIsGivenUp(t *testing.T) {
	ended := make(chan struct{})
	path := reportSocket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done(); close(ended) }))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if c := askCountdown(ctx, path, "sha256:x"); c.asked || !strings.Contains(c.instead, "no usable answer") {
		t.Errorf("the countdown is %+v", c)
	}
	<-ended
	if c := askCountdown(t.Context(), filepath.Join(t.TempDir(), "none.sock"), "sha256:x"); c.asked || c.instead == "" {
		t.Errorf("the countdown is %+v", c)
	}
}

// Nobody is asked where the answer could say nothing.
func TestTheReportSocketIsAskedOnlyForACountdown(t *testing.T) {
	for name, node := range map[string]func(*story){
		"nothing pending":  func(*story) {},
		"not stable":       func(s *story) { s.rotate(2).probe(2) },
		"provider stopped": func(s *story) { s.rotate(2).probe(3).running = nil },
		"fresh":            func(s *story) { s.fresh = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			node(s)
			s.config.Server.ReportSocketPath = reportSocket(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				t.Error("the report socket was asked")
			}))
			s.rotationReport(t.Context(), checked(planChecks))
		})
	}
}
