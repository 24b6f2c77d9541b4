package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// ProviderOptions say how a provider is run. Binary and Files are required.
type ProviderOptions struct {
	// Binary is bao-kms-provider.
	Binary string
	// Files are its configuration and what belongs to it, as WriteProviderConfig wrote them.
	Files ProviderFiles
	// Args are added after `serve --config FILE`.
	Args []string
	// Env is added to the environment, as NAME=value.
	Env []string
	// NoWait returns once the process runs, for a provider that is not meant to come up.
	NoWait bool
}

// Provider is a running bao-kms-provider.
type Provider struct {
	*Process
	Files   ProviderFiles
	options ProviderOptions
}

// StartProvider runs `bao-kms-provider serve` and waits until its KMS socket takes connections. When it ends before, the error is an
// *ExitedError with its exit code and log.
func StartProvider(ctx context.Context, o ProviderOptions) (*Provider, error) {
	if o.Binary == "" || o.Files.Config == "" {
		return nil, errors.New("starting a provider: Binary or Files is missing")
	}
	if err := executable(o.Binary); err != nil {
		return nil, fmt.Errorf("starting a provider: %w", err)
	}
	p := &Provider{Files: o.Files, options: o}
	return p, p.Start(ctx)
}

// Start runs a provider that has ended again, with the same files, and waits as StartProvider does.
func (p *Provider) Start(ctx context.Context) error {
	proc, err := launch(command{
		name: "bao-kms-provider", path: p.options.Binary, env: p.options.Env, logFile: p.Files.Log,
		args: append([]string{"serve", "--config", p.Files.Config}, p.options.Args...),
	})
	if err != nil {
		return err
	}
	p.Process = proc
	if p.options.NoWait {
		return nil
	}
	err = p.WaitServing(ctx)
	if err != nil {
		proc.Kill()
	}
	return err
}

// Restart stops the provider when it runs and starts it again.
func (p *Provider) Restart(ctx context.Context) error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Start(ctx)
}

// WaitServing waits until the KMS socket takes connections, or the provider has ended, which is an *ExitedError.
func (p *Provider) WaitServing(ctx context.Context) error {
	return until(ctx, p.Process, "the provider's KMS socket takes connections", func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", p.Files.Socket)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
