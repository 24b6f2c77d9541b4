package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kms"
	"github.com/baokms/baokms/internal/provider/observe"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/socket"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/provider/transit"
	"github.com/baokms/baokms/internal/provider/version"
)

// boundTransit gives kms the Transit client in the terms of its own interface.
type boundTransit struct{ client *transit.Client }

func (t boundTransit) Encrypt(ctx context.Context, b *identity.Binding, plaintext []byte) ([]byte, error) {
	return t.client.Encrypt(ctx, b, plaintext)
}

func (t boundTransit) Decrypt(ctx context.Context, b *identity.Binding, ciphertext []byte) ([]byte, error) {
	return t.client.Decrypt(ctx, b, ciphertext)
}

// requestCounter counts the requests to OpenBao as the provider does.
type requestCounter struct{ metrics *observe.OpenBaoMetrics }

func (c requestCounter) RequestDone(_ context.Context, d openbao.Done) {
	c.metrics.RequestDone(string(d.Operation), d.Status, d.Took)
}

// startParts serves KMS v2 with the parts of the provider that a request meets: socket, server, service, Transit client, metrics and log.
// It leaves out the watcher and the files. The product has no profiler in it, so this is what is profiled.
func startParts(configFile string) (stop func() error, err error) {
	var board status.Board
	build := version.Get()
	metrics := observe.NewMetrics(build, &board)
	b, err := connect(context.Background(), configFile, requestCounter{metrics.OpenBao()})
	if err != nil {
		return nil, err
	}
	stopServer, err := serveParts(b, &board, metrics, build)
	if err != nil {
		b.Close()
		return nil, err
	}
	return func() error {
		err := stopServer()
		b.Close()
		return err
	}, nil
}

func serveParts(b *way, board *status.Board, metrics *observe.Metrics, build version.Info) (stop func() error, err error) {
	c := b.config
	view, err := healthyView(b)
	if err != nil {
		return nil, err
	}
	board.Store(view)
	log, err := observe.NewLogger(io.Discard, c.Logging.Level, c.Logging.Format)
	if err != nil {
		return nil, err
	}
	service, err := kms.New(kms.Options{
		Views:         board,
		Transit:       boundTransit{b.Transit},
		Observer:      metrics.KMS(),
		Log:           log,
		Caps:          caps(c),
		PluginVersion: build.Version,
	})
	if err != nil {
		return nil, err
	}
	l, err := socket.Listen(socket.Options{Path: c.Server.SocketPath, Mode: c.Server.SocketMode.FileMode(), GID: -1})
	if err != nil {
		return nil, err
	}
	return serveUntilStopped(kms.NewServer(service), l), nil
}

func caps(c *config.Config) kms.Caps {
	return kms.Caps{
		Status:  c.Server.MaxConcurrentStatus,
		Encrypt: c.Server.MaxConcurrentEncrypt,
		Decrypt: c.Server.MaxConcurrentDecrypt,
	}
}

// healthyView is what the watcher publishes when all is well. Nobody refreshes it here, so it may grow old.
func healthyView(b *way) (*status.View, error) {
	now := time.Now()
	r, err := registry.Bootstrap(b.config.Scope(), b.config.Fingerprint(), registry.Metadata{
		Latest:        b.key.Latest,
		CreatedAtUnix: b.key.CreatedAtUnix,
		MinDecryption: b.key.MinDecryption,
		MinEncryption: b.key.MinEncryption,
		MinAvailable:  b.key.MinAvailable,
	}, now.Unix())
	if err != nil {
		return nil, fmt.Errorf("the key registry: %w", err)
	}
	return status.New(status.Facts{
		Registry:     r,
		Metadata:     status.Metadata{ValidatedAt: now},
		Deep:         status.Deep{KeyID: r.Active().KeyID},
		MaxStaleness: 24 * time.Hour,
	}), nil
}
