package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// startLimit bounds a server's start when the caller's context has no earlier deadline. It is generous: with two cores under a
	// full test run a start of 3 s can take ten times that.
	startLimit = 90 * time.Second
	pollEvery  = 25 * time.Millisecond
)

// until polls a condition until it answers nil, the context ends, or the process (when given) ends. The error of a context that ended
// holds the condition's last answer.
func until(ctx context.Context, p *Process, what string, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var ended <-chan struct{}
	if p != nil {
		ended = p.Done()
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return p.exited()
		case <-ctx.Done():
			err = fmt.Errorf("waiting until %s: %w; the last try said: %w", what, ctx.Err(), err)
			if p != nil {
				err = fmt.Errorf("%w\nthe end of the log of %s:\n%s", err, p.name, lastLines(p.Logs(), 25))
			}
			return err
		case <-ticker.C:
		}
	}
}

func portTaken(err error) bool {
	var exited *ExitedError
	return errors.As(err, &exited) && strings.Contains(exited.Logs, "address already in use")
}
