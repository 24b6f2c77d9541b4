package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The values of --output.
const (
	Text = "text"
	JSON = "json"
)

// OutputFlag adds --output and returns where its value will be: Text or JSON.
func OutputFlag(cmd *cobra.Command) *string {
	return ChoiceFlag(cmd, "output", "form of the report: text or json", Text, JSON)
}

// ChoiceFlag adds a flag with a fixed set of values, of which the first is the
// default, and returns where its value will be. There must be one at least.
func ChoiceFlag(cmd *cobra.Command, name, usage string, choices ...string) *string {
	c := &choice{choices[0], choices}
	cmd.Flags().Var(c, name, usage)
	Complete(cmd, name, cobra.ShellCompDirectiveNoFileComp, choices...)
	return &c.value
}

// Complete says how a shell completes the value of a flag: one of choices, or what
// the directive says. The flag must be there.
func Complete(cmd *cobra.Command, flag string, d cobra.ShellCompDirective, choices ...cobra.Completion) {
	// The only error there is, an unknown flag, is a mistake of the caller.
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(choices, d)))
}

// choice is a flag's value.
type choice struct {
	value   string
	choices []string
}

func (c *choice) String() string { return c.value }

// Type names the values in help texts.
func (c *choice) Type() string { return strings.Join(c.choices, "|") }

// Set refuses everything but the choices.
func (c *choice) Set(v string) error {
	if !slices.Contains(c.choices, v) {
		return errors.New("write " + strings.Join(c.choices, " or "))
	}
	c.value = v
	return nil
}
