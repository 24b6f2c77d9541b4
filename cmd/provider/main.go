// Command bao-kms-provider is the KMS v2 provider for OpenBao Transit and its
// operator's tools on a control-plane node (design: config-and-cli).
//
// This package is only the command tree: flags, help, output and exit codes.
// What a command does is in internal/provider. Nothing here makes a decision
// about keys, and nothing imports it.
//
// Standard output carries a command's result and nothing else; errors and logs
// go to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/serve"
)

// Exit codes (design: config-and-cli).
const (
	exitOK = iota
	exitUnclassified
	exitUsage
	exitConfiguration
	exitCheckFailed
	exitRuntime
)

// exitError is an error whose exit code a command has chosen.
type exitError struct {
	code int
	err  error // nil when all has been said already
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

// app is what the commands share: the process's surroundings, replaced by tests.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string
	// serve runs the provider until ctx ends.
	serve func(ctx context.Context, o serve.Options) error

	started bool // a command has begun: later errors are not about its usage
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	a := &app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, serve: serve.Run}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// run executes a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // nil would mean the process's own
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := a.exitCode(err)
	if err != errCheckFailed {
		a.print(err)
	}
	if code == exitUsage {
		fmt.Fprintf(a.stderr, "Run '%s --help' for what it takes.\n", cmd.CommandPath())
	}
	return code
}

// exitCode maps an error to the process's exit code.
func (a *app) exitCode(err error) int {
	var chosen *exitError
	var cfg *config.Error
	switch {
	case errors.As(err, &chosen):
		return chosen.code
	case errors.As(err, &cfg):
		return exitConfiguration
	case !a.started:
		return exitUsage
	}
	return exitUnclassified
}

// print writes an error for a person, a configuration's with one line for each
// problem.
func (a *app) print(err error) {
	lines := strings.Split(err.Error(), "\n")
	var cfg *config.Error
	if errors.As(err, &cfg) {
		lines = cfg.Lines()
	}
	lines[0] = program + ": " + lines[0]
	for _, l := range lines {
		fmt.Fprintln(a.stderr, command.Visible(l)) // it may name a file
	}
}
