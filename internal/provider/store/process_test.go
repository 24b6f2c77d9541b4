package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

// The variables that make this binary another process of the tests, and what it
// then does.
const (
	roleVariable = "STORE_TEST_ROLE"
	pathVariable = "STORE_TEST_PATH"

	roleHold  = "hold"  // take the lock and keep it
	roleSave  = "save"  // save one generation after another
	roleLimit = "limit" // save with a bound on file sizes, then without
	// roleInspect only looks.
	roleInspect = "inspect"
)

// child is the other process. It reports on standard output, and ends when it is
// killed or its standard input is closed.
func child(role, path string) int {
	if role == roleInspect {
		if _, err := Inspect(path); err != nil {
			fmt.Println("open:", err)
			return 1
		}
		return 0
	}
	s, err := Open(path)
	if err != nil {
		fmt.Println("open:", err)
		return 1
	}
	fmt.Println("open")
	switch role {
	case roleSave:
		err = saveForever(s)
	case roleLimit:
		err = saveWithLimit(s)
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	io.Copy(io.Discard, os.Stdin)
	return 0
}

func saveForever(s *Store) error {
	r, err := s.Load(fingerprint)
	if err != nil {
		return err
	}
	for {
		next := genesis(ownClock)
		if r != nil {
			next = successor(r)
		}
		if err := s.Save(next); err != nil {
			return err
		}
		r = next
		fmt.Println(r.Generation())
	}
}

// saveWithLimit fails a save for want of space, as a full file system would, and
// repeats it with space.
func saveWithLimit(s *Store) error {
	signal.Ignore(unix.SIGXFSZ)
	r, err := s.Load(fingerprint)
	if err != nil {
		return err
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 100, Max: old.Max}); err != nil {
		return err
	}
	err = s.Save(successor(r))
	if !errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("a save over the limit: %w", err)
	}
	fmt.Println(err)
	if err := s.Verify(); err != nil {
		return err
	}
	fmt.Println("verified")
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := s.Retry(); err != nil {
		return err
	}
	fmt.Println("saved")
	return nil
}

// process is a running child.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// startChild starts this binary again and waits until it holds the lock.
func startChild(t *testing.T, role, path string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	if line := p.line(t); line != "open" {
		t.Fatalf("the other process says %q", line)
	}
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	var line string
	within(t, "the other process", func() {
		if p.lines.Scan() {
			line = p.lines.Text()
		}
	})
	return line
}

// kill ends the process at once, as SIGKILL and a power switch do, and waits
// until it is gone.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	}
}
