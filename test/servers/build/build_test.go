package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFingerprintCoversWhatDecidesTheBinary(t *testing.T) {
	write := func(dir, name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	print := func(dir, tool string) string {
		t.Helper()
		got, err := fingerprint(dir, tool)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	dir := t.TempDir()
	write(dir, "go.mod", "module a\n")
	write(dir, "go.sum", "")
	write(dir, "main.go", "package main\n")
	base := print(dir, "go1 linux")
	if again := print(dir, "go1 linux"); again != base {
		t.Errorf("two reads of the same files differ: %s, %s", base, again)
	}
	if other := print(dir, "go2 linux"); other == base {
		t.Error("another Go version has the same fingerprint")
	}
	write(dir, "README", "not built")
	if same := print(dir, "go1 linux"); same != base {
		t.Error("a file that is not compiled changed the fingerprint")
	}
	for _, name := range []string{"go.mod", "go.sum", "main.go", "new.go"} {
		before := print(dir, "go1 linux")
		write(dir, name, "changed\n")
		if after := print(dir, "go1 linux"); after == before {
			t.Errorf("a change of %s left the fingerprint as it was", name)
		}
	}
}

func TestCurrentNeedsBinaryAndStamp(t *testing.T) {
	for _, c := range []struct {
		name          string
		stamp, binary bool
		content       string
		want          bool
	}{
		{"nothing there", false, false, "", false},
		{"binary without stamp", false, true, "", false},
		{"stamp without binary", true, false, "abc\n", false},
		{"older stamp", true, true, "abd\n", false},
		{"current", true, true, "abc\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			m := &module{binary: filepath.Join(dir, "b"), stamp: filepath.Join(dir, "s"), want: "abc"}
			if c.stamp {
				if err := os.WriteFile(m.stamp, []byte(c.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.binary {
				if err := os.WriteFile(m.binary, []byte("x"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if got := m.current(); got != c.want {
				t.Errorf("current() = %v, want %v", got, c.want)
			}
		})
	}
}

// TestBuild runs the Go tool on a tiny module: what it builds is current, and a broken one shows the compiler's words and leaves no binary.
func TestBuild(t *testing.T) {
	root := t.TempDir()
	source := filepath.Join(root, "test", "servers", "etcd")
	for _, dir := range []string{source, filepath.Join(root, "bin", "servers")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{"go.mod": "module tiny\n\ngo 1.26.0\n", "main.go": "package main\n\nfunc main() { undefined() }\n"}
	save := func() *module {
		t.Helper()
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(source, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m, err := loadModule(root, "etcd", "go")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}

	m := save()
	var shown bytes.Buffer
	if err := show(context.Background(), m, &screen{out: &shown, every: time.Hour}); err == nil {
		t.Error("a module that does not compile was built")
	}
	if !strings.Contains(shown.String(), "undefined: undefined") {
		t.Errorf("the compiler's message is not shown:\n%s", shown.String())
	}
	if m.current() {
		t.Error("a failed build is current")
	}

	files["main.go"] = "package main\n\nfunc main() {}\n"
	m = save()
	shown.Reset()
	if err := show(context.Background(), m, &screen{out: &shown, every: time.Hour}); err != nil {
		t.Fatalf("building: %v\n%s", err, shown.String())
	}
	if !m.current() {
		t.Error("what was just built is not current")
	}
	if !strings.Contains(shown.String(), "built in") {
		t.Errorf("no line says that it was built:\n%s", shown.String())
	}
	entries, err := os.ReadDir(filepath.Join(root, "bin", "servers"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != ".etcd.stamp etcd" {
		t.Errorf("bin/servers holds %q, want the binary and its stamp only", got)
	}
}

func TestLoadModuleRefusesOtherNames(t *testing.T) {
	if _, err := loadModule(t.TempDir(), "../etcd", "go"); err == nil || !strings.Contains(err.Error(), "etcd, transit, kubectl, kube-state-metrics, kube-apiserver") {
		t.Errorf("error = %v, want one that lists the servers", err)
	}
}

func TestProgressCountsAndKeepsMessages(t *testing.T) {
	var p progress
	if got := p.String(); got != "looking up what is needed" {
		t.Errorf("at first: %q", got)
	}
	for _, piece := range []string{"go: downloading a.example/x v1.0.0\ngo: down", "loading a.example/y v1.0.0\n"} {
		if _, err := p.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.String(); got != "downloaded 2 modules" {
		t.Errorf("after downloads: %q", got)
	}
	if _, err := p.Write([]byte("internal/abi\na.example/x\n# a.example/y\ny.go:1:2: undefined: z")); err != nil {
		t.Fatal(err)
	}
	if got := p.String(); got != "compiled 2 packages" {
		t.Errorf("after packages: %q", got)
	}
	if got := strings.Join(p.last(), "|"); got != "# a.example/y|y.go:1:2: undefined: z" {
		t.Errorf("messages = %q", got)
	}
}

func TestTickMovesOnATerminalOnly(t *testing.T) {
	for _, c := range []struct {
		moves bool
		want  string
	}{
		{true, "\retcd               2 s  compiled 1 packages\x1b[K"},
		{false, "etcd               2 s  compiled 1 packages\n"},
	} {
		var out bytes.Buffer
		p := progress{compiled: 1}
		(&screen{out: &out, moves: c.moves}).tick("etcd", 2*time.Second, &p)
		if out.String() != c.want {
			t.Errorf("moves %v: %q, want %q", c.moves, out.String(), c.want)
		}
	}
}
