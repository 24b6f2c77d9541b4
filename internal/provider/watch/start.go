package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
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
// every retry until the provider would be healthy, for at most grace. It returns
// nil then, ctx's error when that ended first, else a *StartError; permanent
// errors, such as state of another configuration, are returned at once (design:
// kms-service, startup).
func (w *Watcher) Start(ctx context.Context, grace, retry time.Duration) error {
	if err := w.take(ctx); err != nil {
		return err
	}
	defer w.release()
	loaded, err := w.o.Store.Load(w.o.Fingerprint)
	if err != nil {
		return &StartError{status.StateUnavailable, true, err}
	}
	w.registry = loaded
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	for {
		w.probe(ctx, true, true)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failure := w.failure()
		if failure == nil || failure.Permanent {
			if failure == nil {
				return nil
			}
			return failure
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			failure.Err = fmt.Errorf("not healthy within bootstrap.graceTimeout %s: %w", grace, failure.Err)
			return failure
		case <-time.After(retry):
		}
	}
}

// failure is what keeps the provider from being healthy, nil if nothing does.
func (w *Watcher) failure() *StartError {
	switch {
	case w.persistence.Reason != "":
		return &StartError{w.persistence.Reason, w.persistence.Reason == status.StateConflict, w.persistenceErr}
	case w.metadata.Reason != "":
		return &StartError{w.metadata.Reason, w.registry == nil && refused(w.metadataErr), w.metadataErr}
	case w.deep.Reason != "":
		return &StartError{w.deep.Reason, false, w.deepErr}
	}
	return nil
}

// refused reports whether a registry would not take the metadata. For a fresh
// node that is final: no probe can give it a history.
func refused(err error) bool {
	var r *registry.Rejection
	return errors.As(err, &r)
}
