// Package clitest holds what a program says of itself against its command tree:
// help that fits a terminal, examples that the program accepts, and a man page for
// each command (design: config-and-cli). It is for the tests of the packages below
// cmd alone.
//
// It runs no command but --help, and writes nothing but man pages, with -update.
package clitest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
)

// columns is how wide help may be.
const columns = 80

// CheckHelp holds every command of a program against four rules: it has a short and
// a long text and an example; its help shows them and exits with 0; no line of the
// help is longer than 80 columns; and the examples parse. tree makes the dressed
// command tree that writes to stdout.
func CheckHelp(t *testing.T, tree func(stdout *bytes.Buffer) *cobra.Command) {
	t.Helper()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "help" || cmd.Parent() != nil && cmd.Parent().Name() == "completion" {
			return // the library's own
		}
		t.Run(cmd.CommandPath(), func(t *testing.T) { checkHelp(t, cmd, tree) })
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(tree(&bytes.Buffer{}))
}

func checkHelp(t *testing.T, cmd *cobra.Command, tree func(*bytes.Buffer) *cobra.Command) {
	t.Helper()
	program := cmd.Root().Name()
	if cmd.Short == "" || cmd.Long == "" || !strings.Contains(cmd.Example, program+" ") {
		t.Errorf("short %q, long %q, example %q", cmd.Short, cmd.Long, cmd.Example)
	}
	var stdout bytes.Buffer
	root := tree(&stdout)
	code := cli.Run(t.Context(), root, append(strings.Fields(cmd.CommandPath())[1:], "--help"), nil)
	if help := stdout.String(); code != cli.ExitOK || !strings.Contains(help, cmd.Long) || !strings.Contains(help, "Examples:\n  ") {
		t.Errorf("exit code %d, help:\n%s", code, help)
	}
	for line := range strings.Lines(stdout.String()) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > columns {
			t.Errorf("a line of more than %d columns: %q", columns, line)
		}
	}
	for line := range strings.Lines(strings.ReplaceAll(cmd.Example, "\\\n", " ")) {
		args, ours := arguments(program, line)
		if !ours {
			continue
		}
		found, rest, err := tree(&bytes.Buffer{}).Find(args)
		if err == nil {
			err = found.ParseFlags(rest)
		}
		if err != nil {
			t.Errorf("the example %q: %v", line, err)
		}
	}
}

// arguments are what an example gives to the program, and whether it calls it.
func arguments(program, line string) ([]string, bool) {
	words := strings.Fields(line)
	at := slices.Index(words, program)
	if at < 0 || words[0] == "#" {
		return nil, false
	}
	words = words[at+1:]
	if end := slices.IndexFunc(words, func(w string) bool { return w == "|" || w == ">" }); end >= 0 {
		words = words[:end]
	}
	return words, true
}
