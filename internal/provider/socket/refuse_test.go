package socket

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestListenRefusesPaths(t *testing.T) {
	dir := tempDir(t)
	long := func(n int) string { return dir + "/" + strings.Repeat("s", n-len(dir)-1) }
	cases := []struct{ name, path, shown, problem string }{
		{"empty", "", `""`, "no path is given"},
		{"relative", "run/kms.sock", "run/kms.sock", "relative"},
		{"abstract", "@kms", "@kms", "abstract"},
		{"dot segment", dir + "/../kms.sock", dir + "/../kms.sock", "simplest form"},
		{"trailing slash", dir + "/kms.sock/", dir + "/kms.sock/", "simplest form"},
		{"root", "/", "/", "is a directory"},
		{"NUL", dir + "/a\x00b", fmt.Sprintf("%q", dir+"/a\x00b"), "NUL"},
		{"108 bytes", long(108), long(108), "108 bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Listen(options(c.path))
			wantError(t, err, c.shown, c.problem)
		})
	}
	t.Run("107 bytes", func(t *testing.T) {
		path := long(107)
		echo(t, mustListen(t, options(path)), path)
	})
	wantNames(t, dir)
}

func TestListenRefusesDirectories(t *testing.T) {
	mkdir := func(t *testing.T, path string, mode fs.FileMode) string {
		t.Helper()
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cases := []struct {
		name, problem string
		prepare       func(t *testing.T, dir string)
	}{
		{"missing", "does not exist", func(*testing.T, string) {}},
		{"link", "symbolic link", func(t *testing.T, dir string) {
			if err := os.Symlink(mkdir(t, dir+"-real", 0o700), dir); err != nil {
				t.Fatal(err)
			}
		}},
		{"file", "is not a directory", func(t *testing.T, dir string) {
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"writable by all", "writable by everyone (mode 0707)", func(t *testing.T, dir string) { mkdir(t, dir, 0o707) }},
		{"sticky", "writable by everyone (mode 1777)", func(t *testing.T, dir string) { mkdir(t, dir, 0o777|fs.ModeSticky) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(tempDir(t), "d")
			c.prepare(t, dir)
			path := filepath.Join(dir, "kms.sock")
			_, err := Listen(options(path))
			wantError(t, err, path, c.problem)
			if _, err := os.Lstat(path); err == nil {
				t.Error("a socket was made all the same")
			}
		})
	}
	t.Run("another owner", func(t *testing.T) {
		base := tempDir(t)
		path := filepath.Join(base, "kms.sock")
		d, err := openDirectory(path)
		if err != nil {
			t.Fatal(err)
		}
		defer d.close()
		if os.Geteuid() == 0 { // what root owns is always accepted
			if err := os.Chown(base, 4242, -1); err != nil {
				t.Fatal(err)
			}
		}
		wantError(t, d.check(base, os.Geteuid()+1), path, "is owned by user ")
	})
	t.Run("group-writable is accepted", func(t *testing.T) {
		path := filepath.Join(mkdir(t, filepath.Join(tempDir(t), "d"), 0o770), "kms.sock")
		echo(t, mustListen(t, options(path)), path)
	})
}

func TestListenLeavesOtherThingsAlone(t *testing.T) {
	cases := []struct {
		name, problem string
		make          func(path string) error
	}{
		{"regular file", "a regular file", func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) }},
		{"link to a file", "a symbolic link", func(p string) error { return os.Symlink("/etc/passwd", p) }},
		{"dangling link", "a symbolic link", func(p string) error { return os.Symlink(p+"-nowhere", p) }},
		{"directory", "a directory", func(p string) error { return os.Mkdir(p, 0o700) }},
		{"pipe", "a named pipe", func(p string) error { return unix.Mkfifo(p, 0o600) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := tempDir(t)
			path := filepath.Join(dir, "kms.sock")
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Listen(options(path))
			wantError(t, err, path, c.problem)
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode() || before.Size() != after.Size() {
				t.Errorf("it is %v now (%v), was %v", after, err, before)
			}
			wantNames(t, dir, "kms.sock")
		})
	}
	t.Run("link to a live socket", func(t *testing.T) {
		dir := tempDir(t)
		live := mustListen(t, options(filepath.Join(dir, "live.sock")))
		path := filepath.Join(dir, "kms.sock")
		if err := os.Symlink("live.sock", path); err != nil {
			t.Fatal(err)
		}
		_, err := Listen(options(path))
		wantError(t, err, path, "a symbolic link")
		echo(t, live, filepath.Join(dir, "live.sock"))
	})
}

func TestKindNamesEverythingThatCanBeAtAPath(t *testing.T) {
	for mode, want := range map[uint32]string{
		unix.S_IFLNK: "a symbolic link", unix.S_IFREG: "a regular file", unix.S_IFDIR: "a directory",
		unix.S_IFIFO: "a named pipe", unix.S_IFCHR: "a device", unix.S_IFBLK: "a device", 0: "of unknown kind 0",
	} {
		if got := kind(mode | 0o640); got != want {
			t.Errorf("kind(%#o) = %q, want %q", mode, got, want)
		}
	}
}
