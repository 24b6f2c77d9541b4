package serve

import (
	"context"
	"log/slog"
	"maps"
	"slices"
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

// logUnused says which settings have no effect in this version. They are
// accepted so that one configuration serves this and later versions.
func (p *provider) logUnused() {
	unused := map[string]bool{
		"server.reportSocketPath":          p.config.Server.ReportSocketPath != "",
		"logging.debugCorrelation.enabled": p.config.Logging.DebugCorrelation.Enabled,
	}
	for _, field := range slices.Sorted(maps.Keys(unused)) {
		if unused[field] {
			p.log.Warn("serve.start", slog.String("reason", field+" is set but has no effect in this version"))
		}
	}
}

// requestObserver counts and logs the requests to OpenBao.
type requestObserver struct {
	metrics *observe.OpenBaoMetrics
	log     *slog.Logger
}

// RequestDone is part of openbao.Observer.
func (o requestObserver) RequestDone(operation, status string, took time.Duration) {
	o.metrics.RequestDone(operation, status, took)
	level := slog.LevelDebug
	if status != openbao.StatusOK {
		level = slog.LevelWarn
	}
	if !o.log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("operation", operation),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
	if status == openbao.StatusOK {
		attrs = append(attrs, slog.String("status", status))
	} else {
		attrs = append(attrs, slog.String("status", "failed"), slog.String("error_class", status))
	}
	o.log.LogAttrs(context.Background(), level, "openbao.request", attrs...)
}

func (p *provider) logShutdown(err error) {
	if err != nil {
		p.log.Error("serve.shutdown", slog.String("status", "failed"), slog.String("error", err.Error()))
		return
	}
	p.log.Info("serve.shutdown", slog.String("status", "ok"))
}

func (p *provider) staleRemoved() {
	p.metrics.SocketRestarted()
	p.log.Info("socket.stale_removed", slog.String("socket", p.config.Server.SocketPath))
}
