package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/baokms/baokms/test/stack"
)

// startTimeout bounds the start of one server. The first start on a cold machine
// reads large binaries from disk.
const startTimeout = 90 * time.Second

// world is everything that the demo runs, in one temporary directory.
type world struct {
	*screen
	dir  string
	bins stack.Binaries
	// provider and manager are the product's binaries.
	provider, manager string

	// files belong to the node, encryption is the API server's configuration.
	files      stack.ProviderFiles
	encryption string

	transit *stack.Transit
	etcd    *stack.Etcd
	node    *stack.Provider
	api     *stack.APIServer
	kubectl *stack.Kubectl

	// running are the servers to stop, in the order of their start.
	running []*runningServer
}

type runningServer struct {
	name    string
	process process
}

// process is what every server of the stack is.
type process interface {
	Stop() error
	Logs() string
}

func newWorld(s *screen) (*world, error) {
	bins, err := stack.Find()
	if err != nil {
		return nil, err
	}
	w := &world{screen: s, bins: bins}
	w.provider, w.manager = filepath.Join(bins.Root, "bin", "bao-kms-provider"), filepath.Join(bins.Root, "bin", "bao-kms-manager")
	for _, binary := range []string{w.provider, w.manager} {
		if _, err := os.Stat(binary); err != nil {
			return nil, fmt.Errorf("bin/%s is not built: run make demo, which builds it", filepath.Base(binary))
		}
	}
	// Short, because the path of a Unix socket is.
	if w.dir, err = os.MkdirTemp("", "baokms"); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *world) path(names ...string) string {
	return filepath.Join(append([]string{w.dir}, names...)...)
}

func (w *world) startTransit(ctx context.Context) (err error) {
	w.transit, err = stack.StartTransit(ctx, stack.TransitOptions{Dir: w.path("openbao")})
	return w.started("Transit", w.transit, err)
}

func (w *world) startEtcd(ctx context.Context) (err error) {
	w.etcd, err = stack.StartEtcd(ctx, stack.EtcdOptions{Dir: w.path("etcd")})
	return w.started("etcd", w.etcd, err)
}

// writeFiles writes the configurations of the provider and of the API server.
func (w *world) writeFiles() (err error) {
	w.files, err = stack.WriteProviderConfig(w.path("node"), w.transit, stack.ProviderConfig{Fields: map[string]any{
		"rotation.activationDelay": activationDelay.String(),
	}})
	if err != nil {
		return err
	}
	w.encryption = w.path("encryption.yaml")
	config := stack.EncryptionConfig{Provider: stack.ProviderName, Socket: w.files.Socket, Resources: []string{"secrets", "configmaps"}}
	return config.Write(w.encryption)
}

func (w *world) startProvider(ctx context.Context) (err error) {
	w.node, err = stack.StartProvider(ctx, stack.ProviderOptions{Binary: w.provider, Files: w.files})
	return w.started("bao-kms-provider", w.node, err)
}

func (w *world) startAPIServer(ctx context.Context) (err error) {
	w.api, err = stack.StartAPIServer(ctx, stack.APIServerOptions{Etcd: w.etcd, Dir: w.path("apiserver"), EncryptionConfig: w.encryption,
		// Without it a server that stops waits a minute for its watches to end.
		Flags: []string{"--shutdown-watch-termination-grace-period=1s"},
	})
	return w.started("kube-apiserver", w.api, err)
}

// started remembers a server that has to be stopped.
func (w *world) started(name string, p process, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.running = append(w.running, &runningServer{name, p})
	return nil
}

// bounded gives a start its own deadline.
func bounded(ctx context.Context, start func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		return start(ctx)
	}
}

// close stops everything in reverse order and removes the directory.
func (w *world) close() error {
	var errs []error
	for i := len(w.running) - 1; i >= 0; i-- {
		if err := w.running[i].process.Stop(); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", w.running[i].name, err))
		}
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}

// explain prints the end of every server's log after a failure.
func (w *world) explain() {
	for _, r := range w.running {
		lines := strings.Split(strings.TrimSpace(r.process.Logs()), "\n")
		fmt.Fprintf(w.w, "\n--- %s\n%s\n", r.name, strings.Join(lines[max(0, len(lines)-8):], "\n"))
	}
}

// invite says how to use what is left running.
func (w *world) invite() {
	w.title("Everything is running. Ctrl-C stops it and removes " + w.dir)
	w.show("API server", w.api.URL())
	w.show("OpenBao", w.transit.Address())
	w.show("etcd", w.etcd.Endpoint())
	w.show("KMS socket", w.node.Files.Socket)
	w.show("configuration", w.node.Files.Config)
	w.show("log", w.node.Files.Log)
	w.say("KUBECONFIG=%s bin/servers/kubectl describe krp %s", w.kubectl.Kubeconfig(), planName)
	w.say("curl http://%s/ready", w.node.Files.HealthAddress)
	w.say("curl http://%s/metrics", w.node.Files.MetricsAddress)
}
