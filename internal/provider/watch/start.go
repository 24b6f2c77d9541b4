package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/provider/store"
)

// StartError says why the provider did not become healthy at startup.
type StartError struct {
	// Reason is the first reason code.
	Reason status.Reason
	// Permanent is set when waiting cannot help.
	Permanent bool
	Err       error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("startup: %s: %v", e.Reason, e.Err)
}

// Unwrap returns the error of the layer that failed.
func (e *StartError) Unwrap() error { return e.Err }

// Start loads the registry, or makes the first one of a fresh node, and probes
// every retry until the provider can serve, for at most grace. It returns
// nil then, ctx's error when that ended first, else a *StartError; permanent
// errors, such as state of another configuration, are returned at once (design:
// kms-service, startup).
func (w *Watcher) Start(ctx context.Context, grace, retry time.Duration) error {
	if err := w.take(ctx); err != nil {
		return err
	}
	defer w.release()
	inTime, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	for {
		failure := w.load()
		if failure == nil {
			w.probe(inTime, true, true)
			failure = w.failure()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case failure == nil:
			return nil
		case failure.Permanent:
			return failure
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-inTime.Done():
			failure.Err = fmt.Errorf("not ready within bootstrap.graceTimeout %s: %w", grace, failure.Err)
			return failure
		case <-time.After(retry):
		}
	}
}

// load reads the registry once. Files that look wrong stay wrong, but the
// completion of an interrupted save may succeed when the disk is repaired.
func (w *Watcher) load() *StartError {
	if w.loaded {
		return nil
	}
	found, err := w.o.Store.Load(w.o.Fingerprint)
	if err != nil {
		var unfinished *store.SaveError
		if errors.As(err, &unfinished) {
			return &StartError{status.StateSaveFailed, false, err}
		}
		return &StartError{status.StateUnavailable, true, err}
	}
	w.registry, w.loaded = found, true
	if found != nil {
		w.confirm()
	}
	return nil
}

// failure is what keeps the provider from serving, nil if nothing does. With a
// durable registry, two kinds of trouble forbid Encrypt but not a start, because
// they may last while known data must be decrypted: a minimum that blocks the
// active version until the next one is promoted, and a save that fails.
func (w *Watcher) failure() *StartError {
	switch {
	case w.persistence.Reason == status.StateConflict:
		return &StartError{w.persistence.Reason, true, w.persistenceErr}
	case w.persistence.Reason != "" && w.registry == nil:
		return &StartError{w.persistence.Reason, false, w.persistenceErr}
	case w.metadata.Reason == status.EncryptionBlocked:
		return nil // OpenBao would refuse the deep probe for the same reason
	case w.metadata.Reason != "":
		return &StartError{w.metadata.Reason, w.registry == nil && refused(w.metadataErr), w.metadataErr}
	case w.metadata.ValidatedAt.IsZero():
		return &StartError{status.MetadataUnverified, false, errors.New("the first metadata probe got no answer: check the network path to openbao.address")}
	case w.deep.Reason != "":
		return &StartError{w.deep.Reason, false, w.deepErr}
	case !w.deepHolds():
		return &StartError{status.DeepProbePending, false, errors.New("the first deep probe got no answer: check the network path to openbao.address")}
	}
	return nil
}

// refused reports whether a registry would not take the metadata. For a fresh
// node that is final: no probe can give it a history.
func refused(err error) bool {
	var r *registry.Rejection
	return errors.As(err, &r)
}
