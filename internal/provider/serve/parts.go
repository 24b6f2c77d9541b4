package serve

import (
	"context"
	"errors"
	"time"

	"github.com/baokms/baokms/internal/provider/auth"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kms"
	"github.com/baokms/baokms/internal/provider/observe"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/store"
	"github.com/baokms/baokms/internal/provider/transit"
	"github.com/baokms/baokms/internal/provider/watch"
)

// probeConns are the connections that probes and logins use beside the calls.
const probeConns = 4

// bao is the way to OpenBao: the connection, the shared token, the key.
type bao struct {
	conn    *openbao.Conn
	session *auth.Session
	transit *transit.Client
}

// connect makes the way to OpenBao without using it.
func (p *provider) connect() (*bao, error) {
	c := p.config
	conn, err := openbao.New(openbao.Options{
		Address:        c.OpenBao.Address,
		CAFile:         c.OpenBao.CACertFile,
		ServerName:     c.OpenBao.TLSServerName,
		Namespace:      c.OpenBao.Namespace,
		Timeout:        time.Duration(c.OpenBao.Timeout),
		AllowPlainHTTP: p.o.Dev,
		MaxConns:       c.Server.MaxConcurrentEncrypt + c.Server.MaxConcurrentDecrypt + probeConns,
		Observer:       requestObserver{p.metrics.OpenBao(), p.log},
	})
	if err != nil {
		return nil, err
	}
	login, err := newLogin(conn, c)
	if err != nil {
		conn.Close()
		return nil, err
	}
	session := auth.NewSession(auth.Options{
		Login:          login,
		Window:         time.Duration(c.Auth.LoginBeforeExpiry),
		LoginTimeout:   time.Duration(c.Auth.LoginTimeout),
		RequestTimeout: time.Duration(c.OpenBao.Timeout),
		Logger:         p.log,
		Observer:       p.metrics,
	})
	client, err := transit.New(conn, session, c.Transit.MountPath, c.Transit.KeyName)
	if err != nil {
		session.Close()
		conn.Close()
		return nil, err
	}
	return &bao{conn, session, client}, nil
}

func newLogin(conn *openbao.Conn, c *config.Config) (auth.Login, error) {
	if c.Auth.Method != config.MethodJWT {
		return nil, refuse("auth.method", "names a method that this version does not log in with", "write jwt and give auth.jwt")
	}
	j := c.Auth.JWT
	return auth.NewJWT(conn, auth.JWTOptions{
		MountPath:    j.MountPath,
		Role:         j.Role,
		File:         j.JWTFile,
		MinRemaining: time.Duration(j.MinRemainingTTL),
		Leeway:       time.Duration(j.ClockSkewLeeway),
		Issuer:       j.ExpectedIssuer,
		Audience:     j.ExpectedAudience,
		Subject:      j.ExpectedSubject,
	}), nil
}

// refuse is an error about a field that only the running provider can judge.
func refuse(field, text, fix string) error {
	return &config.Error{Problems: []config.Problem{{Field: field, Text: text, Fix: fix}}}
}

func (b *bao) close() {
	b.session.Close()
	b.conn.Close()
}

// boundTransit gives kms the Transit client in the terms of its own interface.
type boundTransit struct{ client *transit.Client }

func (t boundTransit) Encrypt(ctx context.Context, b *identity.Binding, plaintext []byte) ([]byte, error) {
	return t.client.Encrypt(ctx, b, plaintext)
}

func (t boundTransit) Decrypt(ctx context.Context, b *identity.Binding, ciphertext []byte) ([]byte, error) {
	return t.client.Decrypt(ctx, b, ciphertext)
}

func (p *provider) newWatcher(b *bao, s *store.Store) *watch.Watcher {
	c := p.config
	return watch.New(watch.Options{
		Transit:     b.transit,
		Store:       s,
		Board:       &p.board,
		Scope:       c.Scope(),
		Fingerprint: c.Fingerprint(),
		Rules: registry.Rules{
			StableObservations: c.Rotation.StableObservationCount,
			RejectRollback:     c.Rotation.RejectVersionRollback,
		},
		ActivationDelay:   time.Duration(c.Rotation.ActivationDelay),
		ProbeInterval:     time.Duration(c.Status.ProbeInterval),
		DeepProbeInterval: time.Duration(c.Status.DeepProbeInterval),
		MaxStaleness:      time.Duration(c.Status.StatusMaxStaleness),
		DiscoveryTimeout:  time.Duration(c.OpenBao.Timeout),
		Logger:            p.log,
		Observer:          p.metrics,
	})
}

func (p *provider) newService(b *bao, w *watch.Watcher) (*kms.Service, error) {
	s := p.config.Server
	return kms.New(kms.Options{
		Views:         &p.board,
		Transit:       boundTransit{b.transit},
		Discoverer:    w,
		Observer:      p.metrics.KMS(),
		Log:           p.log,
		Caps:          kms.Caps{Status: s.MaxConcurrentStatus, Encrypt: s.MaxConcurrentEncrypt, Decrypt: s.MaxConcurrentDecrypt},
		PluginVersion: p.o.Build.Version,
	})
}

// endpoints are the HTTP listeners that are being served.
type endpoints []*observe.Server

// serveHTTP starts the metrics and health endpoints: they are up from the
// beginning and say "starting".
func (p *provider) serveHTTP(ctx context.Context) (up endpoints, err error) {
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
