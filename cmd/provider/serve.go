package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/serve"
	"github.com/baokms/baokms/internal/provider/version"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve KMS v2 to the API server of this node",
		Long: `serve runs the provider: it logs in to OpenBao, proves that the Transit key
works, and only then opens the KMS v2 socket. It logs to standard error and runs
until it gets SIGTERM or SIGINT; then it finishes running calls within 5 s.

It exits with code 3 when the configuration is refused, and with code 5 when it
cannot start within bootstrap.graceTimeout or fails later.`,
		Example: `  bao-kms-provider serve --config /etc/openbao-kms/config.yaml`,
		Args:    cobra.NoArgs,
	}
	path := configFlag(cmd)
	dev := cmd.Flags().Bool("dev", false, "accept plain HTTP to an OpenBao on a loopback IP address; never in production")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := a.serve(cmd.Context(), serve.Options{
			ConfigPath: config.Path(*path, a.getenv),
			Dev:        *dev,
			Build:      version.Get(),
			Logs:       a.stderr,
		})
		var refused *config.Error
		if err == nil || errors.As(err, &refused) {
			return err
		}
		return cli.Exit(cli.ExitRuntime, err)
	}
	return cmd
}
