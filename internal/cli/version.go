package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/provider/version"
)

// versionReport is the JSON of the version command.
type versionReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	version.Info
}

// VersionCommand is a program's version command. apiVersion is that of the
// program's JSON.
func VersionCommand(program, apiVersion string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Long: `version prints the release, the commit and date of the build, whether its tree
had changes that are in no commit (dirty), and the Go version.`,
		Example: "  " + program + " version --output json",
		Args:    cobra.NoArgs,
	}
	output := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := version.Get()
		if *output == JSON {
			return WriteJSON(cmd.OutOrStdout(), versionReport{apiVersion, "Version", v})
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "version:    %s\ncommit:     %s\nbuild date: %s\ndirty:      %t\ngo version: %s\n",
			v.Version, v.Commit, v.BuildDate, v.Dirty, v.GoVersion)
		return err
	}
	return cmd
}

// WriteJSON writes a report, indented and with a newline at its end.
func WriteJSON(w io.Writer, report any) error {
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
