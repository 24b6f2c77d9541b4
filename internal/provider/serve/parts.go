package serve

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/baokms/baokms/internal/provider/backend"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kms"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/store"
	"github.com/baokms/baokms/internal/provider/transit"
	"github.com/baokms/baokms/internal/provider/watch"
)

// bao is the way to OpenBao, watched.
type bao struct {
	*backend.Backend
	// loggedIn is set once a token was seen.
	loggedIn atomic.Bool
}

// connect makes the way to OpenBao without using it.
func (p *provider) connect() (*bao, error) {
	way, err := backend.Open(p.config, backend.Options{
		AllowPlainHTTP: p.o.Dev,
		RequestIDs:     p.config.Logging.LogOpenBaoRequestIDs && p.log.Enabled(context.Background(), slog.LevelDebug),
		Requests:       requestObserver{p.metrics.OpenBao(), p.log},
		Auth:           p.metrics,
		Logger:         p.log,
	})
	if err != nil {
		return nil, err
	}
	b := &bao{Backend: way}
	p.metrics.WatchAuth(b.Login.Method(), b.tokenTTL, b.CertificateTTL())
	p.metrics.WatchBreaker(b.Conn.BreakerState)
	return b, nil
}

// tokenTTL is how long the token is still used: 0 once one was lost, unknown
// before the first.
func (b *bao) tokenTTL() (time.Duration, bool) {
	left := b.Session.Remaining()
	if left > 0 {
		b.loggedIn.Store(true)
	}
	return left, b.loggedIn.Load()
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
		Transit:     b.Transit,
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
		Transit:       boundTransit{b.Transit},
		Discoverer:    w,
		Observer:      p.metrics.KMS(),
		Log:           p.log,
		Caps:          kms.Caps{Status: s.MaxConcurrentStatus, Encrypt: s.MaxConcurrentEncrypt, Decrypt: s.MaxConcurrentDecrypt},
		PluginVersion: p.o.Build.Version,
	})
}
