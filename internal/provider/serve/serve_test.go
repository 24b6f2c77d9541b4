package serve

import (
	"bytes"
	"errors"
	"io"
	"log"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/config"
)

// TestNothingIsReadBeforeTheProcessIsClosed: the very first thing that Run does
// is to make the process non-dumpable, before it reads so much as the
// configuration.
func TestNothingIsReadBeforeTheProcessIsClosed(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	var logs bytes.Buffer
	err := Run(t.Context(), Options{ConfigPath: filepath.Join(t.TempDir(), "missing.yaml"), Logs: &logs})
	var refused *config.Error
	if !errors.As(err, &refused) {
		t.Fatalf("error %v, want a *config.Error", err)
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable != 0 {
		t.Errorf("dumpable %d, error %v; want 0", dumpable, err)
	}
	if logs.Len() != 0 {
		t.Errorf("logged without a configuration: %s", logs.String())
	}
	// What libraries say to the standard logger holds what they met.
	if log.Writer() != io.Discard {
		t.Error("the standard logger prints")
	}
}
