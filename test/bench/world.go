package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/baokms/baokms/internal/provider/kmsclient"
	"github.com/baokms/baokms/test/stack"
)

// startTimeout bounds the start of one server. The first start on a cold machine reads large binaries from disk.
const startTimeout = 90 * time.Second

// world is everything that a run starts, in one temporary directory.
type world struct {
	*screen
	dir string

	transit *stack.Transit
	files   stack.ProviderFiles
	node    *stack.Provider

	// ends are what ends everything, in the order of the starts.
	ends []func() error
}

func newWorld(s *screen) (*world, error) {
	// Short, because the path of a Unix socket is.
	dir, err := os.MkdirTemp("", "bkbench")
	if err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	w := &world{screen: s, dir: dir}
	w.atEnd(func() error { return os.RemoveAll(dir) })
	return w, nil
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// atEnd has end called when the world is closed, before what was there already.
func (w *world) atEnd(end func() error) { w.ends = append(w.ends, end) }

func (w *world) close() error {
	var errs []error
	for i := len(w.ends) - 1; i >= 0; i-- {
		errs = append(errs, w.ends[i]())
	}
	return errors.Join(errs...)
}

// startTransit starts Transit without an audit device, whose file would be measured too, and writes the provider's configuration. Caps
// admit the most callers that are measured, and no call times out because the machine is slow; everything else is the product's default.
func (w *world) startTransit(ctx context.Context) error {
	w.phase("starting Transit")
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var err error
	if w.transit, err = stack.StartTransit(ctx, stack.TransitOptions{Dir: w.path("transit"), NoAudit: true}); err != nil {
		return fmt.Errorf("starting Transit: %w", err)
	}
	w.atEnd(w.transit.Stop)
	w.files, err = stack.WriteProviderConfig(w.path("node"), w.transit, stack.ProviderConfig{Fields: map[string]any{
		"openbao.timeout":                        callTimeout.String(),
		"server.maxConcurrentStatus":             mostCallers,
		"server.maxConcurrentEncrypt":            mostCallers,
		"server.maxConcurrentDecrypt":            2 * mostCallers,
		"status.probeInterval":                   nil,
		"rotation.activationDelay":               nil,
		"rotation.requireStableObservationCount": nil,
	}})
	return err
}

// startNode starts the built provider.
func (w *world) startNode(ctx context.Context) error {
	w.phase("starting the provider")
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	bins, err := stack.Find()
	if bins.Root == "" {
		return err // of the others, Transit is running already
	}
	binary := filepath.Join(bins.Root, "bin", "bao-kms-provider")
	if _, err := os.Stat(binary); err != nil {
		return errors.New("bin/bao-kms-provider is not built: run make bench, which builds it")
	}
	if w.node, err = stack.StartProvider(ctx, stack.ProviderOptions{Binary: binary, Files: w.files}); err != nil {
		return fmt.Errorf("starting the provider: %w", err)
	}
	w.atEnd(w.node.Stop)
	return nil
}

// startChild starts one of the benchmark's own servers with its first order.
func (w *world) startChild(ctx context.Context, first order, env ...string) (*child, error) {
	c, err := startChild(ctx, env...)
	if err != nil {
		return nil, err
	}
	w.atEnd(c.Stop)
	return c, c.order(first)
}

// dial makes a client of a KMS socket.
func (w *world) dial(path string) (kmsClient, error) {
	c, err := kmsclient.New(path)
	if err != nil {
		return kmsClient{}, fmt.Errorf("the KMS socket: %w", err)
	}
	w.atEnd(c.Close)
	return kmsClient{c}, nil
}

// loadAverage is the machine's load average of the last minute.
func loadAverage() (float64, error) {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("the machine's load: %w", err)
	}
	var load float64
	if _, err := fmt.Sscan(string(raw), &load); err != nil {
		return 0, fmt.Errorf("the machine's load: %q begins with no number", raw)
	}
	return load, nil
}

// residentMemory is how much of a process's memory is in RAM, in bytes.
func residentMemory(pid int) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("the memory of process %d: %w", pid, err)
	}
	return parseResident(string(raw))
}

// parseResident finds VmRSS in the text of /proc/PID/status.
func parseResident(text string) (int64, error) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "VmRSS:")
		if !ok {
			continue
		}
		var kib int64
		if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil || kib <= 0 {
			return 0, fmt.Errorf("VmRSS is %q: want a number of kB", strings.TrimSpace(rest))
		}
		return kib << 10, nil
	}
	return 0, errors.New("the process's status has no VmRSS: it has ended, or this is not Linux")
}
