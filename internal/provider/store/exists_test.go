package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestExists: any trace of either file counts, whatever it is.
func TestExists(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"state":             func(p string) error { return os.WriteFile(p, nil, 0) },
		"checkpoint":        func(p string) error { return os.WriteFile(p+checkpointSuffix, nil, 0) },
		"a link to nothing": func(p string) error { return os.Symlink("nowhere", p) },
	} {
		path := filepath.Join(t.TempDir(), "registry.json")
		if there, err := Exists(path); there || err != nil {
			t.Errorf("%s, before: %v, %v", name, there, err)
		}
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if there, err := Exists(path); !there || err != nil {
			t.Errorf("%s: %v, %v", name, there, err)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.WriteFile(filepath.Join(dir, "x.json"+lockSuffix), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "x.json"), filepath.Join(dir, "gone", "x.json"), filepath.Join(file, "x.json")} {
		if there, err := Exists(path); there || err != nil {
			t.Errorf("%s: %v, %v", path, there, err)
		}
	}
	long := filepath.Join(dir, string(make([]byte, 300)))
	if there, err := Exists(long); there || err == nil {
		t.Errorf("a name that the system refuses: %v, %v", there, err)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	if there, err := Exists(filepath.Join(loop, "x.json")); there || !errors.Is(err, unix.ELOOP) {
		t.Errorf("a directory that cannot be looked into: %v, %v", there, err)
	}
}
