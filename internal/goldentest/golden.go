// Package goldentest compares what a test made with a golden file, and gives the
// test's package the flag -update, which writes the file instead. It is for tests
// alone: a package that defines a flag of that name itself cannot use it.
//
// It writes nothing without -update, and with it only the files that it is given.
package goldentest

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files again instead of comparing with them")

// Updating reports whether golden files are being written.
func Updating() bool { return *update }

// Check compares got with a file, or writes it there with -update. It tells the
// first line that differs.
func Check(t testing.TB, path, got string) {
	t.Helper()
	if *update {
		if err := write(path, got); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is no golden file %s; run the test with -update, and read what it wrote", path)
		return
	} else if err != nil {
		t.Fatal(err)
	}
	if line, was, is := firstDifference(string(want), got); line > 0 {
		t.Errorf("%s differs from line %d on: it has %q, this is %q; if that is meant, run the test with -update", path, line, was, is)
	}
}

func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

// firstDifference is the number of the first line in which two texts differ, from
// 1, and that line in both; 0 when they are the same. Lines keep their ends, so
// that a missing last newline shows.
func firstDifference(want, got string) (line int, was, is string) {
	if want == got {
		return 0, "", ""
	}
	a, b := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i + 1, a[i], b[i]
		}
	}
	// SplitAfter's last piece is what follows the last newline, so one text cannot
	// be a whole prefix of the other's pieces.
	return min(len(a), len(b)), "", ""
}
