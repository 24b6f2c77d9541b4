package clitest

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestArguments(t *testing.T) {
	for line, want := range map[string][]string{
		"  prog do --a 1":                       {"do", "--a", "1"},
		"  prog do > file":                      {"do"},
		"  prog do | jq -r .x":                  {"do"},
		"  runuser -u u -- prog do --apply":     {"do", "--apply"},
		"  # prog do what it says":              nil,
		"  jq '.checks[]'":                      nil,
		"":                                      nil,
		"  prog do   --a sha256:HASH --b   x\n": {"do", "--a", "sha256:HASH", "--b", "x"},
	} {
		if got, ours := arguments("prog", line); !slices.Equal(got, want) || ours != (want != nil) {
			t.Errorf("%q: %q, %t", line, got, ours)
		}
	}
}

// What roff or Markdown would take for markup reaches the reader as it was written.
func TestPageEscapes(t *testing.T) {
	root := &cobra.Command{Use: "prog", Short: "A program", Long: "prog takes a_b and <c> of the maker's “d”.", Run: func(*cobra.Command, []string) {}}
	sub := &cobra.Command{Use: "sub", Short: "Below it", Long: "sub is below.", Run: func(*cobra.Command, []string) {}}
	sub.Flags().String("file-name", "x", "`file` of *all*")
	root.AddCommand(sub)
	of := page(t, root, Surroundings{ExitStatus: []Term{{"0", "success"}}, Files: []Term{{"/a-b", `a \ b`}}})
	for _, want := range []string{
		"prog takes a_b and <c> of the maker's \\[u201C]d\\[u201D].\n",
		".SH EXIT STATUS\n.TP\n\\fB0\\fP\nsuccess\n",
		".SH FILES\n.TP\n\\fB/a\\-b\\fP\na \\e b\n",
		"\\fBprog command [flags]\\fP",
		`.TH "PROG" "1" "" "prog" "User Commands"`,
	} {
		if !strings.Contains(of, want) {
			t.Errorf("no %q in\n%s", want, of)
		}
	}
	if strings.Contains(of, "ENVIRONMENT") {
		t.Error("an empty section is there")
	}
	if below, want := page(t, sub, Surroundings{ExitStatus: []Term{{"0", "success"}}}), ".TP\n\\fB--file-name\\fP \\fIfile\\fP\nfile of *all* (default x)\n"; !strings.Contains(below, want) {
		t.Errorf("no %q in\n%s", want, below)
	}
}

func TestCalls(t *testing.T) {
	page := "Run `prog do --a`, not `the prog`.\nOf `prog more --x …` nothing.\n```\nsystemctl stop prog\n$ prog one > f\nrunuser -u u -- prog two \\\n    --b 1 | jq .\n```\nprog three\n"
	var got []string
	for _, c := range calls("prog", page) {
		got = append(got, strings.Join(c, " "))
	}
	if want := []string{"do --a", "one", "two --b 1"}; !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
}
