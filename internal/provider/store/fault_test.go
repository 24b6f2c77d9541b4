package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// explorer fails and cuts short every system call of one save, and of whatever
// comes after it, and holds the outcome to design: registry, how it is proven.
type explorer struct {
	t                   *testing.T
	before, next, after *registry.Registry // before is nil on a fresh node

	seen    map[string]bool // disks whose future was explored
	singles int             // faults of the save
	doubles int             // faults of a retry or a restart after one
	crashes int             // different disks found after the power went
}

// TestEveryFault is the proof that a save is all or nothing.
func TestEveryFault(t *testing.T) {
	own := lineage(7, ownClock)
	var singles, doubles, crashes int
	for _, tt := range []struct {
		name     string
		next     int
		leftover bool // of a process that was killed and of which Open removed nothing
	}{
		{"first save", 1, false},
		{"new identity", 2, false},
		{"promotion over leftovers", 5, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &explorer{t: t, before: own[tt.next-1], next: own[tt.next], after: own[tt.next+1], seen: map[string]bool{}}
			e.explore(tt.leftover)
			singles, doubles, crashes = singles+e.singles, doubles+e.doubles, crashes+e.crashes
		})
	}
	t.Logf("visited %d faults of a save, %d faults after a fault, %d crashed disks", singles, doubles, crashes)
	if singles < 250 || doubles < 5000 || crashes < 40 {
		t.Error("the enumeration became too small to prove anything")
	}
}

// disk is what the last confirmed save left.
func (e *explorer) disk(leftover bool) *disk {
	d := newDisk()
	if e.before != nil {
		d.place(modelName, e.before.Encode())
		d.place(modelName+checkpointSuffix, checkpointDocument(e.before))
	}
	if leftover {
		d.place(modelName+temporarySuffix, []byte("{"))
		d.place(modelName+checkpointSuffix+temporarySuffix, e.next.Encode())
	}
	return d
}

// resume is a process in the midst of its life: with this confirmed registry,
// and with the attempt of a failed save.
func (e *explorer) resume(d *disk, attempt *registry.Registry) (*node, *Store) {
	e.t.Helper()
	n := boot(d)
	s := n.store()
	s.confirmed, s.attempt = e.before, attempt
	return n, s
}

func (e *explorer) explore(leftover bool) {
	base := e.disk(leftover)
	e.eachFault(&e.singles, func(at int, f fault) ([]string, string) {
		n, s := e.resume(base.clone(), nil)
		n.plan.arm(at, f)
		err := s.Save(e.next)
		kinds, what := n.plan.kinds, n.describe("save", at, f)
		switch {
		case n.plan.dead:
			e.power(n.disk, what, e.before, e.next)
		case err == nil:
			e.confirmed(n, s, what)
		default:
			e.failed(n, s, err, what)
		}
		return kinds, what
	})
}

// eachFault runs once without a fault to learn the calls, and then once for each
// call and each fault that it can have.
func (e *explorer) eachFault(count *int, run func(at int, f fault) (kinds []string, what string)) {
	e.t.Helper()
	kinds, _ := run(-1, 0)
	for at, kind := range kinds {
		for _, f := range faultsOf(kind) {
			got, what := run(at, f)
			if len(got) <= at || !slices.Equal(got[:at+1], kinds[:at+1]) {
				e.t.Fatalf("%s: the calls are not the same in each run", what)
			}
			*count++
		}
	}
}

// describe says which call of a phase had which fault.
func (n *node) describe(phase string, at int, f fault) string {
	if f == 0 {
		return phase
	}
	return fmt.Sprintf("%s, call %d (%s): %s", phase, at, n.plan.trace[at], f)
}

// confirmed checks a save that was reported as done: the files hold it, whatever
// happens to the power now, and the process goes on.
func (e *explorer) confirmed(n *node, s *Store, what string) {
	e.t.Helper()
	if s.confirmed != e.next || s.Attempt() != nil {
		e.t.Fatalf("%s: reported as saved, but the Store does not know it", what)
	}
	e.wantDocuments(n.disk, what, e.next)
	e.power(n.disk, what, e.next)
	n.plan.arm(-1, 0)
	if err := s.Save(e.after); err != nil {
		e.t.Fatalf("%s: the next save: %v", what, err)
	}
	e.wantDocuments(n.disk, what, e.after)
}

// failed checks a save that returned an error: the error, the files, and every
// future: the power goes, the process starts again, the save is repeated.
func (e *explorer) failed(n *node, s *Store, err error, what string) {
	e.t.Helper()
	e.wantFault(err, what)
	if s.Attempt() != e.next || s.confirmed != e.before {
		e.t.Fatalf("%s: the Store does not keep the attempt", what)
	}
	e.wantDocuments(n.disk, what, e.before, e.next)
	n.plan.arm(-1, 0)
	if err := s.Save(e.next); err == nil || errors.Is(err, errInjected) || len(n.plan.trace) > 0 {
		e.t.Fatalf("%s: Save beside an outstanding attempt: %v, calls %q", what, err, n.plan.trace)
	}
	if !e.first("failed", n.disk) {
		return
	}
	e.power(n.disk, what, e.before, e.next)
	e.restart(n.disk, what, e.before, e.next)
	e.retry(n.disk, what)
}

// retry repeats the failed save, without and with a second fault.
func (e *explorer) retry(d *disk, what string) {
	e.t.Helper()
	e.eachFault(&e.doubles, func(at int, f fault) ([]string, string) {
		n, s := e.resume(d.clone(), e.next)
		n.plan.arm(at, f)
		err := s.Retry()
		kinds, what := n.plan.kinds, what+"; "+n.describe("retry", at, f)
		switch {
		case n.plan.dead:
			e.power(n.disk, what, e.before, e.next)
		case err == nil:
			e.confirmed(n, s, what)
		default:
			e.wantFault(err, what)
			e.wantDocuments(n.disk, what, e.before, e.next)
			e.power(n.disk, what, e.before, e.next)
			n.plan.arm(-1, 0)
			if err := s.Retry(); err != nil {
				e.t.Fatalf("%s: the second retry: %v", what, err)
			}
			e.confirmed(n, s, what)
		}
		return kinds, what
	})
}

// power lets the power go: whatever the disk then holds, a start must find one
// of the allowed registries, without an operator.
func (e *explorer) power(d *disk, what string, allowed ...*registry.Registry) {
	e.t.Helper()
	for _, c := range d.crashes() {
		if !e.first("crashed to one of "+names(allowed), c) {
			continue
		}
		e.crashes++
		e.restart(c, what+"; power lost", allowed...)
	}
}

// restart starts a new process on a disk, without and with a fault, and holds
// what it loads to the allowed registries. What was loaded is published, so no
// crash may take it back.
func (e *explorer) restart(d *disk, what string, allowed ...*registry.Registry) {
	e.t.Helper()
	e.eachFault(&e.doubles, func(at int, f fault) ([]string, string) {
		n := boot(d.clone())
		n.plan.arm(at, f)
		s, got, err := n.start()
		kinds, what := n.plan.kinds, what+"; "+n.describe("restart", at, f)
		if n.plan.dead {
			e.power(n.disk, what, allowed...)
			return kinds, what
		}
		if err != nil {
			if f == 0 {
				e.t.Fatalf("%s: an operator is needed: %v", what, err)
			}
			e.wantFault(err, what)
			e.power(n.disk, what, allowed...)
			n.plan.arm(-1, 0)
			if got, err = s.Load(fingerprint); err != nil {
				e.t.Fatalf("%s: the second load: %v", what, err)
			}
		}
		e.loaded(n, s, got, what, allowed...)
		return kinds, what
	})
}

// loaded checks a registry that a start found, and that its life goes on.
func (e *explorer) loaded(n *node, s *Store, got *registry.Registry, what string, allowed ...*registry.Registry) {
	e.t.Helper()
	i := slices.IndexFunc(allowed, func(r *registry.Registry) bool { return same(r, got) })
	if i < 0 {
		e.t.Fatalf("%s: loaded generation %s, want one of %s", what, describe(got), names(allowed))
	}
	e.wantKept(got, what)
	if got != nil {
		e.wantDocuments(n.disk, what, got)
	}
	e.power(n.disk, what, allowed[i])
	n.plan.arm(-1, 0)
	follow := e.next
	if same(got, e.next) {
		follow = e.after
	}
	if err := s.Save(follow); err != nil {
		e.t.Fatalf("%s: the first save after the start: %v", what, err)
	}
	e.wantDocuments(n.disk, what, follow)
}

// first reports whether a disk is met for the first time in a situation.
func (e *explorer) first(situation string, d *disk) bool {
	key := situation + "\n" + d.key()
	if e.seen[key] {
		return false
	}
	e.seen[key] = true
	return true
}
