package setup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDirectoryIsAFlag: another --dir helps, so it is an error of usage.
func TestDirectoryIsAFlag(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		"full":   `it is not empty: it holds "mine"; init never overwrites anything: name a new directory, or an empty one`,
		"file":   "it is a file; init never overwrites anything: name a new directory, or an empty one",
		"no/new": "it would be in a directory that does not exist; make that one first, or name another",
	} {
		if err := os.MkdirAll(filepath.Join(dir, "full", "mine"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		o := example()
		o.Dir = filepath.Join(dir, name)
		_, err := Init(o)
		var usage *FlagError
		if want = "--dir names a directory that init does not write into: " + want; !errors.As(err, &usage) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	// What the system refuses is none.
	o := example()
	o.Dir = "/proc/1/made"
	var failed *DirectoryError
	if _, err := Init(o); !errors.As(err, &failed) {
		t.Errorf("got %v", err)
	}
}

func TestMissingDirectory(t *testing.T) {
	_, err := Init(example())
	if want := "--dir is missing: Directory to write into: new, or empty; for example --dir openbao-kms"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestDirectoryIsPrintable: what the directory is below counts, too.
func TestDirectoryIsPrintable(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{"a\nb", "a\tb", "a\x1b[31mb", "a\x7fb", "a\u202eb", "a\u2028b", "a\xffb", "a\nb/made"} {
		o := example()
		o.Dir = filepath.Join(parent, name)
		if p := refused(t, o)["dir"]; !strings.Contains(p.Text, "printable") && !strings.Contains(p.Text, "UTF-8") {
			t.Errorf("%q: %v", name, p)
		}
	}
	below := filepath.Join(parent, "a\nb")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	o := example()
	o.Dir = "made"
	if p := refused(t, o)["dir"]; !strings.Contains(p.Text, "printable") {
		t.Errorf("below such a directory: %v", p)
	}
	if _, err := os.Lstat("made"); err == nil {
		t.Error("it was made")
	}
	plain := example()
	plain.Dir = filepath.Join(parent, "it's größer")
	if _, err := Init(plain); err != nil {
		t.Error(err)
	}
}
