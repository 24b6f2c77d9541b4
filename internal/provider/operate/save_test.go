package operate

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/store"
)

// TestSaveFails: whatever a failed save has left, the command that the error names
// ends well, and a start goes on with what the state file holds, as the error says.
func TestSaveFails(t *testing.T) {
	const notConfirmed = "was not confirmed: "
	failure := &store.SaveError{Path: "state", Step: "sync the directory", Err: syscall.EIO}
	cases := []struct {
		name string
		save func(w *world, f files, next *registry.Registry) error
		// saved: the state file holds the planned registry.
		saved bool
		words string
	}{
		{"before anything", func(*world, files, *registry.Registry) error { return failure }, false, notConfirmed},
		{"after the state", func(w *world, _ files, next *registry.Registry) error {
			w.must(os.WriteFile(w.config.State.Path, next.Encode(), 0o600))
			return failure
		}, true, notConfirmed},
		{"after both", func(w *world, f files, next *registry.Registry) error {
			w.must(f.Save(next))
			return failure
		}, true, notConfirmed},
		{"with a leftover", func(w *world, _ files, next *registry.Registry) error {
			w.must(os.WriteFile(w.config.State.Path+".tmp", next.Encode()[:100], 0o600))
			return failure
		}, false, notConfirmed},
		{"conflict", func(*world, files, *registry.Registry) error {
			return &store.ConflictError{Found: &store.Error{Path: "state", Problem: "the file holds something else"}}
		}, false, "nothing was saved"},
	}
	for _, c := range cases {
		for _, then := range []string{"again", "start"} {
			t.Run(c.name+" then "+then, func(t *testing.T) {
				w := newWorld(t)
				first := w.rotated(3)
				want, _, err := first.Retire(w.md, rules, 3)
				w.must(err)
				reviewed := from(first)
				if then == "again" {
					reviewed = to(first, want)
				}
				w.open = func(path string) (files, error) {
					f, err := open(path)
					return &failing{f, func(next *registry.Registry) error { return c.save(w, f, next) }}, err
				}
				// Without the reviewed outcome the error names it.
				r, err := w.run(w.retirement(3, reviewed))
				if r != nil || err == nil || !strings.Contains(err.Error(), c.words) {
					t.Fatalf("report %+v, error %v; want %q", r, err, c.words)
				}
				if c.words == notConfirmed {
					flag := ""
					if reviewed.NextStateHash == "" {
						flag = ", with --expected-next-state-hash " + want.Hash() + ","
					}
					advice := "run the same command again" + flag + " until it exits with 0; if the provider is started instead, plan again to see which registry holds"
					if !strings.Contains(err.Error(), advice) {
						t.Errorf("error %v, want %q", err, advice)
					}
				}
				w.open = open
				if then == "start" {
					s, err := store.Open(w.config.State.Path)
					w.must(err)
					loaded, err := s.Load(w.config.Fingerprint())
					w.must(err)
					w.must(s.Close())
					if got := loaded.Hash() == want.Hash(); got != c.saved || !c.saved && loaded.Hash() != first.Hash() {
						t.Fatalf("a start finds generation %d", loaded.Generation())
					}
				}
				checks := doneAlready
				if !c.saved {
					checks = savesExactly
				}
				r = w.mustRun(w.retirement(3, to(first, want)), checks...)
				if !r.Change.Applied || r.Change.NextStateHash != want.Hash() || w.saved().Hash() != want.Hash() {
					t.Errorf("the command ends with %s, want %s", r.Change.NextStateHash, want.Hash())
				}
			})
		}
	}
}

// TestEarlierSaveFails: a save of before that cannot be completed is told as that.
func TestEarlierSaveFails(t *testing.T) {
	w := newWorld(t)
	first := w.rotated(2)
	w.open = func(path string) (files, error) {
		f, err := open(path)
		return &unloadable{f}, err
	}
	r, err := w.run(w.retirement(2, from(first)))
	if r != nil || err == nil || !strings.Contains(err.Error(), "an earlier save, maybe of this plan, could not be completed: ") || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("report %+v, error %v", r, err)
	}
}

// failing is files whose save is another one.
type failing struct {
	files
	save func(*registry.Registry) error
}

func (f *failing) Save(next *registry.Registry) error { return f.save(next) }

type unloadable struct{ files }

func (*unloadable) Load(string) (*registry.Registry, error) {
	return nil, &store.SaveError{Path: "state", Step: "write the temporary file", Err: syscall.ENOSPC}
}
