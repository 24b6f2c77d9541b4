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
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/controller/plan"
)

// runtimeError says that the cluster or the process would not have it.
func runtimeError(err error) error { return cli.Exit(cli.ExitRuntime, err) }

// app is what the commands share: the process's surroundings, replaced by tests.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string
	// reconcile runs the manager until ctx ends.
	reconcile func(context.Context, *rest.Config, plan.Options) error
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
	return cli.Run(ctx, a.root(), args, nil)
}
