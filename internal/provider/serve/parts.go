package serve

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/baokms/baokms/internal/provider/auth"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kms"
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
	// loggedIn is set once a token was seen.
	loggedIn atomic.Bool
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
		RequestIDs:     c.Logging.LogOpenBaoRequestIDs && p.log.Enabled(context.Background(), slog.LevelDebug),
		Observer:       requestObserver{p.metrics.OpenBao(), p.log},
	})
	if err != nil {
		return nil, err
	}
	login, certificateTTL := p.newLogin(conn)
	session := auth.NewSession(auth.Options{
		Login:            login,
		Window:           time.Duration(c.Auth.LoginBeforeExpiry),
		RenewalIncrement: time.Duration(c.Auth.TokenRenewalIncrement),
		LoginTimeout:     time.Duration(c.Auth.LoginTimeout),
		RequestTimeout:   time.Duration(c.OpenBao.Timeout),
		Logger:           p.log,
		Observer:         p.metrics,
	})
	client, err := transit.New(conn, session, c.Transit.MountPath, c.Transit.KeyName)
	if err != nil {
		session.Close()
		conn.Close()
		return nil, err
	}
	b := &bao{conn: conn, session: session, transit: client}
	p.metrics.WatchAuth(login.Method(), b.tokenTTL, certificateTTL)
	p.metrics.WatchBreaker(conn.BreakerState)
	return b, nil
}

// tokenTTL is how long the token is still used: 0 once one was lost, unknown
// before the first.
func (b *bao) tokenTTL() (time.Duration, bool) {
	left := b.session.Remaining()
	if left > 0 {
		b.loggedIn.Store(true)
	}
	return left, b.loggedIn.Load()
}

// newLogin makes the login method that the configuration names, and what tells
// how long its certificate is still valid: nil for a method without one.
func (p *provider) newLogin(conn *openbao.Conn) (auth.Login, func() (time.Duration, bool)) {
	c := p.config
	if c.Auth.Method == config.MethodCert {
		cert := auth.NewCert(conn, auth.CertOptions{
			MountPath:       c.Auth.Cert.MountPath,
			Name:            c.Auth.Cert.Name,
			CertificateFile: c.Auth.Cert.CertificateFile,
			KeyFile:         c.Auth.Cert.KeyFile,
			MinRemaining:    time.Duration(c.Auth.Cert.MinRemainingTTL),
			Logger:          p.log,
		})
		return cert, func() (time.Duration, bool) {
			end, known := cert.NotAfter()
			return max(0, time.Until(end)), known
		}
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
	var correlate func(context.Context, string) (context.Context, func() []slog.Attr)
	if p.correlation != nil {
		correlate = p.correlation.Correlate
	}
	return kms.New(kms.Options{
		Correlate:     correlate,
		Views:         &p.board,
		Transit:       boundTransit{b.transit},
		Discoverer:    w,
		Observer:      p.metrics.KMS(),
		Log:           p.log,
		Caps:          kms.Caps{Status: s.MaxConcurrentStatus, Encrypt: s.MaxConcurrentEncrypt, Decrypt: s.MaxConcurrentDecrypt},
		PluginVersion: p.o.Build.Version,
	})
}
