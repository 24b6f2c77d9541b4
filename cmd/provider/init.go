package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/provider/setup"
	"github.com/baokms/baokms/internal/provider/version"
)

func (a *app) initCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init --dir DIRECTORY",
		Short: "Write the files of a first node, and say what to do",
		Long: `init asks nothing: from its flags it writes a configuration file, an
EncryptionConfiguration, an OpenBao policy, and a systemd unit or a static pod
manifest into a new or empty directory. It never overwrites a file, and contacts
nobody. Then it says what to do, in order, in OpenBao and on the node, up to a
Secret that is encrypted.

Values that are identity are bound to everything that will be encrypted and can
never change; they have no defaults, and what the provider would refuse is
refused here.`,
		Example: `  bao-kms-provider init --dir ./openbao-kms \
    --address https://openbao.example.net:8200 --instance-id bao-prod-a \
    --transit-mount transit-kms --transit-key workload-a \
    --provider-name openbao-kms-workload-a --cluster-id workload-a \
    --transit-mount-id transit-kms-prod --key-lineage-id workload-a-2026 \
    --jwt-issuer https://issuer.example.net --jwt-audience openbao \
    --jwt-subject control-plane-node`,
		Args: cobra.NoArgs,
	}
	o := setup.Defaults()
	o.Build = version.Get()
	cmd.Flags().SortFlags = false // they are told by what they are about
	for _, f := range o.Flags() {
		addFlag(cmd, f)
	}
	output := cli.OutputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		r, err := setup.Init(o)
		var wrong *setup.FlagError
		if errors.As(err, &wrong) {
			return cli.Exit(cli.ExitUsage, err)
		}
		return a.conclude(r, err, *output)
	}
	return cmd
}

// addFlag gives cmd a flag that sets what f points to.
func addFlag(cmd *cobra.Command, f setup.Flag) {
	flags := cmd.Flags()
	switch v := f.Value.(type) {
	case *string:
		flags.StringVar(v, f.Name, *v, f.Help)
	case *bool:
		flags.BoolVar(v, f.Name, *v, f.Help)
	case *int:
		flags.IntVar(v, f.Name, *v, f.Help)
	case *[]string:
		flags.StringSliceVar(v, f.Name, slices.Clone(*v), f.Help)
	}
	switch {
	case f.Choices != nil:
		cli.Complete(cmd, f.Name, cobra.ShellCompDirectiveNoFileComp, f.Choices...)
	case f.Name == "dir":
		cli.Complete(cmd, f.Name, cobra.ShellCompDirectiveFilterDirs)
	}
}
