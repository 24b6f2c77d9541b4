package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// root is the root of the checkout, seen from here.
const root = "../.."

// tool returns promtool or prometheus: the one on PATH when both are there, as
// tools.sh decides, else the one that tools.sh fetched.
func tool(t *testing.T, name string) string {
	t.Helper()
	_, promtoolErr := exec.LookPath("promtool")
	_, prometheusErr := exec.LookPath("prometheus")
	if promtoolErr == nil && prometheusErr == nil {
		return name
	}
	path, err := filepath.Abs(filepath.Join(root, "bin", "tools", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("bin/tools/%s is not there: run test/deploy/tools.sh", name)
	}
	return path
}

// mustRun runs a command in a folder and prints what it says when it fails.
func mustRun(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v\n%s", filepath.Base(name), args, err, out)
	}
}
