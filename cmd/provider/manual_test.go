package main

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli/clitest"
)

// Every call of the program in the documentation is one that it understands.
func TestManualCalls(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, "../../README.md") {
		found += clitest.CheckDocument(t, page, func(stdout *bytes.Buffer) *cobra.Command { return (&app{stdout: stdout, stderr: io.Discard}).root() })
	}
	if found < 30 {
		t.Errorf("only %d calls were found: the documentation is read wrongly", found)
	}
}
