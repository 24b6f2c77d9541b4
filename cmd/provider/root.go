package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

const program = "bao-kms-provider"

// helpWidth is the width in columns that flags are explained in.
const helpWidth = "80"

// root builds the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   program,
		Short: "Kubernetes KMS v2 provider for OpenBao Transit",
		Long: `bao-kms-provider wraps the data-encryption seeds of kube-apiserver with a key
of the OpenBao Transit secrets engine. It serves KMS v2 on a Unix socket of a
control-plane node; its other commands are the operator's tools on that node.

Exit codes: 0 success, 1 unclassified, 2 usage, 3 configuration, 4 a check
failed, 5 runtime failure.`,
		Example: `  # Will this node work? What is wrong with it?
  bao-kms-provider doctor

  # Serve
  bao-kms-provider serve`,
		SilenceErrors:    true, // run prints them
		SilenceUsage:     true,
		PersistentPreRun: func(*cobra.Command, []string) { a.started = true },
		RunE: func(*cobra.Command, []string) error {
			return usageError("name a command")
		},
	}
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Set up and look:", []*cobra.Command{a.initCommand(), a.configCommand(), a.policyCommand(), a.doctorCommand(), a.benchmarkCommand()}},
		{"Serve:", []*cobra.Command{a.serveCommand()}},
		{"Rotate and retire:", []*cobra.Command{
			a.verifyKeyCommand(), a.rotationPlanCommand(), a.verifyRotationCommand(), a.retireCommand(), a.restoreCommand(),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(a.versionCommand())
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages", ".LocalFlags.FlagUsagesWrapped "+helpWidth,
		".InheritedFlags.FlagUsages", ".InheritedFlags.FlagUsagesWrapped "+helpWidth,
	).Replace(root.UsageTemplate()))
	root.SetOut(a.stdout) // before the completion command, which keeps it
	root.SetErr(a.stderr)
	completeCompletion(root)
	return root
}

// completeCompletion makes the library's completion command refuse what it
// does not know: by itself it would print its help and succeed.
func completeCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Example = `  bao-kms-provider completion bash > /etc/bash_completion.d/bao-kms-provider`
		cmd.RunE = func(*cobra.Command, []string) error {
			return usageError("name a shell: bash, fish, powershell, zsh")
		}
	}
}

// usageError is a complaint about the command line that only a command itself
// can make.
func usageError(text string) error {
	return &exitError{exitUsage, errors.New(text)}
}

// configFlag adds --config and returns where its value will be.
func configFlag(cmd *cobra.Command) *string {
	value := cmd.Flags().String("config", "",
		"configuration `file` (default $BAO_KMS_PROVIDER_CONFIG, else /etc/openbao-kms/config.yaml)")
	complete(cmd, "config", cobra.ShellCompDirectiveDefault)
	return value
}

// complete says how a shell completes the value of a flag: one of choices, or what
// the directive says.
func complete(cmd *cobra.Command, flag string, d cobra.ShellCompDirective, choices ...cobra.Completion) {
	// The only error there is, an unknown flag, is a mistake in this package.
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(choices, d)))
}
