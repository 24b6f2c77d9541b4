// Command transit is the server that OpenBao forked from, cut down to what this project talks to: a core with its token and policy system,
// the `transit` secrets engine, the `jwt` and `cert` login methods, and a file audit device.
//
// It is for tests and the demo where no `bao` binary is at hand, and takes the same command line and configuration file:
//
//	transit server -config=FILE
//
// It starts uninitialised and sealed, keeps its data over a restart (storage `raft` or `file`; `inmem` forgets), and stops on SIGTERM or
// SIGINT. SIGHUP reloads its TLS certificate. Nothing of it is ever part of the product.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/command/server"
	"github.com/hashicorp/vault/version"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "transit: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: transit server -config=FILE | transit version")
	}
	switch args[0] {
	case "version", "-version", "--version":
		fmt.Println(version.GetVersion().FullVersionNumber(true))
		return nil
	case "server":
		return serve(args[1:])
	default:
		return fmt.Errorf("unknown command %q: this server knows `server -config=FILE` and `version`", args[0])
	}
}

func serve(args []string) error {
	flags := flag.NewFlagSet("transit server", flag.ContinueOnError)
	file := flags.String("config", "", "configuration file, HCL or JSON, as OpenBao takes it")
	level := flags.String("log-level", "", "trace, debug, info, warn or error; wins over log_level in the file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" {
		return errors.New("-config is missing: name a configuration file")
	}
	config, err := server.LoadConfigFile(*file)
	if err != nil {
		return fmt.Errorf("reading the configuration file: %w", err)
	}
	if *level == "" {
		*level = config.LogLevel
	}
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.LevelFromString(*level), Output: os.Stderr})

	// Signals are taken before anything listens, so that an early SIGTERM still ends in an orderly way.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)

	node, err := start(config, logger)
	if err != nil {
		return err
	}
	fmt.Println("==> transit server started; it is sealed until it is unsealed")
	for sig := range signals {
		if sig == syscall.SIGHUP {
			if err := node.reload(); err != nil {
				logger.Error("reloading the TLS certificate failed", "error", err)
			}
			continue
		}
		break
	}
	fmt.Println("==> transit server stopping")
	return node.stop()
}
