// Command bench measures the provider beside what it stands on, in one run on one machine: bare Transit calls, the provider's socket, and
// the socket of a KMS v2 server that does nothing (design: testing, benchmarks). It is run by `make bench`.
//
// It starts a real Transit server, the built provider with a login of least privilege, and the empty server, each in a process of its own,
// in a temporary directory. It ends all of them and removes the directory, also on Ctrl-C and when something fails. Its figures are for
// people: no test is decided by them.
//
//	go run ./test/bench                      the table, in about two minutes
//	go run ./test/bench -quick               the same in less than one, with less to trust
//	go run ./test/bench -output json         for a script
//	go run ./test/bench -profile cpu.pprof   where the provider's time goes instead
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
)

// options are what the command line says.
type options struct {
	quick   bool
	json    bool
	profile string
	rounds  int
	slice   time.Duration
}

func main() {
	if os.Getenv(childEnv) != "" {
		if err := play(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2) // the flag package has said why
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = run(ctx, o, os.Stdout, newScreen(os.Stderr))
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\nInterrupted. Everything that was started has been stopped.")
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "\nThe benchmark failed: %v\n", err)
		os.Exit(1)
	}
}

func parse(args []string, complain io.Writer) (options, error) {
	var o options
	output := "table"
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(complain)
	flags.BoolVar(&o.quick, "quick", false, "a short run: 3 rounds of 200 ms, memory after fewer calls")
	flags.Func("output", "`format` of the result: table or json (default table)", func(value string) error {
		if value != "table" && value != "json" {
			return fmt.Errorf("it is table or json")
		}
		output = value
		return nil
	})
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of the provider's parts under load to this `file` and say whose time it is")
	flags.IntVar(&o.rounds, "rounds", 0, "how often each operation has its turn, 1 to 1000 (default 7)")
	flags.DurationVar(&o.slice, "slice", 0, "how long a turn is, 10ms to 1m (default 500ms)")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o.json = output == "json"
	fallback := load.Plan{Rounds: 7, Slice: 500 * time.Millisecond}
	if o.quick {
		fallback = load.Plan{Rounds: 3, Slice: 200 * time.Millisecond}
	}
	if o.rounds == 0 {
		o.rounds = fallback.Rounds
	}
	if o.slice == 0 {
		o.slice = fallback.Slice
	}
	var wrong string
	switch {
	case flags.NArg() > 0:
		wrong = fmt.Sprintf("%q is not understood: there are only flags", flags.Arg(0))
	case o.rounds < 1 || o.rounds > 1000:
		wrong = fmt.Sprintf("-rounds is %d: give 1 to 1000", o.rounds)
	case o.slice < 10*time.Millisecond || o.slice > time.Minute:
		wrong = fmt.Sprintf("-slice is %v: give 10ms to 1m", o.slice)
	}
	if wrong != "" {
		fmt.Fprintln(complain, "bench:", wrong)
		return options{}, fmt.Errorf("%s", wrong)
	}
	return o, nil
}

// run makes a world, measures in it and takes it down again.
func run(ctx context.Context, o options, out io.Writer, s *screen) (err error) {
	w, err := newWorld(s)
	if err != nil {
		return err
	}
	defer func() {
		s.clear()
		if closeErr := w.close(); err == nil {
			err = closeErr
		}
	}()
	if o.profile != "" {
		return profileProvider(ctx, w, o, out)
	}
	r, err := measure(ctx, w, o)
	if err != nil {
		return err
	}
	s.clear()
	if o.json {
		return r.writeJSON(out)
	}
	return r.writeTable(out)
}
