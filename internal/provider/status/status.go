// Package status holds the one answer to "is this provider healthy, and with
// which key": an immutable View that the watcher replaces and that Status,
// Encrypt, readiness, metrics and the node report all read.
//
// Nothing here calls OpenBao, reads a file, takes a lock or blocks (design:
// overview, invariant 7). A View never changes after New; only its age does,
// which is why a verdict is asked for with a moment. Only watch stores views;
// anything may load them.
package status

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/registry"
)

// Reason is a stable code for why the provider is not healthy (design:
// observability, reason codes). No other value is ever exported.
type Reason string

// The reason codes.
const (
	Starting           Reason = "starting"
	StateUnavailable   Reason = "state_unavailable"
	StatusStale        Reason = "status_stale"
	MetadataUnverified Reason = "metadata_unverified"
	MetadataReadFailed Reason = "metadata_read_failed"
	UpsertCheckFailed  Reason = "upsert_check_failed"
	UpsertAllowed      Reason = "upsert_allowed"
	ProfileInvalid     Reason = "profile_invalid"
	IdentityDrift      Reason = "identity_drift"
	VersionRollback    Reason = "version_rollback"
	VersionsBlocked    Reason = "versions_blocked"
	EncryptionBlocked  Reason = "encryption_blocked"
	StateSaveFailed    Reason = "state_save_failed"
	StateConflict      Reason = "state_conflict"
	DeepProbePending   Reason = "deep_probe_pending"
	DeepProbeFailed    Reason = "deep_probe_failed"
	DeepProbeInvalid   Reason = "deep_probe_invalid"
	CircuitBreakerOpen Reason = "circuit_breaker_open"
	AuthFailed         Reason = "auth_failed"
	ProbeFailed        Reason = "probe_failed"
)

// Metadata is the outcome of the last metadata probe. All its times were read
// from the clock, so that their age is monotonic.
type Metadata struct {
	// ValidatedAt is when metadata was last validated; zero if it never was.
	ValidatedAt time.Time
	// ProbedAt is when the last probe began that ended, however it did: a
	// metadata probe, or a discovery that failed. Zero if there was none.
	ProbedAt time.Time
	// Reason is why the last probe failed, "" if it did not.
	Reason Reason
	// Class is the error class of that failure, if it was a failed call.
	Class fault.Class
	// Seen is the newest metadata that was read and whose key has the required
	// profile, on a mount without upsert; the registry need not have validated
	// it. Its map must not be changed.
	Seen registry.Metadata
	// SeenAt is when the read of it began; zero when there is none.
	SeenAt time.Time
}

// Deep is the outcome of the last deep probe.
type Deep struct {
	// KeyID is the key_id that the probe was for; "" when none has run.
	KeyID string
	// ProbedAt is when it began; zero when none has run.
	ProbedAt time.Time
	// Reason is why it failed, "" if it succeeded.
	Reason Reason
	// Class is the error class of that failure.
	Class fault.Class
}

// Persistence is what became of the last save.
type Persistence struct {
	// Reason is StateSaveFailed, StateConflict or StateUnavailable while that
	// forbids Encrypt, else "".
	Reason Reason
	// Degraded is set while a failed save is outstanding, also when the
	// observation-only exception keeps the provider healthy.
	Degraded bool
	// ConfirmedAt is when state file and checkpoint were last known to hold the
	// published registry: after a load, a save, or a look at both. Zero if they
	// never were.
	ConfirmedAt time.Time
}

// Facts are what a View is made of.
type Facts struct {
	// Starting is set until the KMS socket is about to be served.
	Starting bool
	// Registry is the published registry, nil before there is one.
	Registry    *registry.Registry
	Metadata    Metadata
	Deep        Deep
	Persistence Persistence
	// Rules are those that the registry's transitions follow.
	Rules registry.Rules
	// PromotionAt is the activation deadline of the pending snapshot, in
	// monotonic time: the first metadata probe at or after it may promote. Zero
	// while it does not run.
	PromotionAt time.Time
	// MaxStaleness is status.statusMaxStaleness, DeepInterval
	// status.deepProbeInterval.
	MaxStaleness, DeepInterval time.Duration
}

// View is an immutable answer. Make it with New.
type View struct {
	facts   Facts
	reasons []Reason // all but staleness, in the order in which they are told
	stale   []Reason // the same and StatusStale
}

// New judges facts once, for everything but their age.
func New(f Facts) *View {
	v := &View{facts: f}
	for _, r := range []Reason{f.startReason(), f.Persistence.Reason, f.metadataReason(), f.deepReason()} {
		if r != "" && !slices.Contains(v.reasons, r) {
			v.reasons = append(v.reasons, r)
		}
	}
	// Staleness comes last: the first reason is what the API server is told, and
	// what made the metadata stale says more.
	v.stale = v.reasons
	if !slices.Contains(v.reasons, StatusStale) {
		v.stale = append(slices.Clone(v.reasons), StatusStale)
	}
	return v
}

func (f Facts) startReason() Reason {
	if f.Starting || f.Registry == nil {
		return Starting
	}
	return ""
}

// metadataReason is "" only when the last metadata probe passed every check.
func (f Facts) metadataReason() Reason {
	switch {
	case f.Metadata.Reason != "":
		return f.Metadata.Reason
	case f.Registry != nil && f.Metadata.ValidatedAt.IsZero():
		return MetadataUnverified
	}
	return ""
}

// deepReason is "" only when the last deep probe succeeded for the key that is
// active now (design: kms-service, status).
func (f Facts) deepReason() Reason {
	switch {
	case f.Registry == nil:
		return f.Deep.Reason
	case f.Deep.KeyID != f.Registry.Active().KeyID:
		return DeepProbePending
	}
	return f.Deep.Reason
}

// Facts returns what the view was made of.
func (v *View) Facts() Facts { return v.facts }

// Registry is the published registry, nil before there is one.
func (v *View) Registry() *registry.Registry { return v.facts.Registry }

// Verdict is a view's answer at one moment.
type Verdict struct {
	Healthy bool
	// Reasons is empty when healthy; the first one is told as healthz. The
	// caller must not change it.
	Reasons []Reason
	// Stale reports that the metadata is older than status.statusMaxStaleness.
	Stale bool
	// Age is how long ago metadata was validated, 0 if it never was.
	Age time.Duration
	// Active is the snapshot that may encrypt; nil unless healthy.
	Active *registry.Entry
}

// Judge answers for the moment now, which must carry a monotonic reading. It
// does not allocate.
func (v *View) Judge(now time.Time) Verdict {
	d := Verdict{Reasons: v.reasons}
	if at := v.facts.Metadata.ValidatedAt; !at.IsZero() {
		d.Age = now.Sub(at)
		d.Stale = d.Age > v.facts.MaxStaleness
	}
	if d.Stale {
		d.Reasons = v.stale
	}
	if len(d.Reasons) == 0 {
		d.Healthy = true
		d.Active = v.facts.Registry.Active()
	}
	return d
}

// RotationState is "active", "pending" or "unknown" (design: observability).
func (v *View) RotationState() string {
	switch r := v.facts.Registry; {
	case r == nil:
		return "unknown"
	case r.Pending() != nil:
		return "pending"
	}
	return "active"
}

// Board is where the current view hangs: one atomic pointer. The zero Board
// holds a view that says "starting".
type Board struct{ view atomic.Pointer[View] }

var starting = New(Facts{})

// Load returns the current view, never nil.
func (b *Board) Load() *View {
	if v := b.view.Load(); v != nil {
		return v
	}
	return starting
}

// Store replaces the view. Only the watcher calls it.
func (b *Board) Store(v *View) { b.view.Store(v) }
