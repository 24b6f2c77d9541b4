package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli/clitest"
)

// TestManPages holds docs/man against the command tree; -update writes it.
func TestManPages(t *testing.T) {
	tree := func() *cobra.Command {
		return (&app{stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" }}).root()
	}
	clitest.CheckManPages(t, "../../docs/man", tree, surroundings)
}

// surroundings are what is around a command.
func surroundings(cmd *cobra.Command) clitest.Surroundings {
	path := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), program), " ")
	root := path == ""
	cluster := root || cmd.Flags().Lookup("kubeconfig") != nil
	s := clitest.Surroundings{ExitStatus: []clitest.Term{
		{Name: "0", Text: "success"},
		{Name: "1", Text: "unclassified: for example, the output could not be written"},
		{Name: "2", Text: "usage: a flag or an argument"},
	}}
	if cluster {
		s.ExitStatus = append(s.ExitStatus, clitest.Term{Name: "5", Text: "runtime failure: no cluster, or it refused"})
		s.Environment = append(s.Environment, clitest.Term{Name: "KUBECONFIG", Text: "kubeconfig files, unless --kubeconfig names one"})
		s.Files = append(s.Files, clitest.Term{Name: "~/.kube/config", Text: "the kubeconfig, when none is named"})
	}
	if root || path == "node-reporter" {
		s.Environment = append(s.Environment, clitest.Term{Name: nodeNameVariable, Text: "the name of the Node object, unless --node-name names one"})
	}
	return s
}
