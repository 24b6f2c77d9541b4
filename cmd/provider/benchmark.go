package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/provider/benchmark"
	"github.com/baokms/baokms/internal/provider/process"
	"github.com/baokms/baokms/internal/provider/version"
)

func (a *app) benchmarkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "benchmark",
		Short: "Measure the running provider beside bare Transit calls",
		Long: `benchmark calls Status, Encrypt and Decrypt through the socket of the provider
that runs on this node, and Transit itself with the same configuration, in turns
and in one run. The ratio of the two says what the provider costs; how fast
either is depends on OpenBao and the network.

It encrypts made-up bytes, stays below the provider's caps, ends with the first
call that fails, and writes nothing on the node. It drives OpenBao as fast as
that answers, so whoever shares it notices, and each call is a line in its audit
log: choose a quiet hour, or one caller. It logs in to OpenBao for itself, and
its token lives there until it ends.`,
		Example: `  runuser -u openbao-kms -- bao-kms-provider benchmark
  bao-kms-provider benchmark --callers 1,8,24 --sizes 32,512 \
    --duration 5s --output json`,
		Args: cobra.NoArgs,
	}
	path, output := configFlag(cmd), cli.OutputFlag(cmd)
	flags := cmd.Flags()
	sizes := flags.IntSlice("sizes", nil, "sizes of the plaintexts in bytes (default 32, the API server's seed)")
	callers := flags.IntSlice("callers", nil, "numbers of callers at once (default 1,8)")
	duration := flags.Duration("duration", 0, "how long each series of calls takes (default 1.2s)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.load(*path)
		if err != nil {
			return err
		}
		if err := process.Harden(); err != nil {
			return cli.Exit(cli.ExitRuntime, err)
		}
		progress, width := a.progress()
		r, err := benchmark.Run(cmd.Context(), benchmark.Options{
			Config: c, Build: version.Get(),
			Sizes: *sizes, Callers: *callers, Duration: *duration,
			Progress: progress, ProgressWidth: width,
		})
		var wrong *benchmark.UsageError
		if errors.As(err, &wrong) {
			return cli.Exit(cli.ExitUsage, err)
		}
		return a.conclude(r, err, *output)
	}
	return cmd
}

// progress is where a line may be rewritten in place, and how long it may be:
// standard error, when that is a terminal that can.
func (a *app) progress() (io.Writer, int) {
	if columns, terminal := terminalColumns(a.stderr); terminal && a.getenv("TERM") != "dumb" {
		return a.stderr, columns
	}
	return nil, 0
}
