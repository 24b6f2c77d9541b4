package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/test/conformance/interpose"
	"github.com/baokms/baokms/test/stack"
)

// TestAnApplyThatIsRefused: while serve runs, and with a plan of a registry that
// has moved on. The files stay as they are.
func TestAnApplyThatIsRefused(t *testing.T) {
	t.Parallel()
	s := newStopped(t)
	if err := s.p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventuallyReady(t, s.p)
	locked := asks(t, s.p, 4, s.args...).check("state.lock")
	if locked.Reason != "state_locked" || !strings.Contains(locked.Message, fmt.Sprintf("process %d holds the lock", s.p.Pid())) || !strings.Contains(locked.NextStep, "stop the provider") {
		t.Errorf("while serve runs: %+v", locked)
	}
	if pairOf(t, s.p) != s.before {
		t.Error("the files were changed under the running provider")
	}
	if err := s.p.Stop(); err != nil {
		t.Fatal(err)
	}

	// Somebody else retires and restores meanwhile.
	asks(t, s.p, 0, s.args...)
	restore := []string{"restore-versions", "--versions", "1"}
	asks(t, s.p, 0, applyOf(plans(t, s.p, restore...), restore...)...)
	now := pairOf(t, s.p)
	stale := asks(t, s.p, 4, s.args...).check("plan.reviewed")
	if stale.Reason != "plan_stale" || !strings.Contains(stale.Message, registryOf(t, s.p).Hash) || !strings.Contains(stale.NextStep, "without --apply") {
		t.Errorf("a stale plan: %+v", stale)
	}
	if pairOf(t, s.p) != now {
		t.Error("a stale plan changed the files")
	}
}

// TestAnApplyOfAnotherPlan: with the reviewed outcome nothing else is saved, and
// without it nothing is told as applied already.
func TestAnApplyOfAnotherPlan(t *testing.T) {
	t.Parallel()
	s := newStopped(t)
	with := func(before, next string) []string {
		args := []string{"retire-versions", "--before-version", before, "--apply", "--expected-state-hash", s.plan.StateHash}
		if next != "" {
			args = append(args, "--expected-next-state-hash", next)
		}
		return args
	}
	another := asks(t, s.p, 4, with("2", "sha256:"+strings.Repeat("0", 64))...)
	if c := another.check("plan.outcome"); c.Reason != "plan_differs" || !strings.Contains(c.Message, s.plan.NextStateHash) || pairOf(t, s.p) != s.before {
		t.Errorf("an outcome that was not reviewed: %+v", c)
	}

	asks(t, s.p, 0, s.args...)
	done := pairOf(t, s.p)
	if again := asks(t, s.p, 0, s.args...).report; !again.Applied || again.StateHash != s.plan.NextStateHash {
		t.Errorf("the same again: %+v", again.Change)
	}
	idle := asks(t, s.p, 0, "retire-versions", "--before-version", "2", "--apply", "--expected-state-hash", s.plan.NextStateHash).report
	if idle.Applied || idle.StateHash != idle.NextStateHash {
		t.Errorf("nothing to do: %+v", idle.Change)
	}
	// Version 3 is above what is active: no plan could have had that bound.
	if c := asks(t, s.p, 4, with("3", s.plan.NextStateHash)...).check("plan.outcome"); c.Reason != "plan_differs" {
		t.Errorf("another bound than was reviewed: %+v", c)
	}
	for _, before := range []string{"2", "3"} {
		a := asks(t, s.p, 4, with(before, "")...)
		if c := a.check("plan.reviewed"); c.Reason != "plan_stale" || !strings.Contains(c.Message, "it follows directly from the reviewed one") || len(a.report.Next) > 0 {
			t.Errorf("before version %s, without the reviewed outcome: %+v, then %+v", before, c, a.report.Next)
		}
	}
	if pairOf(t, s.p) != done {
		t.Error("the files were changed")
	}
}

// TestAnApplyWithoutTheLockFile: somebody removes the lock file under the running
// provider, which leaves the lock to anybody.
func TestAnApplyWithoutTheLockFile(t *testing.T) {
	t.Parallel()
	s := newStopped(t)
	if err := s.p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventuallyReady(t, s.p)
	if err := os.Remove(s.p.Files.State + ".lock"); err != nil {
		t.Fatal(err)
	}
	if c := asks(t, s.p, 4, s.args...).check("state.lock"); c.Reason != "provider_running" || !strings.Contains(c.NextStep, "stop the provider") {
		t.Errorf("under the running provider: %+v", c)
	}
	if pairOf(t, s.p) != s.before {
		t.Error("the files were changed under the running provider")
	}
	if err := s.p.Stop(); err != nil {
		t.Fatal(err)
	}
	if a := asks(t, s.p, 0, s.args...); !a.report.Applied {
		t.Errorf("once it is stopped: %+v", a.report.Change)
	}
}

// TestAnApplyThatIsNotConfirmed: the save fails before the state file is written.
// A start goes on with the registry of before, which the error does not deny; the
// same command applies the plan.
func TestAnApplyThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	tr := transit(t)
	pair, err := tr.CA().Issue("proxy", stack.CertRequest{CommonName: "proxy", Hosts: []string{tr.ServerName()}})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := interpose.LoadCertificate(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	proxy := interpose.Start(t, interpose.Upstream{Address: tr.Address(), Roots: tr.CA().Pool(), ServerName: tr.ServerName(), Certificate: certificate})
	fields := maps.Clone(promotes)
	fields["openbao.address"] = proxy.Address()
	s := newStoppedOn(t, tr, fields)

	// With the first request the lock is held and the registry loaded; what then
	// stands where the temporary file belongs cannot be removed.
	blocker := s.p.Files.State + ".tmp"
	var asked atomic.Bool
	proxy.Observe(func(*http.Request, []byte) {
		if asked.CompareAndSwap(false, true) {
			if err := os.MkdirAll(filepath.Join(blocker, "full"), 0o700); err != nil {
				t.Error(err)
			}
		}
	})
	failed, err := operator(t.Context(), t, s.p, s.args...)
	if err != nil {
		t.Fatal(err)
	}
	if advice := "run the same command again until it exits with 0; if the provider is started instead, plan again to see which registry holds"; failed.code != 5 ||
		failed.stdout != "" || !strings.Contains(failed.stderr, advice) {
		t.Errorf("the apply ends with %d: %s", failed.code, failed.stderr)
	}
	if err := os.RemoveAll(blocker); err != nil {
		t.Fatal(err)
	}
	if err := s.p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventuallyReady(t, s.p)
	if err := s.p.Stop(); err != nil {
		t.Fatal(err)
	}
	if pairOf(t, s.p) != s.before {
		t.Error("a start does not go on with the registry of before")
	}
	if plan := plans(t, s.p, "retire-versions", "--before-version", "2"); !slices.Equal(plan.RemovedVersions, []int{1}) || plan.NextStateHash != s.plan.NextStateHash {
		t.Errorf("planned again: %+v", plan)
	}
	if a := asks(t, s.p, 0, s.args...); !a.report.Applied || a.check("state.saved").Result != command.Pass {
		t.Errorf("the same command: %+v", a.report.Change)
	}
}
