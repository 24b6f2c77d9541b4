package clitest

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// CheckDocument holds every call of the program in a page of documentation against
// its command tree: the command exists, and its flags parse. It reports how many
// calls it found. What has an ellipsis is no call.
func CheckDocument(t *testing.T, file string, tree func(stdout *bytes.Buffer) *cobra.Command) int {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	calls := calls(tree(&bytes.Buffer{}).Name(), string(page))
	for _, call := range calls {
		found, rest, err := tree(&bytes.Buffer{}).Find(call)
		if err == nil {
			err = found.ParseFlags(rest)
		}
		if err != nil {
			t.Errorf("%s: %q: %v", file, strings.Join(call, " "), err)
		}
	}
	return len(calls)
}

var span = regexp.MustCompile("`([^`\n]+)`")

// calls are the arguments of every call of program in a page of Markdown: in its
// blocks of code, and in its spans.
func calls(program, page string) [][]string {
	var all [][]string
	add := func(line string) {
		before, ours := strings.Fields(line), false
		if at := slices.Index(before, program); at >= 0 {
			ours = at == 0 || slices.Contains([]string{"$", "|", "--", "--clear-groups"}, before[at-1])
		}
		if args, there := arguments(program, line); there && ours && !strings.Contains(line, "…") {
			all = append(all, args)
		}
	}
	code := false
	for line := range strings.Lines(strings.ReplaceAll(page, "\\\n", " ")) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			code = !code
		case code:
			add(line)
		default:
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				add(m[1])
			}
		}
	}
	return all
}
