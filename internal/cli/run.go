package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/provider/command"
)

// The exit codes (design: config-and-cli). The manager has no use for all of them.
const (
	ExitOK = iota
	ExitUnclassified
	ExitUsage
	ExitConfiguration
	ExitCheckFailed
	ExitRuntime
)

// exit is an error whose exit code a command has chosen.
type exit struct {
	code int
	err  error // nil when all has been said already
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// Exit gives err the exit code that the process ends with; nil stays nil.
func Exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exit{code, err}
}

// Told is an error that ends the process with a code and of which nothing more is
// printed: the command's own output says already what is wrong.
func Told(code int) error { return &exit{code, nil} }

// Usage is a complaint about the command line that only a command itself can make.
func Usage(text string) error { return &exit{ExitUsage, errors.New(text)} }

// Chosen reports whether err has an exit code that a command chose.
func Chosen(err error) bool {
	var e *exit
	return errors.As(err, &e)
}

// Explain tells how an error of the program's own kind ends it: with which code,
// unless the command chose another, and with which lines. It returns 0 and nil for
// every other error.
type Explain func(error) (code int, lines []string)

// Run executes a command line and returns the exit code. root must be one that
// Dress has seen, args are without the program's name, explain may be nil. An error
// that comes before a command has begun is one of usage; later ones are
// unclassified unless the command or explain says more.
func Run(ctx context.Context, root *cobra.Command, args []string, explain Explain) int {
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SetArgs(append([]string{}, args...)) // nil would mean the process's own
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	code, lines := ending(err, started, explain)
	for i, line := range lines {
		if i == 0 {
			line = root.Name() + ": " + line
		}
		cmd.PrintErrln(command.Visible(line))
	}
	if code == ExitUsage {
		cmd.PrintErrf("Run '%s --help' for what it takes.\n", cmd.CommandPath())
	}
	return code
}

// ending is the exit code of an error, and the lines that tell it.
func ending(err error, started bool, explain Explain) (code int, lines []string) {
	if explain != nil {
		code, lines = explain(err)
	}
	var chosen *exit
	switch {
	case errors.As(err, &chosen):
		code = chosen.code
	case code != ExitOK:
	case !started:
		code = ExitUsage
	default:
		code = ExitUnclassified
	}
	if told, ok := err.(*exit); ok && told.err == nil {
		return code, nil
	}
	if lines == nil {
		lines = strings.Split(err.Error(), "\n")
	}
	return code, lines
}
