package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInterrupted ends the demo with Ctrl-C while its servers run: it must say
// so, exit with 130, and leave neither a process nor a file.
func TestInterrupted(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	temp, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	screen, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	// The provider's step is done: OpenBao, etcd and the provider run, and the API
	// server is starting.
	lines := bufio.NewScanner(screen)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "opens its socket") {
			break
		}
	}
	if running := inDirectory(t, temp); len(running) < 3 {
		t.Fatalf("only %q run", running)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	if !strings.Contains(complaints.String(), "Everything that was started has been stopped") {
		t.Errorf("it says %q", complaints.String())
	}
	if running := inDirectory(t, temp); len(running) > 0 {
		t.Errorf("still running: %q", running)
	}
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range left {
		t.Errorf("left behind: %s", file.Name())
	}
}

// inDirectory returns the command lines of the processes that name dir.
func inDirectory(t *testing.T, dir string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte(dir)) {
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}
