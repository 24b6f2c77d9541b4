package stack

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// startLimit bounds a server's start when the caller's context has no earlier deadline. It is generous: with two cores under a
	// full test run a start of 3 s can take ten times that.
	startLimit = 90 * time.Second
	pollEvery  = 25 * time.Millisecond
	// startTries is how often a start is tried when somebody else took the port between choosing and listening.
	startTries = 4
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

// withPorts calls start with free loopback ports, again with others when start fails because one was taken meanwhile.
func withPorts(n int, start func(ports []int) error) error {
	var err error
	for range startTries {
		var ports []int
		if ports, err = freePorts(n); err != nil {
			return err
		}
		if err = start(ports); err == nil || !portTaken(err) {
			return err
		}
	}
	return err
}

func portTaken(err error) bool {
	var exited *ExitedError
	return errors.As(err, &exited) && strings.Contains(exited.Logs, "address already in use")
}

// handedOut are the ports that this program has been given, so that two servers that start at once never get the same.
var handedOut sync.Map

// freePorts finds ports below the range from which the kernel takes the ports of outgoing connections: a server that is down for a while
// then finds its port still free.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := 10000 + rand.IntN(22000)
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		_ = l.Close()
		if _, taken := handedOut.LoadOrStore(port, true); !taken {
			ports = append(ports, port)
		}
	}
	return nil, errors.New("no free loopback port found in 1000 tries")
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
