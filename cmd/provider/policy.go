package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/provider/policy"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Print the policy that the provider's login needs",
		Long: `policy prints what the provider must be allowed to do, to be reviewed and then
written by whoever administers OpenBao. It changes nothing.`,
		Example: `  bao-kms-provider policy openbao`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage("name the policy to print: openbao")
		},
	}
	cmd.AddCommand(a.policyOpenBaoCommand())
	return cmd
}

func (a *app) policyOpenBaoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "openbao",
		Short: "Print the least-privilege OpenBao policy, in HCL",
		Long: `policy openbao prints the least-privilege policy, in HCL, for the Transit mount
and key of the configuration. The provider needs nothing more.`,
		Example: `  bao-kms-provider policy openbao | bao policy write openbao-kms-workload-a -`,
		Args:    cobra.NoArgs,
	}
	path := configFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		c, err := a.load(*path)
		if err != nil {
			return err
		}
		_, err = io.WriteString(a.stdout, policy.OpenBao(c.Transit.MountPath, c.Transit.KeyName))
		return err
	}
	return cmd
}
