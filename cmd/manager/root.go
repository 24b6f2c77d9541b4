package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/controller/plan/view"
	"github.com/baokms/baokms/internal/provider/version"
)

const program = "bao-kms-manager"

// helpWidth is the width in columns that flags are explained in.
const helpWidth = "80"

// root builds the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   program,
		Short: "One view of a control plane's encryption keys",
		Long: `bao-kms-manager tells for a whole control plane whether every node's
bao-kms-provider is on the same key, when data may be rewritten, and what a
retirement of old key versions would remove and has removed on each node. It
never applies anything on a node, and no Secret is read or written through it:
it can be stopped or deleted at any time.

Exit codes: 0 success, 1 unclassified, 2 usage, 5 runtime failure.`,
		Example: `  # Where does the rotation stand, and what is to be done next?
  bao-kms-manager plan show workload-a-2026q4

  # Reconcile plans, outside of a cluster
  bao-kms-manager run --kubeconfig admin.conf --leader-elect=false`,
		SilenceErrors:    true, // run prints them
		SilenceUsage:     true,
		PersistentPreRun: func(*cobra.Command, []string) { a.started = true },
		RunE: func(*cobra.Command, []string) error {
			return usageError("name a command")
		},
	}
	root.AddCommand(a.runCommand(), a.reporterCommand(), a.planCommand(), a.versionCommand())
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages", ".LocalFlags.FlagUsagesWrapped "+helpWidth,
		".InheritedFlags.FlagUsages", ".InheritedFlags.FlagUsagesWrapped "+helpWidth,
		"for more information about a command", "to learn more",
	).Replace(root.UsageTemplate()))
	root.SetOut(a.stdout) // before the completion command, which keeps it
	root.SetErr(a.stderr)
	completeCompletion(root)
	return root
}

// completeCompletion makes the library's completion command refuse what it does
// not know: by itself it would print its help and succeed.
func completeCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Example = `  bao-kms-manager completion bash > /etc/bash_completion.d/bao-kms-manager`
		cmd.RunE = func(*cobra.Command, []string) error {
			return usageError("name a shell: bash, fish, powershell, zsh")
		}
	}
}

// complete says how a shell completes the value of a flag: one of choices.
func complete(cmd *cobra.Command, flag string, choices ...cobra.Completion) {
	// The only error there is, an unknown flag, is a mistake in this package.
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)))
}

// choice is a flag with a fixed set of values.
type choice struct {
	value   string
	choices []string
}

func (c *choice) String() string { return c.value }

// Type names the values in help texts.
func (c *choice) Type() string { return strings.Join(c.choices, "|") }

// Set refuses everything but the choices.
func (c *choice) Set(v string) error {
	for _, known := range c.choices {
		if v == known {
			c.value = v
			return nil
		}
	}
	return errors.New("write " + strings.Join(c.choices, " or "))
}

// choiceFlag adds a flag whose default is the first choice.
func choiceFlag(cmd *cobra.Command, name, usage string, choices ...string) *choice {
	c := &choice{choices[0], choices}
	cmd.Flags().Var(c, name, usage)
	complete(cmd, name, choices...)
	return c
}

// outputFlag adds --output.
func outputFlag(cmd *cobra.Command) *choice {
	return choiceFlag(cmd, "output", "form of the output: text or json", "text", "json")
}

// versionReport is the JSON of the version command.
type versionReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	version.Info
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Long: `version prints the release, the commit and date of the build, whether its tree
had changes that are in no commit (dirty), and the Go version.`,
		Example: `  bao-kms-manager version --output json`,
		Args:    cobra.NoArgs,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		v := version.Get()
		if output.value == "json" {
			return writeJSON(a.stdout, versionReport{view.APIVersion, "Version", v})
		}
		_, err := fmt.Fprintf(a.stdout, "version:    %s\ncommit:     %s\nbuild date: %s\ndirty:      %t\ngo version: %s\n",
			v.Version, v.Commit, v.BuildDate, v.Dirty, v.GoVersion)
		return err
	}
	return cmd
}

// writeJSON writes a report, indented and with a newline at its end.
func writeJSON(w io.Writer, report any) error {
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
