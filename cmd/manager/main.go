// Command bao-kms-manager is the optional manager of bao-kms-provider: it
// reconciles KMSRotationPlans, copies a node's report to its KMSNodeReport, and
// shows a plan on a terminal (design: manager).
//
// This package is only the command tree: flags, help, output and exit codes. What a
// command does is in internal/controller. Nothing here makes a decision about keys,
// and nothing imports it.
//
// Standard output carries a command's result and nothing else; errors and logs go
// to standard error.
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

	"k8s.io/client-go/rest"

	"github.com/baokms/baokms/internal/controller/plan"
	"github.com/baokms/baokms/internal/provider/command"
)

// Exit codes: those of bao-kms-provider (design: config-and-cli) that can occur
// here.
const (
	exitOK           = 0
	exitUnclassified = 1
	exitUsage        = 2
	exitRuntime      = 5
)

// exitError is an error whose exit code a command has chosen.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError is a complaint about the command line that only a command itself can
// make.
func usageError(text string) error { return &exitError{exitUsage, errors.New(text)} }

// runtimeError says that the cluster or the process would not have it.
func runtimeError(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitRuntime, err}
}

// app is what the commands share: the process's surroundings, replaced by tests.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string
	// reconcile runs the manager until ctx ends.
	reconcile func(context.Context, *rest.Config, plan.Options) error

	started bool // a command has begun: later errors are not about its usage
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	a := &app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, reconcile: plan.Run}
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
	for i, line := range strings.Split(err.Error(), "\n") {
		if i == 0 {
			line = program + ": " + line
		}
		fmt.Fprintln(a.stderr, command.Visible(line))
	}
	if code == exitUsage {
		fmt.Fprintf(a.stderr, "Run '%s --help' for what it takes.\n", cmd.CommandPath())
	}
	return code
}

// exitCode maps an error to the process's exit code.
func (a *app) exitCode(err error) int {
	var chosen *exitError
	switch {
	case errors.As(err, &chosen):
		return chosen.code
	case !a.started:
		return exitUsage
	}
	return exitUnclassified
}
