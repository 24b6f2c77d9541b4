package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/provider/config"
)

// configReport is the JSON of the config command.
type configReport struct {
	reportHead
	Fingerprint string         `json:"fingerprint"`
	Config      *config.Config `json:"config"`
}

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check the configuration and print it with every default",
		Long: `config reads the configuration as serve does, reports everything that is wrong
with it, or prints what is in effect: the file, the defaults and the overrides
from the environment. It holds no secret, only the paths of files that do.

The fingerprint covers what identifies the key. It must be the same on every
control-plane node of a cluster, and never change while its data exists.`,
		Example: `  bao-kms-provider config --config /etc/openbao-kms/config.yaml
  bao-kms-provider config --output json | jq -r .fingerprint`,
		Args: cobra.NoArgs,
	}
	path, output := configFlag(cmd), cli.OutputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		c, err := a.load(*path)
		if err != nil {
			return err
		}
		if *output == cli.JSON {
			return cli.WriteJSON(a.stdout, configReport{head("EffectiveConfiguration"), c.Fingerprint(), c})
		}
		text, err := c.YAML()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "# fingerprint: %s\n%s", c.Fingerprint(), text)
		return err
	}
	cmd.AddCommand(a.schemaCommand())
	return cmd
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file",
		Long: `schema prints the JSON Schema of the configuration file, for editors and
pipelines. It is made from the same definitions that the provider reads the
file with; the rules between fields are checked by config and serve alone.`,
		Example: `  bao-kms-provider config schema > openbao-kms.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b, err := config.Schema()
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(b)
			return err
		},
	}
}

// load reads the configuration that --config, or the environment, names.
func (a *app) load(flag string) (*config.Config, error) {
	return config.Load(config.Path(flag, a.getenv), config.Getenv(a.getenv))
}
