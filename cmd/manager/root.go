package main

import (
	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/controller/plan/view"
)

const program = "bao-kms-manager"

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
	}
	root.AddCommand(a.runCommand(), a.reporterCommand(), a.planCommand(), cli.VersionCommand(program, view.APIVersion))
	cli.Dress(root, a.stdout, a.stderr)
	return root
}
