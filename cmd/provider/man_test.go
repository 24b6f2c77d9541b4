package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli/clitest"
	"github.com/baokms/baokms/internal/provider/config"
)

// TestManPages holds docs/man against the command tree; -update writes it.
func TestManPages(t *testing.T) {
	tree := func() *cobra.Command { return (&app{stdout: io.Discard, stderr: io.Discard}).root() }
	clitest.CheckManPages(t, "../../docs/man", tree, surroundings)
}

// surroundings are what is around a command. A command that is not named here
// answers with a report about this node.
func surroundings(cmd *cobra.Command) clitest.Surroundings {
	path := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), program), " ")
	root := path == ""
	configured := root || cmd.Flags().Lookup("config") != nil
	printer := path == "config" || path == "policy openbao"
	bare := slices.Contains([]string{"config schema", "policy", "version"}, path) || strings.HasPrefix(path, "completion")
	report := root || path != "serve" && !printer && !bare

	s := clitest.Surroundings{ExitStatus: []clitest.Term{
		{Name: "0", Text: "success"},
		{Name: "1", Text: "unclassified: for example, the output could not be written"},
		{Name: "2", Text: "usage: a flag or an argument"},
	}}
	code := func(name, text string) { s.ExitStatus = append(s.ExitStatus, clitest.Term{Name: name, Text: text}) }
	if configured || report {
		code("3", "configuration: the file is refused")
	}
	if report {
		code("4", "a check failed: the report says which")
	}
	if report || path == "serve" {
		code("5", "runtime failure")
	}
	if configured {
		s.Environment = append(s.Environment,
			clitest.Term{Name: config.EnvConfig, Text: "the configuration file, unless --config names one"},
			clitest.Term{Name: config.EnvLogLevel, Text: "overrides logging.level"},
			clitest.Term{Name: config.EnvMetricsAddress, Text: "overrides server.metricsAddress"},
			clitest.Term{Name: config.EnvHealthAddress, Text: "overrides server.healthAddress"})
		s.Files = append(s.Files, clitest.Term{Name: config.DefaultPath, Text: "the configuration"})
	}
	if report {
		s.Environment = append(s.Environment, clitest.Term{Name: "NO_COLOR", Text: "with any value but an empty one: no colours on a terminal"})
	}
	if configured && !printer {
		s.Files = append(s.Files,
			clitest.Term{Name: "/var/lib/openbao-kms/state/key-registry.json", Text: "the key registry (state.path), with .checkpoint and .lock beside it"},
			clitest.Term{Name: "/run/openbao-kms/kms.sock", Text: "the KMS socket (server.socketPath)"})
	}
	return s
}
