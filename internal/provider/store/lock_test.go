package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func wantLocked(t *testing.T, path string, pid int) {
	t.Helper()
	s, err := Open(path)
	if err == nil {
		s.Close()
		t.Fatal("a second writer got the lock")
	}
	locked, ok := errors.AsType[*LockedError](err)
	if !ok {
		t.Fatalf("Open = %v (%T), want a *LockedError", err, err)
	}
	if want := (LockedError{path + lockSuffix, pid}); *locked != want {
		t.Errorf("error = %+v, want %+v", *locked, want)
	}
	want := fmt.Sprintf("key registry: %s.lock: process %d holds the lock; stop it first", path, pid)
	if pid == 0 {
		want = fmt.Sprintf("key registry: %s.lock: another process holds the lock; stop it first", path)
	}
	if err.Error() != want {
		t.Errorf("error = %q, want %q", err, want)
	}
}

func TestLockInOneProcess(t *testing.T) {
	path := statePath(t)
	s := mustOpen(t, path)
	within(t, "a second Open", func() { wantLocked(t, path, os.Getpid()) })
	if _, err := s.Load(fingerprint); err != nil {
		t.Fatalf("the holder lost its lock to the second Open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if _, err := os.Stat(path + lockSuffix); err != nil {
		t.Errorf("Close removed the lock file: %v", err)
	}
	mustOpen(t, path)
}

func TestLockBetweenProcesses(t *testing.T) {
	path := statePath(t)
	p := startChild(t, roleHold, path)
	within(t, "Open beside another process", func() { wantLocked(t, path, p.cmd.Process.Pid) })
	p.kill()
	s := mustOpen(t, path)
	if pid := readPID(s.lock); pid != os.Getpid() {
		t.Errorf("the lock file names process %d, want %d", pid, os.Getpid())
	}
}

// What an operator or another program left in the lock file never stops the
// next holder, and never becomes the name of a process.
func TestLockFileContent(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "words": "not a process\n", "zero": "0\n", "negative": "-1\n", "NULs": strings.Repeat("\x00", 40),
		"too long": strings.Repeat("1", 5000), "out of range": "99999999999999999999\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := statePath(t)
			if err := os.WriteFile(path+lockSuffix, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, path)
			got, err := os.ReadFile(path + lockSuffix)
			if err != nil || strings.TrimSpace(string(got)) != strconv.Itoa(os.Getpid()) {
				t.Errorf("lock file = %q, %v, want this process's id", got, err)
			}
			// Damaged while it is held: the error says less, but stays right.
			if err := os.WriteFile(path+lockSuffix, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			wantLocked(t, path, 0)
			if _, err := s.Load(fingerprint); err != nil {
				t.Errorf("Load: %v", err)
			}
		})
	}
}

// TestLockFileReplaced: with another file under the lock's name a second writer
// can start, so the first one must not write again.
func TestLockFileReplaced(t *testing.T) {
	const problem = "the lock file was removed or replaced while it was locked"
	const fix = "make sure that no other process writes this state, restart the provider, and never delete the lock file"
	own := lineage(6, ownClock)
	path := statePath(t)
	putRegistry(t, path, own[5])
	first := mustOpen(t, path)
	mustLoad(t, first, own[5])
	if err := os.Remove(path + lockSuffix); err != nil {
		t.Fatal(err)
	}
	err := first.Verify()
	wantError(t, err, path+lockSuffix, problem, fix)

	second := mustOpen(t, path)
	mustLoad(t, second, own[5])
	before := listing(t, path)
	err = first.Save(own[6])
	wantError(t, err, path+lockSuffix, problem, fix)
	wantUntouched(t, path, before)
	if err := second.Save(own[6]); err != nil {
		t.Errorf("Save by the holder of the lock: %v", err)
	}
}

// A Store that gave up its lock writes nothing more.
func TestSaveAfterClose(t *testing.T) {
	own := lineage(2, ownClock)
	path := statePath(t)
	putRegistry(t, path, own[1])
	s := mustOpen(t, path)
	mustLoad(t, s, own[1])
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := listing(t, path)
	if err := s.Save(own[2]); err == nil {
		t.Fatal("a closed Store saved")
	}
	wantUntouched(t, path, before)
}

// The loser of the lock touches none of the winner's files.
func TestLoserChangesNothing(t *testing.T) {
	path := statePath(t)
	putRegistry(t, path, genesis(ownClock))
	mustOpen(t, path)
	temporary := path + temporarySuffix // as if the winner were saving
	if err := os.WriteFile(temporary, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := listing(t, path)
	wantLocked(t, path, os.Getpid())
	wantUntouched(t, path, before)
}

// TestKilled kills a process that saves as fast as it can: everything that it
// reported as saved is there, and at most one generation more.
func TestKilled(t *testing.T) {
	path := statePath(t)
	own := lineage(1, ownClock)
	for round := range 6 {
		p := startChild(t, roleSave, path)
		reported := 0
		for range 1 + round*4 {
			n, err := strconv.Atoi(p.line(t))
			if err != nil {
				t.Fatal(err)
			}
			reported = n
		}
		p.cmd.Process.Kill()
		for p.lines.Scan() { // what it had still reported
			if n, err := strconv.Atoi(p.lines.Text()); err == nil {
				reported = n
			}
		}
		p.kill()

		s := mustOpen(t, path)
		got, err := s.Load(fingerprint)
		if err != nil {
			t.Fatalf("round %d, after %d saves: %v", round, reported, err)
		}
		generation := int(got.Generation())
		if generation != reported && generation != reported+1 {
			t.Fatalf("round %d: %d was reported as saved, %d is there", round, reported, generation)
		}
		for len(own) <= generation {
			own = append(own, successor(own[len(own)-1]))
		}
		wantRegistry(t, got, own[generation])
		wantFiles(t, path, own[generation])
		if n := len(listing(t, path)); n != 2 {
			t.Errorf("round %d: the directory holds %d files, want 2", round, n)
		}
		s.Close()
	}
}

// Open removes what an interrupted save left, and nothing else.
func TestLeftovers(t *testing.T) {
	path := statePath(t)
	putRegistry(t, path, genesis(ownClock))
	before := listing(t, path)
	keep := filepath.Join(filepath.Dir(path), "other.tmp")
	for _, name := range []string{path + temporarySuffix, path + checkpointSuffix + temporarySuffix, keep} {
		if err := os.WriteFile(name, []byte("{"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A link in the place of a leftover goes, its target stays.
	if err := os.Remove(path + temporarySuffix); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, path+temporarySuffix); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path)
	after := listing(t, path)
	if _, ok := after["other.tmp"]; !ok || len(after) != 3 {
		t.Errorf("the directory holds %v", after)
	}
	delete(after, "other.tmp")
	for name, e := range before {
		if after[name] != e {
			t.Errorf("%s was touched", name)
		}
	}
	mustLoad(t, s, genesis(ownClock))
	s.Close()

	if err := os.Mkdir(path+checkpointSuffix+temporarySuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	wantError(t, err, path+checkpointSuffix+temporarySuffix, "a leftover temporary file cannot be removed", "remove it")
	if err := os.Remove(path + checkpointSuffix + temporarySuffix); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path) // the failed Open gave the lock back
}

// TestHolder: a number that means somebody else on the node is not told.
func TestHolder(t *testing.T) {
	for pid, want := range map[int]string{0: "another process", 1: "a process in a container", 4711: "process 4711"} {
		if got := (&LockedError{PID: pid}).Holder(); got != want {
			t.Errorf("process id %d is told as %q, want %q", pid, got, want)
		}
	}
}
