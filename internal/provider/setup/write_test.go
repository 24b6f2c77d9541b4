package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var three = []file{
	{name: "a", mode: 0o640, content: []byte("one")},
	{name: "b", mode: 0o600, content: []byte("two")},
	{name: "c", mode: 0o644, content: nil},
}

// listing is what a directory holds, with modes and contents.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s %v", e.Name(), info.Mode())
		if info.Mode().IsRegular() {
			line += " " + read(t, filepath.Join(dir, e.Name()))
		}
		all = append(all, line)
	}
	return all
}

var written = []string{"a -rw-r----- one", "b -rw------- two", "c -rw-r--r-- "}

func TestWrite(t *testing.T) {
	parent := t.TempDir()
	absent, empty := filepath.Join(parent, "absent"), filepath.Join(parent, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	defer unix.Umask(unix.Umask(0o077)) // modes do not depend on it
	for _, dir := range []string{absent, empty} {
		if err := write(dir, three, nil); err != nil {
			t.Fatal(err)
		}
		if got := listing(t, dir); !slices.Equal(got, written) {
			t.Errorf("%s holds %q", dir, got)
		}
	}
	if got := listing(t, parent); !slices.Equal(got, []string{"absent drwx------", "empty drwxr-xr-x"}) {
		t.Errorf("beside them is %q", got)
	}
}

func TestRelativeDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	o := example()
	o.Dir = "."
	r, err := Init(o)
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Next[0].Commands[0], "cd "+here; got != want {
		t.Errorf("the first command is %q, want %q", got, want)
	}
	for _, f := range r.Files {
		info, err := os.Lstat(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%04o", info.Mode()); got != f.Mode {
			t.Errorf("%s has mode %s, the report says %s", f.Name, got, f.Mode)
		}
	}
	if got := len(listing(t, ".")); got != len(r.Files) {
		t.Errorf("%d files are there, the report says %d", got, len(r.Files))
	}
}

// TestNothingIsOverwritten: whatever is in the way stays as it is.
func TestNothingIsOverwritten(t *testing.T) {
	parent := t.TempDir()
	at := func(name string) string { return filepath.Join(parent, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(at("file"), []byte("mine"), 0o600))
	must(os.Symlink("nowhere", at("dangling")))
	must(os.Mkdir(at("empty"), 0o700))
	must(os.Symlink("empty", at("link")))
	must(os.Mkdir(at("full"), 0o700))
	must(os.WriteFile(at("full/.hidden"), []byte("mine"), 0o600))
	must(unix.Mkfifo(at("fifo"), 0o600))
	before := listing(t, parent)

	for dir, want := range map[string]string{
		at("file"):      "is a file; init never overwrites anything: name a new directory, or an empty one",
		at("fifo"):      "is a file; init never overwrites",
		at("dangling"):  "is a symbolic link; name the directory itself",
		at("link"):      "is a symbolic link; name the directory itself",
		at("full"):      `is not empty: it holds ".hidden"; init never overwrites`,
		at("none/made"): "would be in a directory that does not exist; make that one first",
		at("file/made"): "cannot be examined: not a directory; name another directory",
		"/sys/made":     "cannot be made: operation not permitted; name one where you may write",
		"/proc/1/made":  "cannot be made: ",
	} {
		err := write(dir, three, nil)
		var e *DirectoryError
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "the directory "+dir+" "+want) {
			t.Errorf("%s: got %v, want … %s", dir, err, want)
		}
	}
	if after := listing(t, parent); !slices.Equal(before, after) {
		t.Errorf("it was %q, is %q", before, after)
	}
	if got := listing(t, at("empty")); len(got) > 0 {
		t.Errorf("the empty directory holds %q", got)
	}
	if got := listing(t, at("full")); !slices.Equal(got, []string{".hidden -rw------- mine"}) {
		t.Errorf("the full directory holds %q", got)
	}
}

// asNobody runs f with the file system rights of another user. They are the
// thread's, so it is given up afterwards.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		f()
	}()
	<-done
}

func TestNoPermission(t *testing.T) {
	parent := t.TempDir()
	inside := filepath.Join(parent, "inside")
	if err := os.Mkdir(inside, 0o555); err != nil {
		t.Fatal(err)
	}
	for dir, mode := range map[string]fs.FileMode{parent: 0o555, filepath.Dir(parent): 0o755} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(parent, 0o755)
	for dir, want := range map[string]string{
		filepath.Join(parent, "made"): "cannot be made: permission denied; name one where you may write",
		inside:                        "cannot be written to: a: permission denied; name one where you may write",
	} {
		asNobody(t, func() {
			if err := write(dir, three, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want … %s", dir, err, want)
			}
		})
	}
	if got := listing(t, inside); len(got) > 0 {
		t.Errorf("%q was left", got)
	}
}

var errDisk = errors.New("the disk is full")

// TestFailureHalfWay: whichever file fails, nothing of this run is left, and
// what others put there meanwhile is.
func TestFailureHalfWay(t *testing.T) {
	for _, at := range []string{"a", "b", "c"} {
		for _, there := range []bool{false, true} {
			parent := t.TempDir()
			dir := filepath.Join(parent, "made")
			if there {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			err := write(dir, three, func(name string) error {
				if name != at {
					return nil
				}
				if there {
					if err := os.WriteFile(filepath.Join(dir, "theirs"), []byte("x"), 0o600); err != nil {
						return err
					}
				}
				return errDisk
			})
			if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), at) {
				t.Errorf("%s: got %v", at, err)
			}
			var want []string
			if there {
				want = []string{"theirs -rw------- x"}
				if got := listing(t, dir); !slices.Equal(got, want) {
					t.Errorf("%s: the directory holds %q", at, got)
				}
			} else if got := listing(t, parent); len(got) > 0 {
				t.Errorf("%s: %q was left", at, got)
			}
		}
	}
}

// TestMeanwhile: somebody makes what init is about to make.
func TestMeanwhile(t *testing.T) {
	t.Run("a file in the directory", func(t *testing.T) {
		dir := t.TempDir()
		err := write(dir, three, func(name string) error {
			if name == "b" {
				return os.WriteFile(filepath.Join(dir, "b"), []byte("theirs"), 0o600)
			}
			return nil
		})
		if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "got a file of somebody else meanwhile: b") {
			t.Errorf("got %v", err)
		}
		if got := listing(t, dir); !slices.Equal(got, []string{"b -rw------- theirs"}) {
			t.Errorf("the directory holds %q", got)
		}
	})
	t.Run("its temporary name", func(t *testing.T) {
		dir := t.TempDir()
		err := write(dir, three, func(name string) error {
			if name == "b" {
				return os.WriteFile(filepath.Join(dir, ".b.partial"), []byte("theirs"), 0o600)
			}
			return nil
		})
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("got %v", err)
		}
		if got := listing(t, dir); !slices.Equal(got, []string{".b.partial -rw------- theirs"}) {
			t.Errorf("the directory holds %q", got)
		}
	})
	t.Run("the directory", func(t *testing.T) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "made")
		err := write(dir, three, func(name string) error {
			if name == "c" {
				return write(dir, three[:2], nil)
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "was made by somebody else meanwhile") {
			t.Errorf("got %v", err)
		}
		if got := listing(t, dir); !slices.Equal(got, written[:2]) {
			t.Errorf("the directory holds %q", got)
		}
		if got := listing(t, parent); len(got) != 1 {
			t.Errorf("beside it is %q", got)
		}
	})
}

// TestNoIncompleteFile: until all of a file is on disk, its name is not there.
func TestNoIncompleteFile(t *testing.T) {
	parent := t.TempDir()
	absent, empty := filepath.Join(parent, "absent"), filepath.Join(parent, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{absent, empty} {
		for i := range three {
			stop := errors.New("stop")
			_ = write(dir, three, func(name string) error {
				if name != three[i].name {
					return nil
				}
				// As a crash here would leave it.
				for _, line := range listingOrNone(t, dir) {
					if !slices.Contains(written[:i], line) {
						t.Errorf("before %s, %s holds %q", name, dir, line)
					}
				}
				return stop
			})
		}
	}
	if _, err := os.Lstat(absent); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the absent directory: %v", err)
	}
}

func listingOrNone(t *testing.T, dir string) []string {
	t.Helper()
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return listing(t, dir)
}
