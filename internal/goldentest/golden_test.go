package goldentest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFirstDifference(t *testing.T) {
	for _, c := range []struct {
		want, got string
		line      int
		was, is   string
	}{
		{"", "", 0, "", ""},
		{"a\nb\n", "a\nb\n", 0, "", ""},
		{"a\nb\n", "a\nc\n", 2, "b\n", "c\n"},
		{"a\n", "a\nb\n", 2, "", "b\n"},
		{"a\nb\n", "a\n", 2, "b\n", ""},
		{"a\n", "a", 1, "a\n", "a"},
		{"", "a", 1, "", "a"},
	} {
		if line, was, is := firstDifference(c.want, c.got); line != c.line || was != c.was || is != c.is {
			t.Errorf("%q and %q: line %d, %q, %q; want line %d, %q, %q", c.want, c.got, line, was, is, c.line, c.was, c.is)
		}
	}
}

// told is a test that only collects what it is told.
type told struct {
	testing.TB
	errors []string
}

func (*told) Helper() {}

func (t *told) Errorf(format string, args ...any) {
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}

func TestCheck(t *testing.T) {
	defer func(was bool) { *update = was }(*update)
	*update = false
	path := filepath.Join(t.TempDir(), "testdata", "a.txt")
	for _, c := range []struct {
		update bool
		got    string
		want   string // part of what is told; empty: nothing
	}{
		{false, "one\n", "there is no golden file " + path},
		{true, "one\n", ""},
		{false, "one\n", ""},
		{false, "two\n", `differs from line 1 on: it has "one\n", this is "two\n"`},
		{true, "two\n", ""},
		{false, "two\n", ""},
	} {
		*update = c.update
		if Updating() != c.update {
			t.Errorf("Updating says %t", Updating())
		}
		listener := &told{TB: t}
		Check(listener, path, c.got)
		if c.want == "" && len(listener.errors) > 0 || c.want != "" && (len(listener.errors) != 1 || !strings.Contains(listener.errors[0], c.want)) {
			t.Errorf("%q with update %t: it tells %q, want %q", c.got, c.update, listener.errors, c.want)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "two\n" {
		t.Errorf("the file has %q, %v", b, err)
	}
}
