package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// tempDir is a fresh directory with a path short enough for a socket.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// aGroup is a group that the test may give its files to, not the default one
// when there is a choice.
func aGroup() int {
	if os.Geteuid() == 0 {
		return 4242
	}
	return os.Getegid()
}

func options(path string) Options { return Options{Path: path, Mode: 0o660, GID: -1} }

func mustListen(t *testing.T, o Options) *Listener {
	t.Helper()
	l, err := Listen(o)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// wantError checks an error's words: the path, the problem and a next step.
func wantError(t *testing.T, err error, path, problem string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error = %v, want a *socket.Error about %q", err, problem)
	}
	if !strings.HasPrefix(e.Error(), "socket "+path+": ") || !strings.Contains(e.Error(), problem) {
		t.Errorf("error = %q, want one about %s that says %q", e, path, problem)
	}
	if e.Fix == "" {
		t.Errorf("error %q names no next step", e)
	}
}

// wantNames checks that the directory holds exactly these names: nothing may be
// left behind.
func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("directory holds %v, want %v", got, want)
	}
}

// echo checks that a connection to path reaches l.
func echo(t *testing.T, l net.Listener, path string) {
	t.Helper()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	defer server.Close()
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := server.Read(b[:]); err != nil || b[0] != 'x' {
		t.Fatalf("server read %q, %v; want x", b, err)
	}
}

// staleSocket leaves a socket at path that nobody serves.
func staleSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestListenServesWithTheConfiguredModeAndGroup(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o660, 0o640} {
		dir := tempDir(t)
		path := filepath.Join(dir, "kms.sock")
		o := options(path)
		o.Mode, o.GID = mode, aGroup()
		l := mustListen(t, o)

		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode != unix.S_IFSOCK|uint32(mode) || int(st.Gid) != aGroup() || int(st.Uid) != os.Geteuid() {
			t.Errorf("socket has mode %o, user %d, group %d; want a socket with mode %o, user %d, group %d", st.Mode, st.Uid, st.Gid, mode, os.Geteuid(), aGroup())
		}
		if got := l.Addr().String(); got != path {
			t.Errorf("Addr = %s, want %s", got, path)
		}
		echo(t, l, path)
		wantNames(t, dir, "kms.sock")
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		wantNames(t, dir)
	}
}

func TestListenReplacesNothingThatAppears(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "kms.sock")
	_, err := listen(options(path), hooks{beforePublish: func(string) {
		if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
			t.Error(err)
		}
	}})
	wantError(t, err, path, "something appeared at the path")
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	wantNames(t, dir, "kms.sock")
}

func TestThePathNeverHasLoosePermissions(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "kms.sock")
	old := unix.Umask(0) // the loosest that a careless environment can set
	defer unix.Umask(old)

	stat := func(name string) unix.Stat_t {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			t.Error(err)
		}
		return st
	}
	o := options(path)
	o.GID = aGroup()
	l, err := listen(o, hooks{
		beforeChange: func(temporary string) {
			if st := stat(filepath.Join(dir, temporary)); st.Mode != unix.S_IFSOCK|0o600 {
				t.Errorf("bound with mode %o, want 0600", st.Mode)
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the path exists before its mode is set: %v", err)
			}
		},
		beforePublish: func(temporary string) {
			if st := stat(filepath.Join(dir, temporary)); st.Mode != unix.S_IFSOCK|0o660 || int(st.Gid) != aGroup() {
				t.Errorf("about to be published with mode %o and group %d, want 0660 and %d", st.Mode, st.Gid, aGroup())
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the path exists before the rename: %v", err)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if now := unix.Umask(0); now != 0 {
		t.Errorf("umask is %o after Listen, want it restored to 0", now)
	}
}

func TestOneOfManyStartsWins(t *testing.T) {
	for round := range 20 {
		dir := tempDir(t)
		path := filepath.Join(dir, "kms.sock")
		if round%2 == 1 {
			staleSocket(t, path)
		}
		const starts = 8
		var (
			wg        sync.WaitGroup
			listeners [starts]*Listener
			errs      [starts]error
		)
		for i := range starts {
			wg.Go(func() { listeners[i], errs[i] = Listen(options(path)) })
		}
		wg.Wait()
		var won []*Listener
		for i := range starts {
			if errs[i] == nil {
				won = append(won, listeners[i])
				continue
			}
			if _, ok := errors.AsType[*Error](errs[i]); !ok {
				t.Errorf("a losing start failed with %v, want a *socket.Error", errs[i])
			}
		}
		if len(won) != 1 {
			t.Fatalf("round %d: %d starts own the path, want 1: %v", round, len(won), errs)
		}
		defer won[0].Close()
		id, err := won[0].dir.idOfName("kms.sock")
		if err != nil || id != won[0].id {
			t.Errorf("round %d: the path is %v (%v), want the winner's %v", round, id, err, won[0].id)
		}
		wantNames(t, dir, "kms.sock")
	}
}

func TestASecondStartIsKeptOut(t *testing.T) {
	path := filepath.Join(tempDir(t), "kms.sock")
	l, err := listen(options(path), hooks{beforePublish: func(string) {
		_, err := Listen(options(path))
		wantError(t, err, path, "another provider is starting in the same directory")
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Listen(options(path))
	wantError(t, err, path, "another process serves it") // the lock was released
}

func TestCloseLeavesASuccessorAlone(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "kms.sock")
	first := mustListen(t, options(path))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := mustListen(t, options(path))
	if err := first.Close(); err != nil {
		t.Errorf("Close of the displaced listener: %v", err)
	}
	wantNames(t, dir, "kms.sock")
	echo(t, second, path)
	if _, err := first.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close = %v, want net.ErrClosed", err)
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Errorf("Close after the path was removed: %v", err)
	}
}

func TestListenStaysInTheCheckedDirectory(t *testing.T) {
	base := tempDir(t)
	dir := filepath.Join(base, "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kms.sock")
	l, err := listen(options(path), hooks{beforePublish: func(string) {
		if err := os.Rename(dir, dir+"-moved"); err != nil {
			t.Error(err)
		}
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantNames(t, dir)
	wantNames(t, dir+"-moved", "kms.sock")
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	wantNames(t, dir+"-moved")
}
