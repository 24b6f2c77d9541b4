package watch

import (
	"context"
	"errors"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/provider/store"
)

// takeIn lets the registry take in fresh metadata. A *problem says why the
// metadata does not validate; a failed save is recorded in w.persistence
// instead, because the metadata was good.
func (w *Watcher) takeIn(ctx context.Context, md registry.Metadata) error {
	now := time.Now().Unix()
	switch {
	case w.o.Store.Attempt() != nil:
		return w.takeInAfterRecovery(md)
	case w.registry == nil:
		return w.bootstrap(md, now)
	}
	if err := w.o.Store.Verify(); err != nil {
		w.failPersistence(err)
		return w.validate(md)
	}
	w.confirm()
	w.reportPersistenceHealed()

	next, change, err := w.registry.Observe(md, w.o.Rules, now)
	if err != nil {
		return asProblem(err)
	}
	if change.Any() && !w.save(next, change) {
		return w.encryptable(md)
	}
	w.arm(md)
	w.promote(ctx, md)
	return w.encryptable(md)
}

// takeInAfterRecovery tries to complete the outstanding save. The repeated save
// is a moment of its own: this metadata validates it, starts the delay of a
// candidate that it made stable, and counts for nothing else.
func (w *Watcher) takeInAfterRecovery(md registry.Metadata) error {
	recovered := w.recover()
	if w.registry == nil {
		return nil // a first save that still fails
	}
	if err := w.registry.Validate(md, w.o.Rules.RejectRollback); err != nil {
		return asProblem(err)
	}
	if recovered {
		w.arm(md)
	}
	return w.encryptable(md)
}

// validate is for a probe that may move nothing.
func (w *Watcher) validate(md registry.Metadata) error {
	if err := w.registry.Validate(md, w.o.Rules.RejectRollback); err != nil {
		return asProblem(err)
	}
	return w.encryptable(md)
}

// encryptable refuses health while OpenBao would not encrypt with the active
// version. Observation goes on all the same.
func (w *Watcher) encryptable(md registry.Metadata) error {
	if !w.registry.EncryptionBlocked(md) {
		return nil
	}
	return &problem{status.EncryptionBlocked, errors.New(
		"min_encryption_version is above the active version: lower it, or wait until the pending version is promoted")}
}

// bootstrap makes and saves generation 1 of a fresh node.
func (w *Watcher) bootstrap(md registry.Metadata, now int64) error {
	first, err := registry.Bootstrap(w.o.Scope, w.o.Fingerprint, md, now)
	if err != nil {
		return asProblem(err)
	}
	if err := w.o.Store.Save(first); err != nil {
		w.failPersistence(err)
		return &problem{w.persistence.Reason, err}
	}
	w.registry = first
	w.confirm()
	w.o.Logger.With(key(first.Active())...).Info("registry.created")
	return w.encryptable(md)
}

// save makes next durable and takes it over. It reports false when the save
// failed: the attempt is then the store's, and w.registry stays.
func (w *Watcher) save(next *registry.Registry, change registry.Change) bool {
	if err := w.o.Store.Save(next); err != nil {
		w.attempted = change
		w.failPersistence(err)
		return false
	}
	previous := w.registry
	w.registry = next
	w.confirm()
	w.reportChange(previous, next, change)
	return true
}

// confirm records that both files hold w.registry.
func (w *Watcher) confirm() {
	w.persistence, w.persistenceErr = status.Persistence{ConfirmedAt: time.Now()}, nil
}

// failPersistence records a failed save or a conflict. The observation-only
// exception keeps the provider healthy: then nothing but a count is missing on
// disk, and both files still hold the last confirmed save. What else the
// exception asks for, valid metadata and a deep probe, the view asks for anyway
// (design: registry, when a save fails).
func (w *Watcher) failPersistence(err error) {
	reason := status.StateSaveFailed
	var conflict *store.ConflictError
	attempt := w.o.Store.Attempt()
	switch {
	case errors.As(err, &conflict):
		reason = status.StateConflict
	case attempt == nil:
		reason = status.StateUnavailable
	case w.registry != nil && w.registry.ObservationOnly(attempt) && w.o.Store.Verify() == nil:
		reason = ""
		w.persistence.ConfirmedAt = time.Now()
	}
	w.persistence.Reason, w.persistence.Degraded, w.persistenceErr = reason, attempt != nil, err
	w.reportPersistence(reason, err)
}

// recover repeats the outstanding save. It reports whether it is durable now.
func (w *Watcher) recover() bool {
	attempt := w.o.Store.Attempt()
	if err := w.o.Store.Retry(); err != nil {
		w.failPersistence(err)
		return false
	}
	previous := w.registry
	w.registry = attempt
	w.confirm()
	// Nothing that happened before the save was durable counts for the delay.
	w.activation = activation{}
	w.reportRecovered(previous, attempt, w.attempted)
	return true
}

// arm starts the activation deadline of a stable candidate that fresh metadata
// has just validated, unless it is running. There is one deadline per candidate
// and process, and only the metadata probe starts it.
func (w *Watcher) arm(md registry.Metadata) {
	p := w.registry.Pending()
	switch {
	case !w.registry.IsStable(w.o.Rules) || md.Latest != p.TransitVersion:
		w.activation = activation{}
	case w.activation.keyID != p.KeyID:
		w.activation = activation{p.KeyID, time.Now().Add(w.o.ActivationDelay)}
	}
}

// promotionAt is the running deadline of the pending snapshot, for the view.
func (w *Watcher) promotionAt() time.Time {
	if w.registry == nil || w.registry.Pending() == nil || w.activation.keyID != w.registry.Pending().KeyID {
		return time.Time{}
	}
	return w.activation.at
}

// delayPassed reports whether the deadline of exactly this candidate has passed.
func (w *Watcher) delayPassed(p *registry.Entry) bool {
	return p != nil && w.activation.keyID == p.KeyID && !time.Now().Before(w.activation.at)
}

// promote promotes when every guard is met. Once the promotion is durable the
// new key is proved while the old one still serves; both are published in the
// same swap, whatever the proof says, because disk is the truth.
func (w *Watcher) promote(ctx context.Context, md registry.Metadata) {
	p := w.registry.Pending()
	next, change, err := w.registry.Promote(md, w.o.Rules, w.delayPassed(p), time.Now().Unix())
	if err != nil || !w.save(next, change) {
		return
	}
	w.activation = activation{}
	w.deepProbe(ctx, next.Active())
}

// asProblem turns a registry's refusal into a failed probe.
func asProblem(err error) error {
	var r *registry.Rejection
	if errors.As(err, &r) {
		return &problem{status.Reason(r.Problem), &refusal{r}}
	}
	return &problem{status.ProbeFailed, err}
}

// refusal is a registry's refusal without the code in front, which the reason
// says already.
type refusal struct{ *registry.Rejection }

func (r *refusal) Error() string { return r.Text() }
func (r *refusal) Unwrap() error { return r.Rejection }

func reasonOf(err error) status.Reason {
	var p *problem
	if errors.As(err, &p) {
		return p.reason
	}
	return status.ProbeFailed
}

// classOf is the error class of a failed call; metadata that was read and
// refused has none.
func classOf(err error) fault.Class {
	var f *fault.Error
	if errors.As(err, &f) {
		return fault.ClassOf(err)
	}
	return fault.ClassNone
}
