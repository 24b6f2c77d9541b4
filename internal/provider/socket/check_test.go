package socket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Check says what Listen would do, and does none of it.
func TestCheckLooksOnly(t *testing.T) {
	abandoned := func(t *testing.T, p string) {
		t.Helper()
		l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: p})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if err := errors.Join(os.Chmod(p, 0o640), os.Chown(p, -1, os.Getgid()), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct {
		name  string
		make  func(t *testing.T, p string)
		want  Found
		words string // of the error; empty for none
	}{
		{"nothing", func(*testing.T, string) {}, Found{}, ""},
		{"a socket that nobody serves", abandoned, Found{Stale, 0o640, os.Getgid()}, ""},
		{"a regular file", func(t *testing.T, p string) {
			if err := os.WriteFile(p, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, Found{}, "is a regular file, not a socket"},
		{"a link", func(t *testing.T, p string) {
			if err := os.Symlink(p+".other", p); err != nil {
				t.Fatal(err)
			}
		}, Found{}, "is a symbolic link, not a socket"},
		{"a directory that others write", func(t *testing.T, p string) {
			if err := os.Chmod(filepath.Dir(p), 0o777); err != nil {
				t.Fatal(err)
			}
		}, Found{}, "is writable by everyone"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := filepath.Join(tempDir(t), "kms.sock")
			c.make(t, p)
			before := lstat(t, p)
			found, err := Check(p)
			if found != c.want {
				t.Errorf("found %+v, want %+v", found, c.want)
			}
			if c.words == "" && err != nil {
				t.Errorf("error %v", err)
			}
			if c.words != "" {
				wantError(t, err, p, c.words)
			}
			if after := lstat(t, p); after != before {
				t.Errorf("the path was changed: %v, was %v", after, before)
			}
			var names []string
			entries, _ := os.ReadDir(filepath.Dir(p))
			for _, e := range entries {
				if e.Name() != filepath.Base(p) {
					names = append(names, e.Name())
				}
			}
			if names != nil {
				t.Errorf("%v were left", names)
			}
		})
	}
}

// A served socket is found as such, goes on being served, and keeps no other
// start out.
func TestCheckFindsAServedSocket(t *testing.T) {
	p := filepath.Join(tempDir(t), "kms.sock")
	l, err := Listen(Options{Path: p, Mode: 0o660, GID: os.Getgid()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if found, err := Check(p); err != nil || found != (Found{Served, 0o660, os.Getgid()}) {
		t.Fatalf("got %+v, %v", found, err)
	}
	for range 2 { // the look, and a caller
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if conn, err := net.DialTimeout("unix", p, time.Second); err != nil {
			t.Fatal(err)
		} else {
			conn.Close()
		}
	}
	// A frozen process's backlog is full: still served.
	full := filepath.Join(tempDir(t), "full.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: full}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if found, err := Check(full); err != nil || found.State != Served {
			t.Fatalf("a full backlog: got %+v, %v", found, err)
		}
	}
}

func TestCheckNamesAMissingDirectory(t *testing.T) {
	p := filepath.Join(tempDir(t), "absent", "kms.sock")
	_, err := Check(p)
	wantError(t, err, p, "does not exist")
	if !errors.Is(err, ErrNoDirectory) {
		t.Errorf("%v is not ErrNoDirectory", err)
	}
}

// lstat is the identity of what is at a path, "" for nothing.
func lstat(t *testing.T, p string) string {
	t.Helper()
	var st unix.Stat_t
	switch err := unix.Lstat(p, &st); {
	case errors.Is(err, unix.ENOENT):
		return ""
	case err != nil:
		t.Fatal(err)
	}
	return time.Unix(st.Ctim.Unix()).String()
}
