package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/baokms/baokms/internal/provider/observe"
	"github.com/baokms/baokms/internal/provider/openbao"
)

func (p *provider) logStart() {
	attrs := []any{
		slog.String("version", p.o.Build.Version),
		slog.String("commit", p.o.Build.Commit),
		slog.String("go_version", p.o.Build.GoVersion),
		slog.String("config_file", p.o.ConfigPath),
		slog.String("fingerprint", p.config.Fingerprint()),
	}
	if p.o.Dev {
		p.log.Warn("serve.start", append(attrs, slog.String("reason", "--dev accepts plain HTTP to OpenBao: plaintext and tokens cross the loopback unprotected"))...)
		return
	}
	p.log.Info("serve.start", attrs...)
}

// correlate turns debug correlation on, if the configuration says so.
func (p *provider) correlate() (err error) {
	d := p.config.Logging.DebugCorrelation
	p.correlation, err = observe.NewCorrelation(observe.CorrelationOptions{
		Enabled:    d.Enabled,
		TTL:        time.Duration(d.TTL),
		IncidentID: d.IncidentID,
		Level:      p.config.Logging.Level,
		Logger:     p.log,
		Trace: func(ctx context.Context) (context.Context, func() string) {
			ctx, trace := openbao.WithTrace(ctx)
			return ctx, trace.RequestID
		},
	})
	return err
}

// requestObserver counts and logs the requests to OpenBao.
type requestObserver struct {
	metrics *observe.OpenBaoMetrics
	log     *slog.Logger
}

// RequestDone is part of openbao.Observer.
func (o requestObserver) RequestDone(ctx context.Context, d openbao.Done) {
	o.metrics.RequestDone(string(d.Operation), d.Status, d.Took)
	level := slog.LevelDebug
	if d.Status != openbao.StatusOK {
		level = slog.LevelWarn
	}
	if !o.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("operation", string(d.Operation)),
		slog.Float64("duration_ms", float64(d.Took.Microseconds())/1000),
	}
	if d.Status == openbao.StatusOK {
		attrs = append(attrs, slog.String("status", d.Status))
	} else {
		attrs = append(attrs, slog.String("status", "failed"), slog.String("error_class", d.Status))
	}
	if d.RequestID != "" {
		attrs = append(attrs, slog.String("openbao_request_id", d.RequestID))
	}
	o.log.LogAttrs(ctx, level, "openbao.request", attrs...)
}

func (p *provider) logShutdown(err error) {
	if err != nil {
		p.log.Error("serve.shutdown", slog.String("status", "failed"), slog.String("error", err.Error()))
		return
	}
	p.log.Info("serve.shutdown", slog.String("status", "ok"))
}

func (p *provider) staleRemoved(path string) {
	p.metrics.SocketRestarted()
	p.log.Info("socket.stale_removed", slog.String("socket", path))
}
