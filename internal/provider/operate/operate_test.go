package operate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/diagnose"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/store"
)

// wantChange holds a report's change against the registries before and after.
func wantChange(t *testing.T, r *command.Report, applied bool, before, after *registry.Registry, versions []int) {
	t.Helper()
	if r.Result != command.Pass || r.Change == nil {
		t.Fatalf("result %s, change %+v", r.Result, r.Change)
	}
	c := r.Change
	named := c.RemovedVersions
	if r.Kind == command.KindRestoration {
		named = c.RestoredVersions
	}
	if c.Applied != applied || !slices.Equal(named, versions) || named == nil || c.StateHash != before.Hash() ||
		c.NextStateHash != after.Hash() || c.NextGeneration != after.Generation() || c.ActiveKeyIDHash != after.Active().Binding.KeyIDHash() {
		t.Errorf("change %+v, want versions %v, from %s to generation %d, %s", c, versions, before.Hash(), after.Generation(), after.Hash())
	}
	if len(r.Next) == 0 || !slices.Equal(r.Next[0].Commands, []string{"systemctl start bao-kms-provider"}) {
		t.Errorf("the first step is not to start the provider: %+v", r.Next)
	}
}

// The checks of an apply that saves, without a reviewed outcome and with one, and
// of one that is done already.
var (
	saves        = []string{"state.lock pass", "plan.reviewed pass", "retirement.allowed pass", "state.saved pass"}
	savesExactly = []string{"state.lock pass", "plan.reviewed pass", "retirement.allowed pass", "plan.outcome pass", "state.saved pass"}
	doneAlready  = []string{"state.lock pass", "plan.reviewed pass"}
)

// TestRetireAndRestore: what was planned is what the files hold afterwards, and
// asking again changes nothing.
func TestRetireAndRestore(t *testing.T) {
	for _, exact := range []bool{false, true} {
		t.Run(fmt.Sprintf("with the reviewed outcome %v", exact), func(t *testing.T) {
			w := newWorld(t)
			first := w.rotated(3)
			want, _, err := first.Retire(w.md, rules, 3)
			w.must(err)
			reviewed, checks := from(first), saves
			if exact {
				reviewed, checks = to(first, want), savesExactly
			}
			report := w.mustRun(w.retirement(3, reviewed), checks...)
			wantChange(t, report, true, first, want, []int{1, 2})
			if report.Kind != command.KindRetirement || report.Change.BeforeVersion != 3 || report.Provider.Fingerprint != w.config.Fingerprint() {
				t.Errorf("report %+v", report)
			}
			if got := w.saved(); got.Hash() != want.Hash() {
				t.Fatalf("the files hold %s, want %s", got.Hash(), want.Hash())
			}
			if last := report.Checks[len(report.Checks)-1]; !strings.Contains(last.Message, want.Hash()) {
				t.Errorf("the new hash is not told: %q", last.Message)
			}

			// The same command again.
			files, plans := w.content(), w.planned
			if exact {
				wantChange(t, w.mustRun(w.retirement(3, reviewed), doneAlready...), true, want, want, nil)
			} else {
				w.mustRefuse(w.retirement(3, reviewed), "it follows directly from the reviewed one", "if so, it says that there is nothing to do")
			}
			if w.planned != plans {
				t.Error("OpenBao was asked for a plan that is applied already")
			}
			// A plan of the registry as it is now has nothing to do, and so has its apply.
			wantChange(t, w.mustRun(w.retirement(3, from(want)), "state.lock pass", "plan.reviewed pass", "retirement.allowed pass"), false, want, want, nil)
			wantChange(t, w.mustRun(w.retirement(3, to(want, want)), "state.lock pass", "plan.reviewed pass", "retirement.allowed pass", "plan.outcome pass"), false, want, want, nil)
			w.untouched(files)

			back, _, err := want.Restore(w.md, rules, []int{1})
			w.must(err)
			reviewed, checks = from(want), []string{"state.lock pass", "plan.reviewed pass", "restoration.allowed pass", "state.saved pass"}
			if exact {
				reviewed, checks = to(want, back), []string{"state.lock pass", "plan.reviewed pass", "restoration.allowed pass", "plan.outcome pass", "state.saved pass"}
			}
			wantChange(t, w.mustRun(w.restoration([]int{1}, reviewed), checks...), true, want, back, []int{1})
			if got := w.saved(); got.Hash() != back.Hash() {
				t.Fatalf("the files hold %s, want %s", got.Hash(), back.Hash())
			}
			files = w.content()
			if exact {
				wantChange(t, w.mustRun(w.restoration([]int{1}, reviewed), doneAlready...), true, back, back, nil)
			} else {
				w.mustRefuse(w.restoration([]int{1}, reviewed), "it follows directly from the reviewed one", "if so, it says of the versions that they are no removed records")
			}
			w.untouched(files)
		})
	}
}

// TestRecovery: OpenBao's minimum is already past what goes.
func TestRecovery(t *testing.T) {
	w := newWorld(t)
	first := w.rotated(3)
	w.md = metadata(4, 3) // and a rotation that this node could not see
	want, _, err := first.Retire(w.md, rules, 3)
	w.must(err)
	wantChange(t, w.mustRun(w.retirement(3, to(first, want)), savesExactly...),
		true, first, want, []int{1, 2})
	if err := w.saved().Validate(w.md, true); err != nil {
		t.Errorf("the recovered registry does not validate: %v", err)
	}
}

// TestRefused: nothing is written, and the report says why.
func TestRefused(t *testing.T) {
	hash := Reviewed{StateHash: "sha256:" + strings.Repeat("0", 64)}
	cases := []struct {
		name     string
		arrange  func(w *world)
		expected Reviewed // its zero value is the registry's
		checks   []string
		words    string
	}{
		{"stale", nil, hash, []string{"state.lock pass", "plan.reviewed plan_stale"}, "it is at generation 5 now, with the state hash sha256:"},
		{"malformed", nil, Reviewed{StateHash: "sha256:12"}, []string{"state.lock pass", "plan.reviewed state_hash_malformed"}, "64 lower-case hex digits"},
		{"upper case", nil, Reviewed{hash.StateHash, "sha256:" + strings.Repeat("A", 64)}, []string{"state.lock pass", "plan.reviewed state_hash_malformed"}, "nextStateHash of the reviewed plan"},
		{"a guard", func(w *world) { w.md = metadata(4, 0) }, Reviewed{}, []string{"state.lock pass", "plan.reviewed pass", "retirement.allowed refused"}, "active_not_latest"},
		{"older state", func(w *world) {
			old := w.content()
			w.must(w.advance())
			w.must(os.WriteFile(w.config.State.Path, []byte(old["registry.json"]), 0o600))
		}, hash, []string{"state.lock pass", "registry.state state_unavailable"}, "the state file is an older copy"},
		{"damaged checkpoint", func(w *world) {
			w.must(os.WriteFile(w.config.State.Path+".checkpoint", []byte("{"), 0o600))
		}, hash, []string{"state.lock pass", "registry.state state_unavailable"}, "the checkpoint is not a complete"},
		{"state that is a link", func(w *world) {
			w.must(os.Rename(w.config.State.Path, w.config.State.Path+".real"))
			w.must(os.Symlink(w.config.State.Path+".real", w.config.State.Path))
		}, hash, []string{"state.lock pass", "registry.state state_unavailable"}, "the state file is a symbolic link"},
		{"open directory", func(w *world) { w.must(os.Chmod(filepath.Dir(w.config.State.Path), 0o777)) }, hash,
			[]string{"state.lock state_unavailable"}, "the state directory has mode 0777"},
		{"no directory", func(w *world) { w.must(os.RemoveAll(filepath.Dir(w.config.State.Path))); w.noFiles() }, hash,
			[]string{"state.lock state_unavailable"}, "the state directory does not exist"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			expected := from(w.rotated(3))
			if c.expected != (Reviewed{}) {
				expected = c.expected
			}
			if c.arrange != nil {
				c.arrange(w)
			}
			var before map[string]string
			if c.name != "no directory" {
				before = w.content()
			}
			r := w.mustRun(w.retirement(3, expected), c.checks...)
			last := r.Checks[len(r.Checks)-1]
			if r.Result != command.Fail || r.Change != nil || len(r.Next) > 0 || !strings.Contains(last.Message+"; "+last.NextStep, c.words) {
				t.Errorf("result %s, change %+v, last check %+v; want %q", r.Result, r.Change, last, c.words)
			}
			if before != nil {
				w.untouched(before)
			}
		})
	}
}

// advance saves one more generation.
func (w *world) advance() error {
	r, _, err := w.saved().Observe(metadata(w.md.Latest+1, 0), rules, 1_750_000_000)
	if err == nil {
		w.put(r)
	}
	return err
}

// noFiles makes sure that an apply does not make the directory.
func (w *world) noFiles() {
	w.t.Cleanup(func() {
		if _, err := os.Stat(filepath.Dir(w.config.State.Path)); !os.IsNotExist(err) {
			w.t.Errorf("the state directory was made: %v", err)
		}
	})
}

// TestFreshNode: an apply makes no state.
func TestFreshNode(t *testing.T) {
	w := newWorld(t)
	r := w.mustRun(w.retirement(2, Reviewed{StateHash: "sha256:" + strings.Repeat("0", 64)}), "state.lock pass", "registry.state state_unavailable")
	if r.Change != nil || !strings.Contains(r.Checks[1].Message, "no key registry yet") {
		t.Errorf("report %+v", r)
	}
	w.untouched(map[string]string{})
}

// TestLocked: the holder is named, and the files are not even read.
func TestLocked(t *testing.T) {
	w := newWorld(t)
	first := w.rotated(2)
	s, err := store.Open(w.config.State.Path)
	w.must(err)
	before := w.content()
	r := w.mustRun(w.retirement(2, from(first)), "state.lock state_locked")
	if c := r.Checks[0]; !strings.Contains(c.Message, fmt.Sprintf("process %d holds the lock", os.Getpid())) || !strings.Contains(c.NextStep, "stop the provider on this node first") {
		t.Errorf("check %+v", c)
	}
	w.untouched(before)
	w.must(s.Close())
	w.mustRun(w.retirement(2, from(first)), saves...)
	// The lock is free again at once.
	s, err = store.Open(w.config.State.Path)
	w.must(err)
	w.must(s.Close())
}

// TestStopped: a run that is told to stop saves nothing and says so.
func TestStopped(t *testing.T) {
	w := newWorld(t)
	first := w.rotated(2)
	before := w.content()
	ctx, stop := context.WithCancel(t.Context())
	j := w.retirement(2, from(first))
	plan := j.plan
	j.plan = func(ctx context.Context) *diagnose.Plan {
		stop()
		return plan(ctx)
	}
	r, err := j.run(ctx, w.o, w.open)
	if r != nil || err == nil || !strings.Contains(err.Error(), "retire-versions: stopped, and nothing of this plan was saved") {
		t.Errorf("report %+v, error %v", r, err)
	}
	w.untouched(before)
}

// TestConfiguration: a configuration that is not usable comes back as itself.
func TestConfiguration(t *testing.T) {
	o := diagnose.Options{ConfigPath: filepath.Join(t.TempDir(), "none.yaml"), Getenv: os.Getenv}
	for name, apply := range map[string]func() (*command.Report, error){
		"retire":  func() (*command.Report, error) { return ApplyRetirement(t.Context(), o, 2, Reviewed{}) },
		"restore": func() (*command.Report, error) { return ApplyRestoration(t.Context(), o, []int{1}, Reviewed{}) },
	} {
		r, err := apply()
		if _, ok := errors.AsType[*config.Error](err); !ok || r != nil {
			t.Errorf("%s: report %+v, error %v", name, r, err)
		}
	}
}

// TestChangedUnderTheLock: something changes what the files hold between the load and the plan, as a process
// that takes no lock might.
func TestChangedUnderTheLock(t *testing.T) {
	w := newWorld(t)
	first := w.rotated(2)
	j := w.retirement(2, from(first))
	plan := j.plan
	other := newWorld(t)
	other.rotated(3)
	w.md = other.md
	j.plan = func(ctx context.Context) *diagnose.Plan {
		for name, content := range other.content() {
			w.must(os.WriteFile(filepath.Join(filepath.Dir(w.config.State.Path), name), []byte(content), 0o600))
		}
		return plan(ctx)
	}
	r, err := w.run(j)
	if r != nil || err == nil || !strings.Contains(err.Error(), "changed while this command held its lock, and nothing was saved") {
		t.Errorf("report %+v, error %v", r, err)
	}
	w.untouched(other.content())
}

// TestAnotherOutcome: a plan whose outcome is not what its own report says is
// never saved.
func TestAnotherOutcome(t *testing.T) {
	for name, spoil := range map[string]func(*diagnose.Plan){
		"another hash":       func(p *diagnose.Plan) { p.Report.NextStateHash = p.Report.StateHash },
		"another generation": func(p *diagnose.Plan) { p.Report.NextGeneration++ },
		"another start":      func(p *diagnose.Plan) { p.Report.StateHash = p.Report.NextStateHash },
		"two generations": func(p *diagnose.Plan) {
			p.Next, _, _ = p.Next.Restore(metadata(2, 0), rules, []int{1})
			p.Report.NextStateHash, p.Report.NextGeneration = p.Next.Hash(), p.Next.Generation()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			j := w.retirement(2, from(w.rotated(2)))
			plan := j.plan
			j.plan = func(ctx context.Context) *diagnose.Plan {
				p := plan(ctx)
				spoil(p)
				return p
			}
			before := w.content()
			r, err := w.run(j)
			if r != nil || err == nil || !strings.Contains(err.Error(), "not what its own plan says, and nothing was saved") {
				t.Errorf("report %+v, error %v", r, err)
			}
			w.untouched(before)
		})
	}
}
