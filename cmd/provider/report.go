package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/diagnose"
	"github.com/baokms/baokms/internal/provider/process"
	"github.com/baokms/baokms/internal/provider/version"
)

// errCheckFailed ends a command whose report says already what is wrong.
var errCheckFailed = cli.Told(cli.ExitCheckFailed)

// ask answers a command's question with a report.
type ask func(ctx context.Context, o diagnose.Options) (*command.Report, error)

// reports makes cmd one that looks at this node and answers with a report: it
// gets --config and --output, and reads the configuration before it asks, so that
// a refused one ends every command in the same way.
func (a *app) reports(cmd *cobra.Command, question ask) {
	path, output := configFlag(cmd), cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := a.load(*path); err != nil {
			return err
		}
		return a.answer(cmd.Context(), *path, *output, question)
	}
}

// answer asks and writes the report. A credential may be read from here on.
func (a *app) answer(ctx context.Context, path string, output string, question ask) error {
	if err := process.Harden(); err != nil {
		return cli.Exit(cli.ExitRuntime, err)
	}
	r, err := question(ctx, diagnose.Options{
		ConfigPath: config.Path(path, a.getenv),
		Getenv:     a.getenv,
		Build:      version.Get(),
	})
	return a.conclude(r, err, output)
}

// conclude writes a report, if there is one, and turns how it ended into an
// error with its exit code.
func (a *app) conclude(r *command.Report, err error, output string) error {
	if r != nil {
		if written := a.write(r, output); written != nil {
			return errors.Join(err, unwritten(r, written))
		}
	}
	var refused *config.Error
	switch {
	case errors.As(err, &refused), cli.Chosen(err):
		return err
	case err != nil:
		return cli.Exit(cli.ExitRuntime, err)
	case r.Result == command.Fail:
		return errCheckFailed
	}
	return nil
}

// unwritten is the failure to print a report of something that was done: nobody
// may take it for a failure to do it.
func unwritten(r *command.Report, err error) error {
	switch {
	case r.Change != nil && r.Applied:
		return fmt.Errorf("the plan was applied, and the registry's state hash is %s; only the report could not be written: %w", r.NextStateHash, err)
	case len(r.Files) > 0:
		return fmt.Errorf("the files were written; only the report could not be: %w; remove the directory to run init again", err)
	}
	return fmt.Errorf("the report could not be written: %w", err)
}

func (a *app) write(r *command.Report, output string) error {
	if output == cli.JSON {
		return command.WriteJSON(a.stdout, r)
	}
	return command.WriteText(a.stdout, r, a.style())
}

// Widths of text on a terminal.
const (
	narrowest = 40
	widest    = 100 // longer lines are hard to read
)

// style is how text may look: colour only on a terminal and never with NO_COLOR.
func (a *app) style() command.Style {
	columns, terminal := terminalColumns(a.stdout)
	if !terminal {
		return command.Style{}
	}
	return command.Style{
		Color: a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb",
		Width: min(max(columns, narrowest), widest),
	}
}

// terminalColumns is the width of the terminal that w is, false if it is none.
func terminalColumns(w io.Writer) (int, bool) {
	f, ok := w.(*os.File)
	if !ok {
		return 0, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0, false
	case size.Col == 0:
		return 80, true
	}
	return int(size.Col), true
}

// required is the complaint about flags that were not given.
func required(flags ...string) error {
	return cli.Usage("give " + strings.Join(flags, ", "))
}
