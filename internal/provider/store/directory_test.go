package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/securefile"
)

func TestUnsafeDirectory(t *testing.T) {
	isLink := "the state directory is a link or not a directory"
	realDir := "put the directory itself there, with the files that it holds"
	mode := func(m fs.FileMode) func(string) error {
		return func(dir string) error { return unix.Chmod(dir, uint32(m)) }
	}
	for _, tt := range []struct {
		name         string
		change       func(dir string) error
		problem, fix string // accepted when empty
	}{
		{"private", mode(0o700), "", ""},
		{"readable", mode(0o755), "", ""},
		{"set-group-id", mode(0o2750), "", ""},
		{"group may write", mode(0o770), "the state directory has mode 0770", "run chmod 0750 on it"},
		{"group may write only", mode(0o720), "the state directory has mode 0720", "run chmod 0700 on it"},
		{"all may write", mode(0o777), "the state directory has mode 0777", "run chmod 0755 on it"},
		{"all may write, sticky", mode(0o1777), "the state directory has mode 0777", "run chmod 0755 on it"},
		{"missing", os.Remove, "the state directory does not exist", createIt()},
		{"file", func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) }, isLink, realDir},
		{"fifo", func(dir string) error { return errors.Join(os.Remove(dir), unix.Mkfifo(dir, 0o600)) }, isLink, realDir},
		{"link", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".real"), os.Symlink(dir+".real", dir))
		}, isLink, realDir},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := statePath(t)
			dir := filepath.Dir(path)
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
			within(t, "Open", func() {
				s, err := Open(path)
				if tt.problem == "" {
					if err != nil {
						t.Errorf("Open: %v", err)
						return
					}
					s.Close()
					return
				}
				wantError(t, err, dir, tt.problem, tt.fix)
				if _, again := Inspect(path); fmt.Sprint(again) != fmt.Sprint(err) {
					t.Errorf("Inspect says %v, Open %v", again, err)
				}
				if names, err := filepath.Glob(dir + "*/*"); err != nil || len(names) > 0 {
					t.Errorf("%q were created", names)
				}
			})
		})
	}
}

// createIt is the next step about a directory that is missing.
func createIt() string {
	return "create it with mode 0700, owned by the user that the provider runs as; this process runs as " + userName(os.Geteuid())
}

// TestDirectoryUnderRunningProcess: the directory that was locked is the only
// one that is written, whatever gets its name.
func TestDirectoryUnderRunningProcess(t *testing.T) {
	own := lineage(3, ownClock)
	const replaced = "the state directory was replaced while the provider runs"
	const replacedFix = "put the original directory back, or check the files in the new one; then restart the provider"
	again := func(dir string) error { return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700)) }
	for _, tt := range []struct {
		name         string
		change       func(dir string) error
		problem, fix string
		conflict     bool
	}{
		{"made again", again, replaced, replacedFix, true},
		{"copied and exchanged", func(dir string) error {
			return errors.Join(again(dir), os.CopyFS(dir, os.DirFS(dir+".old")))
		}, replaced, replacedFix, true},
		{"moved away", func(dir string) error { return os.Rename(dir, dir+".old") },
			"the state directory does not exist", createIt(), false},
		{"linked to where it went", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Symlink(dir+".old", dir))
		}, "the state directory is a link or not a directory", "put the directory itself there, with the files that it holds", false},
		{"opened to all", func(dir string) error { return os.Chmod(dir, 0o777) }, "the state directory has mode 0777", "run chmod 0755 on it", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := statePath(t)
			dir := filepath.Dir(path)
			putRegistry(t, path, own[1])
			s := mustOpen(t, path)
			mustLoad(t, s, own[1])
			if err := s.Save(own[2]); err != nil {
				t.Fatal(err)
			}
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{"Verify": s.Verify(), "Save": s.Save(own[3]), "Retry": s.Retry()} {
				wantError(t, err, dir, tt.problem, tt.fix)
				if _, ok := errors.AsType[*ConflictError](err); ok != tt.conflict {
					t.Errorf("%s: %T, want a conflict: %v", what, err, tt.conflict)
				}
			}
			// Put back, the attempt can be completed; after a conflict only by a new
			// process.
			if _, err := os.Lstat(dir + ".old"); err == nil {
				if err := errors.Join(os.RemoveAll(dir), os.Rename(dir+".old", dir)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, path, own[2])
			if tt.conflict {
				wantError(t, s.Retry(), dir, tt.problem, tt.fix)
				wantFiles(t, path, own[2])
				s.Close()
				s = mustOpen(t, path)
				mustLoad(t, s, own[2])
				if err := s.Save(own[3]); err != nil {
					t.Fatalf("Save by a new process: %v", err)
				}
			} else if err := s.Retry(); err != nil {
				t.Fatalf("Retry in the original directory: %v", err)
			}
			wantFiles(t, path, own[3])
		})
	}
}

func TestUnusablePath(t *testing.T) {
	dir := t.TempDir()
	inRoot := func() string {
		b, err := os.ReadFile("/.lock")
		return fmt.Sprintf("%q, %v", b, err)
	}
	before := inRoot()
	for path, problem := range map[string]string{
		"":                                   "no path is given",
		"registry.json":                      "the path is relative",
		"./registry.json":                    "the path is relative",
		dir + "/../x":                        "the path is not in its simplest form",
		dir + "//registry.json":              "the path is not in its simplest form",
		dir + "/":                            "the path is not in its simplest form",
		"/":                                  "is a directory",
		dir + "/" + strings.Repeat("x", 300): "the lock file cannot be opened",
	} {
		_, err := Open(path)
		unsafePath, isPath := errors.AsType[*securefile.Error](err)
		own, isOwn := errors.AsType[*Error](err)
		if !(isPath && unsafePath.Problem == problem && unsafePath.Fix != "" || isOwn && own.Problem == problem && own.Fix != "") {
			t.Errorf("Open(%q) = %v, want %q and a next step", path, err, problem)
		}
	}
	if after := inRoot(); after != before {
		t.Errorf("the lock file in the root directory is %s, was %s", after, before)
	}
}
