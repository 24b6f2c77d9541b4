package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/diagnose"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that this node needs, and say what to do",
		Long: `doctor makes every check that it can: the configuration, the way to OpenBao, the
login and what it may do, the Transit key, this node's key registry, the socket
and the provider that serves it. A check that fails stops only those that need
it; they are told as skipped.

Run it before the first start, before encryption is turned on (with
--encryption-config), and whenever something is wrong, also while the provider
or the API server is down. It changes nothing, on the node or in OpenBao, but
logs in once. Run it as the provider's user: it looks at files as the provider
does. An EncryptionConfiguration that this user cannot read goes in through
standard input.

It exits with code 0 when nothing failed and with code 4 when a check did.`,
		Example: `  runuser -u openbao-kms -- bao-kms-provider doctor
  runuser -u openbao-kms -- bao-kms-provider doctor \
    --encryption-config /etc/kubernetes/openbao-kms/encryption-config.yaml
  bao-kms-provider doctor --output json |
    jq '.checks[] | select(.result == "fail")'`,
		Args: cobra.NoArgs,
	}
	path, output := configFlag(cmd), cli.OutputFlag(cmd)
	encryption := cmd.Flags().String("encryption-config", "", "`file` with the API server's EncryptionConfiguration, or - for standard input, to check that it leads to this provider")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.answer(cmd.Context(), *path, *output, func(ctx context.Context, o diagnose.Options) (*command.Report, error) {
			o.EncryptionConfig = *encryption
			return diagnose.Doctor(ctx, o), nil
		})
	}
	return cmd
}
