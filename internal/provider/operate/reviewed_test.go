package operate

import (
	"net"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/registry"
)

// mustRefuse: the plan is not that of the registry, in these words.
func (w *world) mustRefuse(j job, words ...string) {
	w.t.Helper()
	r := w.mustRun(j, "state.lock pass", "plan.reviewed plan_stale")
	for _, word := range words {
		if c := r.Checks[1]; !strings.Contains(c.Message+"; "+c.NextStep, word) {
			w.t.Errorf("check %+v, want %q", c, word)
		}
	}
	if r.Change != nil || len(r.Next) > 0 {
		w.t.Errorf("refused, and yet change %+v, next %+v", r.Change, r.Next)
	}
}

// TestNotWhatWasReviewed: with the reviewed outcome nothing else is saved, and
// nothing else is told as applied; nor does a next step go further than what this
// node holds.
func TestNotWhatWasReviewed(t *testing.T) {
	differs := []string{"state.lock pass", "plan.outcome plan_differs"}
	differsLater := []string{"state.lock pass", "plan.reviewed pass", "retirement.allowed pass", "plan.outcome plan_differs"}
	stale := []string{"state.lock pass", "plan.reviewed plan_stale"}
	type registries struct{ first, below2, below3, restored *registry.Registry }
	cases := []struct {
		name   string
		holds  func(r registries) *registry.Registry
		job    func(w *world, r registries) job
		checks []string
		words  string
	}{
		{"another bound", func(r registries) *registry.Registry { return r.first },
			func(w *world, r registries) job { return w.retirement(3, to(r.first, r.below2)) }, differsLater, "see whether --before-version and both hashes are those of the reviewed plan"},
		{"a change was reviewed, and there is none", func(r registries) *registry.Registry { return r.below3 },
			func(w *world, r registries) job { return w.retirement(3, to(r.below3, r.restored)) }, differsLater, "generation 6"},
		{"applied with another bound", func(r registries) *registry.Registry { return r.below2 },
			func(w *world, r registries) job { return w.retirement(3, to(r.first, r.below2)) }, differs, "not what this command asks for"},
		{"applied with a bound that nothing can have", func(r registries) *registry.Registry { return r.below3 },
			func(w *world, r registries) job { return w.retirement(4, to(r.first, r.below3)) }, differs, "not what this command asks for"},
		{"the same without the outcome", func(r registries) *registry.Registry { return r.below3 },
			func(w *world, r registries) job { return w.retirement(4, from(r.first)) }, stale, "it follows directly"},
		{"restored other versions", func(r registries) *registry.Registry { return r.restored },
			func(w *world, r registries) job { return w.restoration([]int{1, 2}, to(r.below3, r.restored)) }, differs, "see whether --versions and both hashes"},
		{"restored what does not exist", func(r registries) *registry.Registry { return r.restored },
			func(w *world, r registries) job { return w.restoration([]int{9}, to(r.below3, r.restored)) }, differs, ""},
		{"restored nothing", func(r registries) *registry.Registry { return r.restored },
			func(w *world, r registries) job { return w.restoration(nil, to(r.below3, r.restored)) }, differs, ""},
		{"the outcome of another registry's plan", func(r registries) *registry.Registry { return r.restored },
			func(w *world, r registries) job { return w.restoration([]int{1}, to(r.first, r.restored)) }, stale, "it is at generation 7 now"},
		{"a successor that was not reviewed", func(r registries) *registry.Registry { return r.below3 },
			func(w *world, r registries) job { return w.retirement(2, to(r.first, r.below2)) }, stale, "have that plan reviewed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			r := registries{first: w.rotated(3)}
			r.below2 = w.earlier(r.first.Retire(w.md, rules, 2))
			r.below3 = w.earlier(r.first.Retire(w.md, rules, 3))
			r.restored = w.earlier(r.below3.Restore(w.md, rules, []int{1}))
			w.put(c.holds(r))
			before := w.content()
			report := w.mustRun(c.job(w, r), c.checks...)
			last := report.Checks[len(report.Checks)-1]
			if !strings.Contains(last.Message+"; "+last.NextStep, c.words) || report.Result != command.Fail || report.Change != nil || len(report.Next) > 0 {
				t.Errorf("change %+v, next %+v, last check %+v; want %q", report.Change, report.Next, last, c.words)
			}
			if c.checks[1] == stale[1] && strings.Contains(last.Message, "follows directly") != (c.words == "it follows directly") {
				t.Errorf("the check says %q", last.Message)
			}
			w.untouched(before)
		})
	}
}

// TestProviderRuns: the lock is free, as when its file was removed, and the socket
// is served.
func TestProviderRuns(t *testing.T) {
	w := newWorld(t)
	first := w.rotated(2)
	path := w.config.Server.SocketPath
	listener, err := net.Listen("unix", path)
	w.must(err)
	server := grpc.NewServer() // answers, if only that it has no Status
	go server.Serve(listener)
	defer server.Stop()
	before := w.content()
	c := w.mustRun(w.retirement(2, from(first)), "state.lock provider_running").Checks[0]
	if !strings.Contains(c.Message, "a process serves server.socketPath without the lock") || !strings.Contains(c.NextStep, "stop the provider on this node first") {
		t.Errorf("check %+v", c)
	}
	w.untouched(before)
	server.Stop()

	// A path that cannot be dialled proves nothing.
	w.must(os.Symlink(path, path))
	w.mustRun(w.retirement(2, from(first)), "state.lock socket_access_denied")
	w.untouched(before)
	w.must(os.Remove(path))

	// A socket that nobody serves is what a killed provider leaves.
	stale, err := net.Listen("unix", path)
	w.must(err)
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	w.must(stale.Close())
	w.mustRun(w.retirement(2, from(first)), saves...)
}
