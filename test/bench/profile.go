package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/google/pprof/profile"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
	"github.com/baokms/baokms/test/bench/share"
)

// How much is profiled.
const (
	profileTime      = 15 * time.Second
	profileTimeQuick = 3 * time.Second
	// allocationCalls is over how many calls of a method its allocations are counted.
	allocationCalls = 200
)

// exactAllocations in a child's environment has it record every allocation and not a sample.
const exactAllocations = "GODEBUG=memprofilerate=1"

// profileProvider runs the provider's parts in a child, writes a CPU profile of it under load and says whose time it was.
func profileProvider(ctx context.Context, w *world, o options, out io.Writer) error {
	if err := w.startTransit(ctx); err != nil {
		return err
	}
	times, err := profileTimes(ctx, w, o)
	if err != nil {
		return err
	}
	if times.allocations, err = measureAllocations(ctx, w); err != nil {
		return err
	}
	w.clear()
	return times.write(out, o.json)
}

// profileTimes has the child's CPU profile written to the file that the command line names.
func profileTimes(ctx context.Context, w *world, o options) (*timeShares, error) {
	c, k, example, err := startProfiled(ctx, w)
	if err != nil {
		return nil, err
	}
	both := alternating(k.encrypt(example.Plaintext, example.KeyID), k.decrypt(example))
	if _, err := load.Times(ctx, both, mostCallers, 2*warmUp); err != nil {
		return nil, err
	}
	d := profileTime
	if o.quick {
		d = profileTimeQuick
	}
	w.phase(fmt.Sprintf("profiling Encrypt and Decrypt with %d callers for %v", mostCallers, d))
	file := w.path("cpu")
	if err := c.order(order{Do: startCPU, File: file}); err != nil {
		return nil, err
	}
	s, err := load.For(ctx, both, mostCallers, d)
	if err != nil {
		return nil, err
	}
	if err := c.order(order{Do: stopCPU}); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the child's profile: %w", err)
	}
	if err := os.WriteFile(o.profile, raw, 0o644); err != nil {
		return nil, fmt.Errorf("writing the profile: %w", err)
	}
	p, err := profile.ParseData(raw)
	if err != nil {
		return nil, fmt.Errorf("the child's profile: %w", err)
	}
	shares, err := share.Of(p, "cpu")
	if err != nil {
		return nil, err
	}
	// The socket is wanted again.
	if err := c.Stop(); err != nil {
		return nil, err
	}
	return &timeShares{Shares: shares, callers: mostCallers, calls: len(s.Latencies), took: s.Took, file: o.profile}, nil
}

// startProfiled starts the provider's parts in a child and makes a client of it.
func startProfiled(ctx context.Context, w *world, env ...string) (*child, kmsClient, canned, error) {
	c, err := w.startChild(ctx, order{Do: serveProvider, Config: w.files.Config}, env...)
	if err != nil {
		return nil, kmsClient{}, canned{}, err
	}
	k, err := w.dial(w.files.Socket)
	if err != nil {
		return nil, kmsClient{}, canned{}, err
	}
	example, err := exampleOf(ctx, k)
	return c, k, example, err
}

// allocations are the objects that a number of calls of each method allocated.
type allocations map[string]share.Shares

// perCall is how many of them a call of a method made in a layer.
func (a allocations) perCall(method string, layer share.Layer) float64 {
	return float64(a[method].Caused[layer]) / allocationCalls
}

// measureAllocations counts the allocations of an Encrypt and of a Decrypt in the provider's parts. The built provider, if it runs, is
// stopped first: the parts need its socket.
func measureAllocations(ctx context.Context, w *world) (allocations, error) {
	if w.node != nil {
		if err := w.node.Stop(); err != nil {
			return nil, err
		}
	}
	w.phase("counting allocations")
	c, k, example, err := startProfiled(ctx, w, exactAllocations)
	if err != nil {
		return nil, err
	}
	counts := allocations{}
	for _, method := range []struct {
		name string
		do   load.Operation
	}{
		{"Encrypt", k.encrypt(example.Plaintext, example.KeyID)},
		{"Decrypt", k.decrypt(example)},
	} {
		if counts[method.name], err = countAllocations(ctx, w, c, method.do); err != nil {
			return nil, fmt.Errorf("allocations of %s: %w", method.name, err)
		}
	}
	return counts, nil
}

func countAllocations(ctx context.Context, w *world, c *child, do load.Operation) (share.Shares, error) {
	var at [2]*profile.Profile
	for i := range at {
		// The first calls warm up and are not counted.
		if _, err := load.Times(ctx, do, 1, allocationCalls); err != nil {
			return share.Shares{}, err
		}
		file := w.path("allocations")
		if err := c.order(order{Do: writeAllocations, File: file}); err != nil {
			return share.Shares{}, err
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return share.Shares{}, err
		}
		if at[i], err = profile.ParseData(raw); err != nil {
			return share.Shares{}, err
		}
	}
	difference, err := share.Difference(at[0], at[1])
	if err != nil {
		return share.Shares{}, err
	}
	return share.Of(difference, "alloc_objects")
}

// startCPU and stopCPU are a child's.
func (p *player) startCPU(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	p.cpu = f
	return nil
}

func (p *player) stopCPU() error {
	if p.cpu == nil {
		return errors.New("no profile is being taken")
	}
	pprof.StopCPUProfile()
	err := p.cpu.Close()
	p.cpu = nil
	return err
}

// saveAllocations writes all allocations since the child's start. They are in the profile once a collection that began after them is over.
func saveAllocations(path string) error {
	runtime.GC()
	runtime.GC()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
