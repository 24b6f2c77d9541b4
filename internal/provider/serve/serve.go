package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/kms"
	"github.com/baokms/baokms/internal/provider/observe"
	"github.com/baokms/baokms/internal/provider/process"
	"github.com/baokms/baokms/internal/provider/socket"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/provider/store"
	"github.com/baokms/baokms/internal/provider/version"
	"github.com/baokms/baokms/internal/provider/watch"
)

// drainTimeout is how long running calls may take after a signal to stop.
const drainTimeout = 5 * time.Second

// Options are what the command line says.
type Options struct {
	// ConfigPath is the configuration file.
	ConfigPath string
	// Dev accepts plain HTTP to an OpenBao on loopback.
	Dev bool
	// Build is this binary's.
	Build version.Info
	// Logs receives the log.
	Logs io.Writer
}

// provider is one run: its parts, in the order in which they are made.
type provider struct {
	o       Options
	config  *config.Config
	log     *slog.Logger
	board   status.Board
	metrics *observe.Metrics
	// correlation is nil unless logging.debugCorrelation is enabled.
	correlation *observe.Correlation
	failed      chan error // of a listener that ended by itself
}

// Run serves until ctx ends, which is a success, or until something fails. A
// *config.Error means that the configuration is not usable; every other error
// is a failure at run time and says in one line which layer failed and what to
// do next.
func Run(ctx context.Context, o Options) error {
	if err := process.Harden(); err != nil { // before anything secret is read
		return err
	}
	var opts []config.Option
	if o.Dev {
		opts = append(opts, config.AllowPlainHTTP)
	}
	c, err := config.Load(o.ConfigPath, opts...)
	if err != nil {
		return err
	}
	p := &provider{o: o, config: c, failed: make(chan error, 4)}
	if p.log, err = observe.NewLogger(o.Logs, c.Logging.Level, c.Logging.Format); err != nil {
		return err
	}
	p.metrics = observe.NewMetrics(o.Build, &p.board)
	p.logStart()
	if err = p.correlate(); err == nil {
		defer p.correlation.Close()
		err = p.run(ctx)
	}
	var refused *config.Error
	if errors.As(err, &refused) {
		refused.File = o.ConfigPath
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil // stopped while it was starting
	}
	p.logShutdown(err)
	return err
}

// run makes the parts, serves, and ends the parts in reverse.
func (p *provider) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	gid, err := p.config.Server.SocketGroup.GID()
	if err != nil {
		return err
	}
	endpoints, err := p.serveHTTP(ctx, gid)
	if err != nil {
		return err
	}
	defer endpoints.shutdown()

	state, err := store.Open(p.config.State.Path)
	if err != nil {
		return err
	}
	defer state.Close()

	bao, err := p.connect()
	if err != nil {
		return err
	}
	defer bao.Close()

	watcher := p.newWatcher(bao, state)
	b := p.config.Bootstrap
	if err := watcher.Start(ctx, time.Duration(b.GraceTimeout), time.Duration(b.RetryInterval)); err != nil {
		return err
	}
	bao.loggedIn.Store(true) // nothing starts without a login
	service, err := p.newService(bao, watcher)
	if err != nil {
		return err
	}
	listener, err := socket.Listen(socket.Options{
		Path:           p.config.Server.SocketPath,
		Mode:           p.config.Server.SocketMode.FileMode(),
		GID:            gid,
		OnStaleRemoved: func() { p.staleRemoved(p.config.Server.SocketPath) },
	})
	if err != nil {
		return err
	}
	return p.serveKMS(ctx, service, listener, watcher)
}

// serveKMS serves the socket and keeps probing until ctx ends or a listener
// fails.
func (p *provider) serveKMS(ctx context.Context, service *kms.Service, listener *socket.Listener, watcher *watch.Watcher) error {
	ctx, stop := context.WithCancel(ctx)
	watcher.Serving(ctx)
	probed := make(chan struct{})
	// Ends with ctx: after a signal nothing new is persisted, also not for the
	// calls that are being finished.
	go func() {
		defer close(probed)
		watcher.Run(ctx)
	}()
	defer func() {
		stop()
		<-probed
	}()
	server := kms.NewServer(service)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	p.log.Info("serve.ready", "socket", p.config.Server.SocketPath)

	var err error
	select {
	case <-ctx.Done():
	case err = <-p.failed:
	case err = <-served:
		served <- nil
		err = fmt.Errorf("KMS socket: serving %s ended: %w; start the provider again", p.config.Server.SocketPath, err)
	}
	drain(server)
	<-served
	return errors.Join(err, listener.Close())
}

// drain stops accepting and lets running calls finish within drainTimeout.
func drain(server *grpc.Server) {
	stop := time.AfterFunc(drainTimeout, server.Stop)
	defer stop.Stop()
	server.GracefulStop()
}
