package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is the width in columns that flags are explained in.
const helpWidth = "80"

// Dress makes a finished command tree behave as both programs do: help within 80
// columns, results to stdout and everything else to stderr, errors left to Run, a
// completion command that refuses what it does not know, and a complaint when no
// command is named.
func Dress(root *cobra.Command, stdout, stderr io.Writer) {
	root.SilenceErrors = true // Run prints them
	root.SilenceUsage = true
	root.RunE = func(*cobra.Command, []string) error { return Usage("name a command") }
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages", ".LocalFlags.FlagUsagesWrapped "+helpWidth,
		".InheritedFlags.FlagUsages", ".InheritedFlags.FlagUsagesWrapped "+helpWidth,
		"for more information about a command", "to learn more", // else too long
	).Replace(root.UsageTemplate()))
	root.SetOut(stdout) // before the completion command, which keeps it
	root.SetErr(stderr)
	dressCompletion(root)
}

// dressCompletion makes the library's completion command refuse what it does not
// know: by itself it would print its help and succeed.
func dressCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Example = "  " + root.Name() + " completion bash > /etc/bash_completion.d/" + root.Name()
		cmd.RunE = func(*cobra.Command, []string) error {
			return Usage("name a shell: bash, fish, powershell, zsh")
		}
	}
}
