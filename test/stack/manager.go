package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// controller is a running bao-kms-manager: one command of it, with its probes on a loopback port of its own.
type controller struct {
	*Process
	binary string
	// args are the command and its flags, but for the address of the probes.
	args []string
	// Log is the path of the file that gets everything it prints, over restarts.
	Log    string
	probes int
	noWait bool
}

// start runs the command for the first time, on a port that is free.
func (c *controller) start(ctx context.Context, dir string) error {
	if err := executable(c.binary); err != nil {
		return fmt.Errorf("starting bao-kms-manager: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making bao-kms-manager's directory: %w", err)
	}
	c.Log = filepath.Join(dir, c.args[0]+".log")
	return withPorts(1, func(ports []int) error {
		c.probes = ports[0]
		return c.Start(ctx)
	})
}

// Start runs a command that has ended again, with the same flags and the same port, and waits until /readyz says that it is ready. When it
// ends before, the error is an *ExitedError.
func (c *controller) Start(ctx context.Context) error {
	p, err := launch(command{
		name: "bao-kms-manager " + c.args[0], path: c.binary, logFile: c.Log,
		// Who it is comes from the flags alone.
		env:  []string{"KUBECONFIG=", "NODE_NAME="},
		args: append(append([]string{}, c.args...), "--probe-address="+loopback(c.probes)),
	})
	if err != nil {
		return err
	}
	c.Process = p
	if c.noWait {
		return nil
	}
	if err = c.WaitReady(ctx); err != nil {
		p.Kill()
	}
	return err
}

// Restart stops the command when it runs and starts it again.
func (c *controller) Restart(ctx context.Context) error {
	if err := c.Stop(); err != nil {
		return err
	}
	return c.Start(ctx)
}

// WaitReady waits until /readyz answers 200, or the command has ended, which is an *ExitedError.
func (c *controller) WaitReady(ctx context.Context) error {
	return until(ctx, c.Process, c.name+" is ready", func(ctx context.Context) error {
		status, said, err := c.Check(ctx, "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz answers %d: %s", status, said)
		}
		return err
	})
}

// Check asks a probe, /healthz or /readyz, and returns the status and the body.
func (c *controller) Check(ctx context.Context, path string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+loopback(c.probes)+path, nil)
	if err != nil {
		return 0, "", fmt.Errorf("asking a probe: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("asking a probe: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return 0, "", fmt.Errorf("reading a probe's answer: %w", err)
	}
	return resp.StatusCode, string(body), nil
}

// ManagerOptions say how a manager is run. Binary, Kubeconfig and Dir are required.
type ManagerOptions struct {
	// Binary is bao-kms-manager.
	Binary string
	// Kubeconfig is who it is; its lease is in the namespace of the kubeconfig.
	Kubeconfig string
	// Dir is where its log is; it is made when it is not there.
	Dir string
	// Args are added after `run` and win over the flags set here.
	Args []string
	// NoWait returns once the process runs, for a manager that is not meant to get ready.
	NoWait bool
}

// Manager is a running `bao-kms-manager run`.
type Manager struct{ controller }

// StartManager runs `bao-kms-manager run`, without metrics, and waits until /readyz says that it is ready: a replica that waits for the
// lease is, too.
func StartManager(ctx context.Context, o ManagerOptions) (*Manager, error) {
	if o.Binary == "" || o.Kubeconfig == "" || o.Dir == "" {
		return nil, errors.New("starting a manager: Binary, Kubeconfig or Dir is missing")
	}
	args := append([]string{"run", "--kubeconfig=" + o.Kubeconfig, "--metrics-address=0"}, o.Args...)
	m := &Manager{controller{binary: o.Binary, args: args, noWait: o.NoWait}}
	return m, m.start(ctx, o.Dir)
}
