package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/securefile"
)

// file writes a configuration file with a mode.
func file(t *testing.T, data []byte, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	env := func(k string) string { return map[string]string{EnvLogLevel: "warn"}[k] }
	for _, mode := range []os.FileMode{0o600, 0o640, 0o400, 0o440} {
		c, err := Load(file(t, document(), mode), Getenv(env))
		if err != nil {
			t.Fatalf("mode %04o: %v", mode, err)
		}
		if c.Logging.Level != "warn" || c.Transit.KeyName != "kms-workload-a" {
			t.Errorf("mode %04o: got %+v", mode, c)
		}
	}
	if c, err := Load(file(t, document("openbao.address=http://127.0.0.1:1"), 0o600), AllowPlainHTTP); err != nil || c.OpenBao.Address != "http://127.0.0.1:1" {
		t.Errorf("with AllowPlainHTTP: %+v, %v", c, err)
	}
}

func TestLoadReadsTheEnvironment(t *testing.T) {
	t.Setenv(EnvLogLevel, "error")
	c, err := Load(file(t, document(), 0o600))
	if err != nil || c.Logging.Level != "error" {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := file(t, document("logging.level=loud", "state.path=x"), 0o600)
	_, err := Load(path)
	var e *Error
	if !errors.As(err, &e) || e.File != path || len(e.Problems) != 2 {
		t.Fatalf("got %v", err)
	}
	lines := e.Lines()
	if len(lines) != 3 || lines[0] != "configuration file "+path+" has 2 problems:" || !strings.HasPrefix(lines[1], "  line ") {
		t.Errorf("lines are %q", lines)
	}
}

// The file's own safety is checked before anything in it is read.
func TestLoadRefusesUnsafeFiles(t *testing.T) {
	good := file(t, document(), 0o600)
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	foreign := file(t, document(), 0o600)
	cases := []struct{ name, path, problem, fix string }{
		{"writable by the group", file(t, document(), 0o660), "has mode 0660", "chmod 0640"},
		{"readable by others", file(t, document(), 0o644), "has mode 0644", "chmod 0640"},
		{"executable by others", file(t, document(), 0o601), "has mode 0601", "chmod 0600"},
		{"a link", link, "is a symbolic link", "file itself"},
		{"a directory", t.TempDir(), "is not a regular file", "regular file"},
		{"missing", good + ".missing", "does not exist", "create it"},
		{"relative", "config.yaml", "the path is relative", "absolute path"},
		{"too large", file(t, []byte(strings.Repeat("#", MaxSize+1)), 0o600), "is larger than", "right file"},
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(foreign, 12345, 0); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, struct{ name, path, problem, fix string }{"of another user", foreign, "is owned by user 12345", "must be root"})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := Load(c.path)
			var e *Error
			var reason *securefile.Error
			if cfg != nil || !errors.As(err, &e) || !errors.As(err, &reason) || e.File != c.path {
				t.Fatalf("got %v, %v", cfg, err)
			}
			if text := err.Error(); !strings.HasPrefix(text, "configuration file "+c.path) || !strings.Contains(text, c.problem) || !strings.Contains(text, c.fix) {
				t.Errorf("got %q, want %q and %q", text, c.problem, c.fix)
			}
		})
	}
}

func TestLoadAtTheLargestSize(t *testing.T) {
	doc := document()
	doc = append(doc, "#"+strings.Repeat("x", MaxSize-len(doc)-1)...)
	if _, err := Load(file(t, doc, 0o600)); err != nil {
		t.Errorf("%d bytes are refused: %v", len(doc), err)
	}
}
