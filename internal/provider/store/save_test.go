package store

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/baokms/baokms/internal/provider/registry"
)

// TestBarriers fixes the order of the system calls, which is the whole argument
// for a save's safety: nothing is renamed before its content is synced, and the
// checkpoint is not begun before the state's name is durable.
func TestBarriers(t *testing.T) {
	own := lineage(2, ownClock)
	replaceFile := func(name string) []string {
		tmp := name + temporarySuffix
		return []string{"remove " + tmp, "create " + tmp, "write " + tmp, "sync " + tmp, "close " + tmp, "rename " + tmp + " " + name, "sync directory"}
	}
	const cp = modelName + checkpointSuffix
	write := append(replaceFile(modelName), replaceFile(cp)...)
	// Only what changes something: reading is TestEveryFault's matter.
	effects := func(p *plan) []string {
		var out []string
		for i, kind := range p.kinds {
			opened := kind == "close" && !slices.Contains(p.trace, "create "+p.trace[i][len("close "):])
			if !opened && !slices.Contains([]string{"open directory", "open", "stat", "read", "close directory"}, kind) {
				out = append(out, p.trace[i])
			}
		}
		return out
	}
	want := func(what string, p *plan, calls []string) {
		t.Helper()
		if got := effects(p); !slices.Equal(got, calls) {
			t.Errorf("%s makes the calls\n%q, want\n%q", what, got, calls)
		}
	}
	start := func(state, checkpoint []byte) (*node, *Store) {
		d := newDisk()
		d.place(modelName, state)
		d.place(cp, checkpoint)
		n := boot(d)
		s, _, err := n.start()
		if err != nil {
			t.Fatal(err)
		}
		return n, s
	}

	n, s := start(own[1].Encode(), checkpointDocument(own[1]))
	want("Load of equal files", n.plan, []string{"sync directory"})
	n.plan.arm(-1, 0)
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
	want("Verify", n.plan, nil)
	n.plan.arm(-1, 0)
	if err := s.Save(own[2]); err != nil {
		t.Fatal(err)
	}
	want("Save", n.plan, write)

	n, _ = start(own[2].Encode(), checkpointDocument(own[1]))
	want("Load of an interrupted save", n.plan, write)
	n, _ = start(own[1].Encode(), nil)
	want("Load of an interrupted first save", n.plan, write)
	n, _ = start(nil, nil)
	want("Load on a fresh node", n.plan, nil)
}

// TestSaveErrors holds the words for each step that can fail, and that a failed
// step leaves no temporary file where it can be helped.
func TestSaveErrors(t *testing.T) {
	own := lineage(2, ownClock)
	e := &explorer{t: t, before: own[1], next: own[2]}
	steps := map[string]string{
		"remove": "remove an old temporary file",
		"create": "create the temporary file",
		"write":  "write the temporary file",
		"sync":   "write the temporary file",
		"close":  "write the temporary file",
		"rename": "rename the temporary file into place",
	}
	n, s := e.resume(e.disk(false), nil)
	if err := s.Save(own[2]); err != nil {
		t.Fatal(err)
	}
	calls := n.plan
	path, tested := "/state/"+modelName, 0
	for at, kind := range calls.kinds {
		step, ok := steps[kind]
		if kind == "sync directory" {
			step, ok = "sync the directory", true
		}
		if !ok || kind == "close" && !strings.HasSuffix(calls.trace[at], temporarySuffix) {
			continue
		}
		n, s := e.resume(e.disk(false), nil)
		n.plan.arm(at, failBefore)
		err := s.Save(own[2])
		saving, isSave := errors.AsType[*SaveError](err)
		if !isSave {
			t.Fatalf("call %d (%s): %v (%T), want a *SaveError", at, kind, err, err)
		}
		if saving.Path != path || saving.Step != step || !errors.Is(saving.Err, errInjected) {
			t.Errorf("call %d (%s): %+v, want step %q of %s", at, kind, *saving, step, path)
		}
		wantText := "key registry: " + path + ": not saved: " + step + ": injected: input/output error; check the file system's space, mode and health"
		if err.Error() != wantText {
			t.Errorf("call %d (%s): %q, want %q", at, kind, err, wantText)
		}
		for name := range n.disk.names {
			if name != modelName && name != modelName+checkpointSuffix {
				t.Errorf("call %d (%s): %s is left", at, kind, name)
			}
		}
		tested++
		if kind == "sync directory" {
			path += checkpointSuffix
		}
	}
	if tested != 14 {
		t.Errorf("%d steps were failed, want 7 for each file", tested)
	}
}

// TestSaveFollows: only the direct successor of the confirmed registry is
// written.
func TestSaveFollows(t *testing.T) {
	own, peer := lineage(4, ownClock), lineage(4, peerClock)
	for _, tt := range []struct {
		name            string
		confirmed, next *registry.Registry
		problem         string
	}{
		{"first", nil, own[1], ""},
		{"second", own[1], own[2], ""},
		{"fourth", own[3], own[4], ""},
		{"second on a fresh node", nil, own[2], "generation 2 does not follow from what was last saved"},
		{"first again", own[3], own[1], "generation 1 does not follow from what was last saved"},
		{"another first", own[1], peer[1], "generation 1 does not follow from what was last saved"},
		{"the same", own[3], own[3], "generation 3 does not follow from what was last saved"},
		{"back", own[3], own[2], "generation 2 does not follow from what was last saved"},
		{"a gap", own[2], own[4], "generation 4 does not follow from what was last saved"},
		{"a peer's", own[3], peer[4], "generation 4 does not follow from what was last saved"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &explorer{t: t, before: tt.confirmed, next: tt.next}
			n, s := e.resume(e.disk(false), nil)
			before := n.disk.String()
			err := s.Save(tt.next)
			if tt.problem == "" {
				if err != nil {
					t.Fatalf("Save: %v", err)
				}
				e.wantDocuments(n.disk, tt.name, tt.next)
				return
			}
			wantError(t, err, "/state/"+modelName, tt.problem, "report this as a defect")
			if len(n.plan.trace) > 0 || n.disk.String() != before {
				t.Errorf("it made the calls %q", n.plan.trace)
			}
			if s.Attempt() != nil {
				t.Error("it became the attempt")
			}
		})
	}
}

// Retry without an attempt does nothing.
func TestRetryOfNothing(t *testing.T) {
	own := lineage(1, ownClock)
	e := &explorer{t: t, before: own[1]}
	n, s := e.resume(e.disk(false), nil)
	if err := s.Retry(); err != nil || len(n.plan.trace) > 0 {
		t.Errorf("Retry = %v, calls %q", err, n.plan.trace)
	}
}

// TestLongLives runs random lives of a node: saves, retries, failures at any
// call, kills and power cuts, one after another. A start must always find what
// was confirmed last, or the one attempt after it.
func TestLongLives(t *testing.T) {
	own := lineage(40, ownClock)
	rapid.Check(t, func(t *rapid.T) {
		n := boot(newDisk())
		s := n.store()
		confirmed, running := 0, false // the generation known to be durable
		for range rapid.IntRange(20, 60).Draw(t, "steps") {
			n.plan.arm(-1, 0)
			if rapid.Bool().Draw(t, "faulty") {
				at := rapid.IntRange(0, 34).Draw(t, "call")
				n.plan.arm(at, fault(rapid.IntRange(int(failBefore), int(crashHalf)).Draw(t, "fault")))
			}
			var err error
			switch {
			case !running:
				if rapid.Bool().Draw(t, "restart") {
					s = n.store()
				}
				var r *registry.Registry
				r, err = s.Load(fingerprint)
				allowed := own[confirmed : confirmed+2]
				if err == nil {
					i := slices.IndexFunc(allowed, func(a *registry.Registry) bool { return same(a, r) })
					if i < 0 {
						t.Fatalf("loaded generation %s, want %s", describe(r), names(allowed))
					}
					confirmed, running = confirmed+i, true
				} else if !n.plan.dead && !isInjected(err) {
					t.Fatalf("an operator is needed: %v", err)
				}
			case confirmed+2 >= len(own):
				return
			default:
				if s.Attempt() != nil {
					err = s.Retry()
				} else {
					err = s.Save(own[confirmed+1])
				}
				if err == nil && !n.plan.dead {
					confirmed++
				} else if !n.plan.dead && !isInjected(err) {
					t.Fatalf("save: %v", err)
				}
			}
			switch {
			case n.plan.dead || rapid.IntRange(0, 9).Draw(t, "power") == 0:
				after := n.disk.crashes()
				n = boot(after[rapid.IntRange(0, len(after)-1).Draw(t, "found")])
				s, running = n.store(), false
			case rapid.IntRange(0, 9).Draw(t, "kill") == 0:
				n = boot(n.disk)
				s, running = n.store(), false
			}
		}
	})
}
