package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/diagnose"
)

// sure turns an examination that cannot fail by itself into an answer.
func sure(examine func(context.Context, diagnose.Options) *command.Report) ask {
	return func(ctx context.Context, o diagnose.Options) (*command.Report, error) { return examine(ctx, o), nil }
}

func (a *app) verifyKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify-key",
		Short: "Hold the Transit key against profile and registry",
		Long: `verify-key reads the key's metadata and the mount's upsert setting and holds
them against the profile that the provider needs and against every version that
this node keeps. It encrypts nothing and changes nothing.

It exits with code 4 when the key does not fit or cannot be read.`,
		Example: `  runuser -u openbao-kms -- bao-kms-provider verify-key`,
		Args:    cobra.NoArgs,
	}
	a.reports(cmd, sure(diagnose.VerifyKey))
	return cmd
}

func (a *app) rotationPlanCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotation-plan",
		Short: "Show registry and Transit side by side, and what happens next",
		Long: `rotation-plan shows the versions that this node knows beside those that OpenBao
has, and what will happen next and when, if nothing changes in OpenBao. It
changes nothing: rotation is performed in OpenBao, and the running provider
observes and promotes by itself.

When OpenBao cannot be read, the local state is shown all the same, marked as
not compared, and the exit code is 4.`,
		Example: `  runuser -u openbao-kms -- bao-kms-provider rotation-plan`,
		Args:    cobra.NoArgs,
	}
	a.reports(cmd, sure(diagnose.RotationPlan))
	return cmd
}

func (a *app) verifyRotationCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify-rotation",
		Short: "Check this node before data is rewritten",
		Long: `verify-rotation is rotation-plan with the checks that this node can make before
data is rewritten or versions are retired. Its confidence is limited: one node
cannot know what the others use, what etcd still holds, or what a backup needs,
and the report says so.

It exits with code 4 when a check failed.`,
		Example: `  runuser -u openbao-kms -- \
    bao-kms-provider verify-rotation --output json > node-1.json`,
		Args: cobra.NoArgs,
	}
	a.reports(cmd, sure(diagnose.VerifyRotation))
	return cmd
}
