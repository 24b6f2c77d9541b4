package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
)

// The kinds of probe, for the log.
const (
	probeMetadata  = "metadata"
	probeDeep      = "deep"
	probeDiscovery = "discovery"
	probeState     = "state"
)

// repeatEvery is how often a failure that goes on is logged again.
const repeatEvery = time.Minute

// report remembers what was last logged of one kind of probe, so that a failure
// is logged when it begins, changes and ends, and once a minute between.
type report struct {
	reason status.Reason
	class  fault.Class
	at     time.Time
}

// reportProbe logs a probe's outcome.
func (w *Watcher) reportProbe(kind string, began time.Time, reason status.Reason, class fault.Class, err error) {
	last := w.reports[kind]
	if last == nil {
		last = &report{}
		w.reports[kind] = last
	}
	changed := last.reason != reason || last.class != class
	now := time.Now()
	level, outcome := slog.LevelDebug, "ok"
	switch {
	case reason == "" && changed:
		level = slog.LevelInfo
	case reason == "":
	case changed || now.Sub(last.at) >= repeatEvery:
		level, outcome = slog.LevelWarn, "failed"
	default:
		outcome = "failed"
	}
	if level > slog.LevelDebug {
		*last = report{reason, class, now}
	}
	attrs := []slog.Attr{
		slog.String("probe_kind", kind),
		slog.String("status", outcome),
		slog.Float64("duration_ms", float64(now.Sub(began).Microseconds())/1000),
	}
	if reason != "" {
		attrs = append(attrs, slog.String("reason", string(reason)))
	}
	if class != fault.ClassNone {
		attrs = append(attrs, slog.String("error_class", string(class)))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	w.o.Logger.LogAttrs(context.Background(), level, "status.probe", attrs...)
}

// reportPersistence logs a failed save, a conflict or unreadable state. With the
// observation-only exception the reason is empty, and the failure is still one.
func (w *Watcher) reportPersistence(reason status.Reason, err error) {
	if reason == "" {
		reason = status.StateSaveFailed
	}
	w.reportProbe(probeState, time.Now(), reason, fault.ClassNone, err)
}

// reportPersistenceHealed logs the end of a conflict or of unreadable state.
func (w *Watcher) reportPersistenceHealed() {
	if r := w.reports[probeState]; r != nil && r.reason != "" {
		w.reportProbe(probeState, time.Now(), "", fault.ClassNone, nil)
	}
}

// key are the attributes that name a snapshot in the log.
func key(e *registry.Entry) []any {
	return []any{slog.String("key_id_hash", e.Binding.KeyIDHash()), slog.Int("transit_key_version", e.TransitVersion)}
}

// reportChange logs what a durable transition did.
func (w *Watcher) reportChange(previous, next *registry.Registry, c registry.Change) {
	switch {
	case c.Promoted != 0:
		w.o.Logger.With(key(next.Active())...).Info("key.promoted",
			slog.String("previous_key_id_hash", previous.Active().Binding.KeyIDHash()),
			slog.Int("previous_transit_key_version", previous.Active().TransitVersion))
	case c.Counted:
		w.o.Logger.With(key(next.Pending())...).Info("key.observed",
			slog.Int("stable_observations", next.Pending().StableObservations),
			slog.Bool("stable", c.Stable), slog.Int("superseded", c.Superseded))
	case len(c.Accepted) > 0:
		w.o.Logger.With(key(next.Pending())...).Info("key.discovered",
			slog.Any("accepted", c.Accepted), slog.Int("superseded", c.Superseded))
	}
	if c.ClockRegressed {
		w.o.Logger.Warn("clock.regressed",
			slog.String("error", "the wall clock is behind an earlier event: the order of the recorded timestamps was preserved, and no delay depends on them"))
	}
}

// reportRecovered logs that a failed save has been completed, and what it did.
func (w *Watcher) reportRecovered(previous, next *registry.Registry, c registry.Change) {
	w.reportPersistenceHealed()
	w.o.Logger.With(key(next.Active())...).Info("registry.recovered", slog.Uint64("generation", next.Generation()))
	if previous != nil {
		w.reportChange(previous, next, c)
	}
}
