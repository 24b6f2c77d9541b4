package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// The benchmark's own servers are this program once more, in processes of their own, so that they share neither heap nor scheduler with the
// callers. A child gets orders on its standard input, one JSON value each, answers each on its standard output, and ends when its input
// does: it cannot outlive its parent, however that ends.

// childEnv in the environment makes this program a child.
const childEnv = "BAOKMS_BENCH_CHILD"

// endTimeout is how long a child may take to end before it is killed.
const endTimeout = 10 * time.Second

// order is one order.
type order struct {
	// Do is one of the orders below.
	Do string `json:"do"`
	// Socket and Canned are for serveEmpty.
	Socket string `json:"socket,omitempty"`
	Canned canned `json:"canned,omitzero"`
	// Config is for serveProvider: the path of a provider's configuration.
	Config string `json:"config,omitempty"`
	// File is where a profile goes.
	File string `json:"file,omitempty"`
}

// The orders.
const (
	serveEmpty       = "serve-empty"
	serveProvider    = "serve-provider"
	startCPU         = "start-cpu"
	stopCPU          = "stop-cpu"
	writeAllocations = "write-allocations"
)

// answer is what a child says when it has carried out an order.
type answer struct {
	Error string `json:"error,omitempty"`
}

// child is a child as its parent sees it. It takes one order at a time.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	// stop ends it the first time that it is called.
	stop func() error
}

// startChild starts a child that ends with ctx at the latest. env is added to the environment.
func startChild(ctx context.Context, env ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the benchmark's own binary: %w", err)
	}
	c := &child{cmd: exec.CommandContext(ctx, self)}
	c.cmd.Env = append(append(os.Environ(), childEnv+"=1"), env...)
	c.cmd.Stderr = os.Stderr
	// A group of its own, so that Ctrl-C at the terminal is the parent's to handle.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.WaitDelay = endTimeout
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("making a child's input: %w", err)
	}
	c.cmd.Cancel = func() error {
		_ = c.in.Close() // it may be closed already
		return nil
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("making a child's output: %w", err)
	}
	c.out = json.NewDecoder(out)
	c.stop = sync.OnceValue(c.end)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a child: %w", err)
	}
	return c, nil
}

// order gives an order and waits until it has been carried out.
func (c *child) order(o order) error {
	if err := json.NewEncoder(c.in).Encode(o); err != nil {
		return fmt.Errorf("%s: giving the order: %w", o.Do, err)
	}
	var a answer
	if err := c.out.Decode(&a); err != nil {
		return fmt.Errorf("%s: the child ended: %w", o.Do, err)
	}
	if a.Error != "" {
		return fmt.Errorf("%s: %s", o.Do, a.Error)
	}
	return nil
}

// Stop ends the child and waits for it. Stopping a child that has ended is no error.
func (c *child) Stop() error { return c.stop() }

func (c *child) end() error {
	timer := time.AfterFunc(endTimeout, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	_ = c.in.Close()
	err := c.cmd.Wait()
	if errors.Is(err, context.Canceled) {
		return nil // the run was interrupted, and the child ended with it
	}
	if err != nil {
		return fmt.Errorf("a child of the benchmark: %w", err)
	}
	return nil
}

// player carries out a child's orders.
type player struct {
	stop []func() error // what ends what was started, in the order of the starts
	cpu  *os.File
}

// play is the whole life of a child.
func play(in io.Reader, out io.Writer) error {
	var p player
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		err := orders.Decode(&o)
		if errors.Is(err, io.EOF) {
			return p.end()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("reading an order: %w", err), p.end())
		}
		var a answer
		if err := p.do(o); err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return errors.Join(fmt.Errorf("answering an order: %w", err), p.end())
		}
	}
}

func (p *player) do(o order) error {
	switch o.Do {
	case serveEmpty:
		stop, err := startEmpty(o.Socket, o.Canned)
		return p.started(stop, err)
	case serveProvider:
		stop, err := startParts(o.Config)
		return p.started(stop, err)
	case startCPU:
		return p.startCPU(o.File)
	case stopCPU:
		return p.stopCPU()
	case writeAllocations:
		return saveAllocations(o.File)
	}
	return errors.New("unknown order")
}

func (p *player) started(stop func() error, err error) error {
	if err == nil {
		p.stop = append(p.stop, stop)
	}
	return err
}

func (p *player) end() error {
	var errs []error
	for i := len(p.stop) - 1; i >= 0; i-- {
		errs = append(errs, p.stop[i]())
	}
	return errors.Join(errs...)
}
