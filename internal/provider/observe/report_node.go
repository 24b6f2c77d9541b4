package observe

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/report"
)

// ReportOptions are what the node report needs beside the view; all are
// required.
type ReportOptions struct {
	Views Views
	// ProviderName is transit.keyIdScope.providerName, Version the build's,
	// Fingerprint the configuration's.
	ProviderName, Version, Fingerprint string
}

// nodeReport tells one view at one moment, which must be after the view was
// loaded and carry a monotonic reading.
func nodeReport(v *status.View, now time.Time, o ReportOptions) *report.NodeReport {
	facts, verdict := v.Facts(), v.Judge(now)
	r := &report.NodeReport{
		APIVersion:  report.APIVersion,
		Kind:        report.KindNodeReport,
		GeneratedAt: report.At(now),
		Provider:    report.Provider{Name: o.ProviderName, Version: o.Version, Fingerprint: o.Fingerprint},
		Readiness: report.Readiness{
			Ready:               verdict.Healthy,
			Reasons:             make([]string, len(verdict.Reasons)),
			Stale:               verdict.Stale,
			PersistenceDegraded: facts.Persistence.Degraded,
			MetadataErrorClass:  string(facts.Metadata.Class),
			DeepErrorClass:      string(facts.Deep.Class),
		},
		Rotation:     rotation(v, now),
		Snapshots:    snapshots(facts.Registry),
		Preflight:    preflight{o, facts, verdict, now}.judge(),
		Observations: observations(facts, now),
	}
	for i, reason := range verdict.Reasons {
		r.Readiness.Reasons[i] = string(reason)
	}
	if reg := facts.Registry; reg != nil {
		active := keyOf(reg.Active())
		r.ActiveKey = &active
		r.Registry = &report.Registry{Generation: reg.Generation(), StateHash: reg.Hash(), Checkpoint: checkpoint(facts.Persistence)}
	}
	return r
}

func keyOf(e *registry.Entry) report.Key {
	return report.Key{KeyIDHash: e.Binding.KeyIDHash(), TransitVersion: e.TransitVersion}
}

func snapshots(r *registry.Registry) []report.Snapshot {
	if r == nil {
		return []report.Snapshot{}
	}
	all := make([]report.Snapshot, 0, len(r.Entries()))
	for _, e := range r.Entries() {
		all = append(all, report.Snapshot{Key: keyOf(e), State: report.SnapshotState(e.State)})
	}
	return all
}

// rotation tells where the node stands. The promotion is told in the wall clock
// of now, so that a clock that was set does not move it.
func rotation(v *status.View, now time.Time) report.Rotation {
	f := v.Facts()
	told := report.Rotation{State: report.RotationState(v.RotationState())}
	if f.Registry == nil || f.Registry.Pending() == nil {
		return told
	}
	p := f.Registry.Pending()
	told.Pending = &report.Pending{
		Key:          keyOf(p),
		Observations: p.StableObservations,
		Required:     f.Rules.StableObservations,
		Stable:       f.Registry.IsStable(f.Rules),
	}
	if told.Pending.Stable {
		told.Pending.EstimatedPromotion = report.At(roundedUp(onClock(f.PromotionAt, now)))
	}
	return told
}

// onClock is a moment of this process by the wall clock of now. Where the clock
// was set since, the age counts and not what it showed then. Zero stays zero.
func onClock(at, now time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return now.Add(at.Sub(now))
}

// roundedUp is the next whole second: an estimate is not before what it is of.
func roundedUp(at time.Time) time.Time {
	if at.IsZero() || at.Nanosecond() == 0 {
		return at
	}
	return at.Truncate(time.Second).Add(time.Second)
}

func observations(f status.Facts, now time.Time) report.Observations {
	at := func(moment time.Time) report.Time { return report.At(onClock(moment, now)) }
	o := report.Observations{
		Metadata: report.MetadataObservation{ProbedAt: at(f.Metadata.ProbedAt), ValidatedAt: at(f.Metadata.ValidatedAt)},
		State:    report.StateObservation{ConfirmedAt: at(f.Persistence.ConfirmedAt)},
	}
	if md := f.Metadata.Seen; !f.Metadata.SeenAt.IsZero() {
		o.Metadata.Seen = &report.SeenMetadata{
			At:                   at(f.Metadata.SeenAt),
			LatestVersion:        md.Latest,
			MinDecryptionVersion: md.MinDecryption,
			MinEncryptionVersion: md.MinEncryption,
			MinAvailableVersion:  md.MinAvailable,
		}
	}
	if f.Registry != nil && !f.Deep.ProbedAt.IsZero() {
		for _, e := range f.Registry.Entries() {
			if e.KeyID == f.Deep.KeyID {
				o.DeepProbe = report.DeepObservation{ProbedAt: at(f.Deep.ProbedAt), KeyIDHash: e.Binding.KeyIDHash()}
			}
		}
	}
	return o
}

func checkpoint(p status.Persistence) report.CheckpointState {
	switch {
	case p.Reason == status.StateConflict:
		return report.CheckpointConflict
	case p.Degraded || p.Reason == status.StateSaveFailed:
		return report.CheckpointOutstanding
	case p.Reason != "":
		return report.CheckpointUnreadable
	}
	return report.CheckpointConfirmed
}

// classOf is the error class that belongs to a reason of the view.
func (p preflight) classOf(reason status.Reason) fault.Class {
	switch reason {
	case p.facts.Metadata.Reason:
		return p.facts.Metadata.Class
	case p.facts.Deep.Reason:
		return p.facts.Deep.Class
	}
	return fault.ClassNone
}

// maxReportText is the length in bytes of a sentence in a report: a list of
// versions may be long.
const maxReportText = 1024

// clipped cuts a sentence that is too long, and says so.
func clipped(s string) string {
	const mark = " … (cut)"
	if len(s) <= maxReportText {
		return s
	}
	s = s[:maxReportText-len(mark)]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return strings.TrimRight(s, " ,") + mark
}
