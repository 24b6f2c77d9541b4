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
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/serve"
)

// app is what the commands share: the process's surroundings, replaced by tests.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string
	// serve runs the provider until ctx ends.
	serve func(ctx context.Context, o serve.Options) error
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
	return cli.Run(ctx, a.root(), args, explain)
}

// explain tells a refused configuration with one line for each problem.
func explain(err error) (int, []string) {
	var refused *config.Error
	if errors.As(err, &refused) {
		return cli.ExitConfiguration, refused.Lines()
	}
	return 0, nil
}
