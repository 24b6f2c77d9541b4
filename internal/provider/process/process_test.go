package process_test

import (
	"bytes"
	"io"
	"log"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/process"
)

const childVariable = "PROCESS_TEST_CHILD"

// TestMain lets the test start this binary again: what Harden does to a process
// must not be done to the one that runs the tests.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// child hardens itself and tells on standard output what does not hold then.
func child() int {
	complain := func(what string) int { _, _ = os.Stdout.WriteString(what); return 1 }
	if n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || n != 1 {
		return complain("it was not dumpable before: this proves nothing")
	}
	if err := process.Harden(); err != nil {
		return complain(err.Error())
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || n != 0 {
		return complain("it can be dumped")
	}
	if log.Writer() != io.Discard {
		return complain("the standard logger writes")
	}
	log.Print("CANARY of a library")
	return 0
}

func TestHarden(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || out.Len() > 0 || errs.Len() > 0 {
		t.Errorf("%v: %s %s", err, out.String(), errs.String())
	}
}
