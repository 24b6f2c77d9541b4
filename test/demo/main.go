// Command demo shows the product on one machine, from nothing: it starts
// OpenBao's Transit engine, etcd, the provider and a kube-apiserver on loopback
// in a temporary directory, writes a Secret, shows what etcd holds, restarts the
// API server and reads everything back. Then it installs the manager, and shows
// what a plan says at each stage of a rotation and a retirement.
//
// It ends what it started, also on Ctrl-C and when a step fails. With
// DEMO_KEEP=1 it leaves everything running, says how to use it, and waits for
// Ctrl-C. It is run by `make demo`, which builds all of it, kubectl too, and needs
// neither root nor Docker.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/baokms/baokms/test/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	played, closed := run(ctx, newScreen(os.Stdout), os.Getenv("DEMO_KEEP") == "1")
	switch {
	case closed != nil:
		fmt.Fprintf(os.Stderr, "\nThe demo could not clean up after itself: %v\n", closed)
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\nInterrupted. Everything that was started has been stopped.")
	}
	switch {
	case ctx.Err() != nil:
		os.Exit(130)
	case played != nil:
		fmt.Fprintf(os.Stderr, "\nThe demo failed: %v\n", played)
		os.Exit(1)
	case closed != nil:
		os.Exit(1)
	}
}

// run makes a world, plays the story in it and takes the world down again. It
// returns how the story and how the clean-up ended.
func run(ctx context.Context, s *screen, keep bool) (played, closed error) {
	w, err := newWorld(s)
	if err != nil {
		return err, nil
	}
	defer func() {
		if played != nil && ctx.Err() == nil {
			w.explain()
		}
		closed = errors.Join(w.close(), stack.GiveBackPorts())
	}()
	if err := w.play(ctx); err != nil {
		return err, nil
	}
	if keep {
		w.invite()
		<-ctx.Done()
	}
	return nil, nil
}
