package main

import (
	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
)

const program = "bao-kms-provider"

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
	root.AddCommand(cli.VersionCommand(program, reportAPIVersion))
	cli.Dress(root, a.stdout, a.stderr)
	return root
}

// configFlag adds --config and returns where its value will be.
func configFlag(cmd *cobra.Command) *string {
	value := cmd.Flags().String("config", "",
		"configuration `file` (default $BAO_KMS_PROVIDER_CONFIG, else /etc/openbao-kms/config.yaml)")
	cli.Complete(cmd, "config", cobra.ShellCompDirectiveDefault)
	return value
}
