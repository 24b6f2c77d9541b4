package serve

import (
	"log/slog"
	"maps"
	"slices"
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
