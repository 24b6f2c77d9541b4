package serve

import (
	"context"
	"errors"
	"time"

	"github.com/baokms/baokms/internal/provider/observe"
	"github.com/baokms/baokms/internal/provider/socket"
)

// endpoints are the HTTP listeners that are being served.
type endpoints []*observe.Server

// serveHTTP starts the metrics and health endpoints and the report socket: they
// are up from the beginning and say "starting". gid is the socket's group.
func (p *provider) serveHTTP(ctx context.Context, gid int) (up endpoints, err error) {
	s := p.config.Server
	for _, e := range []struct {
		field, address string
		serve          func(field, address string) (*observe.Server, error)
	}{
		{"server.metricsAddress", s.MetricsAddress, func(field, address string) (*observe.Server, error) {
			return observe.Serve(ctx, field, address, observe.MetricsHandler(p.metrics))
		}},
		{"server.healthAddress", s.HealthAddress, func(field, address string) (*observe.Server, error) {
			return observe.Serve(ctx, field, address, observe.HealthHandler(&p.board))
		}},
		{"server.reportSocketPath", s.ReportSocketPath, func(_, path string) (*observe.Server, error) {
			return p.serveReport(ctx, path, gid)
		}},
	} {
		if e.address == "" {
			continue
		}
		server, err := e.serve(e.field, e.address)
		if err != nil {
			up.shutdown()
			return nil, err
		}
		up = append(up, server)
		// Ends with the endpoint, which shutdown ends.
		go p.watchEndpoint(e.field, server)
	}
	return up, nil
}

// serveReport opens the report socket by the rules of the KMS socket and serves
// the node report on it.
func (p *provider) serveReport(ctx context.Context, path string, gid int) (*observe.Server, error) {
	listener, err := socket.Listen(socket.Options{
		Path:           path,
		Mode:           p.config.Server.SocketMode.FileMode(),
		GID:            gid,
		OnStaleRemoved: func() { p.staleRemoved(path) },
	})
	if err != nil {
		return nil, err
	}
	return observe.ServeListener(ctx, listener, observe.ReportHandler(observe.ReportOptions{
		Views:        &p.board,
		ProviderName: p.config.Transit.KeyIDScope.ProviderName,
		Version:      p.o.Build.Version,
		Fingerprint:  p.config.Fingerprint(),
	})), nil
}

// watchEndpoint reports an endpoint that ended by itself: a provider that can
// no longer be watched stops, and its supervisor starts it again.
func (p *provider) watchEndpoint(field string, server *observe.Server) {
	<-server.Done()
	if err := server.Err(); err != nil {
		p.failed <- errors.New(field + ": the endpoint ended by itself; start the provider again")
	}
}

func (e endpoints) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, server := range e {
		_ = server.Shutdown(ctx)
	}
}
