package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/baokms/baokms/test/stack/stacktest"
)

// managerBinary is what make build made.
const managerBinary = root + "/bin/bao-kms-manager"

// command runs bao-kms-manager until the test ends, with these arguments and nothing
// but this environment. That it ends before, or not in good order, fails the test.
func command(t *testing.T, environment []string, arguments ...string) {
	t.Helper()
	path := filepath.Join(stacktest.Dir(t), "log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(managerBinary, arguments...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment, log, log
	// When the tests are killed, it is, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() { // ends with the process
		// The kernel sends the signal when the thread that made the process ends: this
		// one waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
		_ = log.Close()
	}()
	if err := <-started; err != nil {
		t.Fatalf("%v: run make build first", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v", arguments[0], err)
			}
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Errorf("%s does not end", arguments[0])
		}
		if t.Failed() {
			t.Logf("%s says:\n%s", arguments[0], read(t, path))
		}
	})
}
