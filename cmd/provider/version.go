package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/provider/version"
)

// versionReport is the JSON of the version command.
type versionReport struct {
	reportHead
	version.Info
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Long: `version prints the release, the commit and date of the build, whether its tree
had changes that are in no commit (dirty), and the Go version.`,
		Example: `  bao-kms-provider version --output json`,
		Args:    cobra.NoArgs,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		v := version.Get()
		if *output == formatJSON {
			return writeJSON(a.stdout, versionReport{head("Version"), v})
		}
		_, err := fmt.Fprintf(a.stdout, "version:    %s\ncommit:     %s\nbuild date: %s\ndirty:      %t\ngo version: %s\n",
			v.Version, v.Commit, v.BuildDate, v.Dirty, v.GoVersion)
		return err
	}
	return cmd
}
