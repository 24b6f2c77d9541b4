// Command build makes the real servers that tests and the demo run against: it builds each module beside it into bin/servers and shows
// how far it is. What is current is not built again. `make servers` runs it:
//
//	go run ./test/servers/build [NAME ...]
//
// It uses the Go tool and the standard library only, so that a fresh machine with Go and nothing else can run it. It never changes a
// module's files: a go.sum that lacks something is an error. Design: testing.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// servers are the modules, the quickest to build first, so that a machine that cannot build at all says so early.
var servers = []string{"etcd", "transit", "kubectl", "kube-state-metrics", "kube-apiserver"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], newScreen(os.Stdout)); err != nil {
		fmt.Fprintf(os.Stderr, "servers: %v\n", err)
		os.Exit(1)
	}
}

// run builds the named servers, or all when none is named. It stops at the first that fails.
func run(ctx context.Context, names []string, screen *screen) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	tool, err := goVersion(ctx)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = servers
	}
	var stale []*module
	for _, name := range names {
		m, err := loadModule(root, name, tool)
		if err != nil {
			return err
		}
		if !m.current() {
			stale = append(stale, m)
		}
	}
	if len(stale) == 0 {
		screen.line("servers: all current in %s", filepath.Join("bin", "servers"))
		return nil
	}
	if err := os.MkdirAll(filepath.Join(root, "bin", "servers"), 0o755); err != nil {
		return fmt.Errorf("making the folder for the servers: %w", err)
	}
	screen.line("servers: building %d of %d into %s; the first time takes some minutes", len(stale), len(names), filepath.Join("bin", "servers"))
	for _, m := range stale {
		if err := show(ctx, m, screen); err != nil {
			return err
		}
	}
	return nil
}

// show builds one server and keeps its line on the screen up to date.
func show(ctx context.Context, m *module, screen *screen) error {
	start := time.Now()
	var progress progress
	stop := screen.follow(m.name, start, &progress)
	err := m.build(ctx, &progress)
	stop()
	seconds := time.Since(start).Seconds()
	if ctx.Err() != nil {
		return fmt.Errorf("%s: stopped after %.0f s; what was compiled is kept, the next run goes on from there", m.name, seconds)
	}
	if err != nil {
		screen.line("%-15s failed after %.0f s. Its last lines:", m.name, seconds)
		for _, l := range progress.last() {
			screen.line("    %s", l)
		}
		return fmt.Errorf("%s did not build: %w", m.name, err)
	}
	screen.line("%-15s built in %.0f s, %.0f MiB", m.name, seconds, m.size())
	return nil
}

// moduleRoot is the nearest folder upwards that holds test/servers, so that the command runs from anywhere in the checkout.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "test", "servers", servers[0], "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no test/servers here or above: run it inside the checkout")
		}
		dir = parent
	}
}
