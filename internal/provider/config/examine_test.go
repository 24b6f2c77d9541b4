package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Examine judges what Load judges, and the content also where Load does not get
// to it.
func TestExamine(t *testing.T) {
	linked := file(t, document(), 0o600)
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(linked, link); err != nil {
		t.Fatal(err)
	}
	foreign := file(t, document(), 0o600)
	if os.Geteuid() == 0 {
		if err := os.Chown(foreign, 12345, 0); err != nil {
			t.Fatal(err)
		}
	} else if err := os.Chmod(foreign, 0o602); err != nil {
		t.Fatal(err)
	}
	bad := document("logging.level=loud", "state.path=x")
	for _, c := range []struct {
		name, path string
		unsafe     bool
		problems   int    // of the content
		unread     string // why the content could not be read
	}{
		{"good", file(t, document(), 0o640), false, 0, ""},
		{"readable by others", file(t, document(), 0o644), true, 0, ""},
		{"of another user", foreign, true, 0, ""},
		{"a link", link, true, 0, ""},
		{"wrong", file(t, bad, 0o600), false, 2, ""},
		{"wrong and readable by others", file(t, bad, 0o644), true, 2, ""},
		{"missing", linked + ".missing", true, 0, "does not exist"},
		{"a directory", t.TempDir(), true, 0, "is not a regular file"},
		{"too large", file(t, []byte(strings.Repeat("#", MaxSize+1)), 0o600), true, 0, "is larger than"},
		{"relative", "config.yaml", true, 0, "the path is relative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := Examine(c.path, Getenv(func(string) string { return "" }))
			if (x.Unsafe != nil) != c.unsafe {
				t.Errorf("unsafe: %v, want %v", x.Unsafe, c.unsafe)
			}
			loaded, err := Load(c.path, Getenv(func(string) string { return "" }))
			if (loaded == nil) != (x.Unsafe != nil || x.Refused != nil) {
				t.Errorf("Load says %v", err)
			}
			if (x.Config == nil) != (x.Refused != nil) {
				t.Fatalf("got %+v", x)
			}
			switch {
			case c.problems == 0 && c.unread == "":
				if x.Config == nil || x.Config.Transit.KeyName != "kms-workload-a" {
					t.Errorf("got %+v", x.Refused)
				}
			case x.Refused == nil || x.Refused.File != c.path || len(x.Refused.Problems) != c.problems:
				t.Errorf("refused for %+v", x.Refused)
			case c.unread != "" && !strings.Contains(x.Refused.Error(), c.unread), c.unread == "" && x.Refused.Err != nil:
				t.Errorf("refused for %v, want %q", x.Refused, c.unread)
			}
		})
	}
}

func TestExamineReadsTheEnvironment(t *testing.T) {
	x := Examine(file(t, document(), 0o644), Getenv(func(k string) string { return map[string]string{EnvLogLevel: "warn"}[k] }))
	if x.Config == nil || x.Config.Logging.Level != "warn" || x.Unsafe == nil {
		t.Errorf("got %+v", x)
	}
}
