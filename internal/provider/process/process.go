// Package process closes this process to others before it reads a credential.
//
// Every command that reads one calls Harden first: nothing secret is in memory
// before that. The package holds no state and is called by main's commands only.
package process

import (
	"fmt"
	"io"
	"log"

	"golang.org/x/sys/unix"
)

// Harden makes the process non-dumpable (no core dump, no ptrace, no reading of
// /proc/self/mem by others of the same user) and silences the standard logger:
// libraries log what they meet to it, net/http even the bytes of an answer that
// nobody asked for (design: kms-service, startup and shutdown; overview,
// invariant 10).
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("process: cannot be made non-dumpable: %w; the kernel or a sandbox forbids prctl", err)
	}
	log.SetOutput(io.Discard)
	return nil
}
