package diagnose

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/transit"
)

// TestAnOlderAnswerIsNoRollback: the key was read, rotated, seen by the running
// provider, and only then were the files read.
func TestAnOlderAnswerIsNoRollback(t *testing.T) {
	// node has seen version 2; its examination has what OpenBao said before.
	node := func() (s *story, newer transit.Key) {
		t.Helper()
		s = newStory(t).rotate(2).probe(3).promote()
		newer = *s.key
		s.rotate(1)
		return s, newer
	}
	for _, c := range []struct {
		name   string
		answer func(newer transit.Key) (transit.Key, error)
		want   want
		latest int // that the reports then tell
	}{
		{"the rotation", func(k transit.Key) (transit.Key, error) { return k, nil }, good, 2},
		{"a further one", func(k transit.Key) (transit.Key, error) {
			md := rotated(3)
			k.Latest, k.CreatedAtUnix = 3, md.CreatedAtUnix
			return k, nil
		}, pass("OpenBao's latest version is 3; this node knows up to 2"), 3},
		{"a real rollback", func(k transit.Key) (transit.Key, error) {
			md := rotated(1)
			k.Latest, k.CreatedAtUnix = 1, md.CreatedAtUnix
			return k, nil
		}, fails("version_rollback", "OpenBao's latest version is 1", "restore the key"), 1},
		{"OpenBao is gone", func(transit.Key) (transit.Key, error) {
			return transit.Key{}, fault.New(fault.ConnectionFailed, "read the key", "nothing listens")
		}, fails("openbao_connection_failed", "the registry does not fit what OpenBao said first, which may have been older; read again: "), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, newer := node()
			asked := 0
			s.readKey = func(context.Context) (transit.Key, error) { asked++; return c.answer(newer) }
			c.want.hold(t, registryMetadata, checkMetadata(t.Context(), s.exam))
			if asked != 1 || s.metadata.Latest != c.latest || s.key.Latest != c.latest {
				t.Errorf("asked %d times, the latest version is %d and %d, want %d", asked, s.metadata.Latest, s.key.Latest, c.latest)
			}
		})
	}
	s, newer := node()
	s.take(newer)
	s.readKey = func(context.Context) (transit.Key, error) { return newer, errors.New("asked without need") }
	good.hold(t, "metadata that fits", checkMetadata(t.Context(), s.exam))
}

// TestLockFile: the next start refuses one that others could hold, so it is told
// while the provider still runs, or before its first start.
func TestLockFile(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(path string) error
		words []string
	}{
		{"nobody's", func(string) error { return nil }, nil},
		{"in order", func(path string) error { return os.WriteFile(path, nil, 0o600) }, nil},
		{"for the group", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o660))
		}, []string{"the lock file has mode 0660: the provider's next start refuses it", "run chmod 0600 on it"}},
		{"a link", func(path string) error { return os.Symlink(filepath.Base(path)+".real", path) }, []string{"the lock file is not a regular file", "remove it while no provider runs"}},
		{"a FIFO", func(path string) error { return unix.Mkfifo(path, 0o600) }, []string{"the lock file is not a regular file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory(t)
			s.config.State.Path = filepath.Join(t.TempDir(), "registry.json")
			if err := os.Chmod(filepath.Dir(s.config.State.Path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := c.make(s.config.State.Path + ".lock"); err != nil {
				t.Fatal(err)
			}
			f := checkState(t.Context(), s.exam)
			if c.words == nil {
				pass("there is no state yet").hold(t, registryState, f)
				return
			}
			fails("lock_file_unusable", c.words...).hold(t, registryState, f)
			if s.registry == nil || !s.fresh {
				t.Error("what the files hold is not known because of the lock file")
			}
		})
	}
}
