package watch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
)

// problem is a failed probe: the reason that is published and the error behind
// it.
type problem struct {
	reason status.Reason
	err    error
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

// probe runs the probes that are due, then publishes. A panic in it is a defect,
// but one that must not take the node's decryption away: it fails the probe.
func (w *Watcher) probe(ctx context.Context, metadata, deep bool) {
	defer func() {
		if recover() != nil {
			w.failMetadata(&problem{status.ProbeFailed, fault.New(fault.Panicked, "probe", "restart the provider and report this as a defect")})
			w.publish()
		}
	}()
	if metadata && !w.metadataProbe(ctx) {
		return // ctx has ended: nothing was learned
	}
	// A deep probe that failed, or that is owed to a key that became active
	// through a recovered save, follows the next successful metadata probe.
	owed := metadata && w.metadata.Reason == "" && w.registry != nil && !w.deepHolds()
	if w.registry != nil && (deep || owed) {
		w.deepProbe(ctx, w.registry.Active())
	}
	if ctx.Err() == nil {
		w.publish()
	}
}

// deepHolds reports whether the last deep probe succeeded for the active key.
func (w *Watcher) deepHolds() bool {
	return w.deep.KeyID == w.registry.Active().KeyID && w.deep.Reason == ""
}

// metadataProbe reads OpenBao's metadata and lets the registry take it in. It
// reports false when ctx ended meanwhile.
func (w *Watcher) metadataProbe(ctx context.Context) bool {
	began := time.Now()
	md, err := w.read(ctx)
	if err == nil {
		// Validated now means: nothing in it is older than the moment before
		// it was asked for.
		err = w.takeIn(ctx, md, began)
	}
	if ctx.Err() != nil {
		return false
	}
	if err == nil || reasonOf(err) == status.EncryptionBlocked {
		// A blocked active version is a finding of valid metadata.
		w.metadata, w.metadataErr = status.Metadata{ValidatedAt: began}, nil
	}
	if err != nil {
		w.failMetadata(err)
	}
	w.observed(w.metadata.Reason)
	w.reportProbe(probeMetadata, began, w.metadata.Reason, w.metadata.Class, err)
	return true
}

// failMetadata records a failed metadata probe. ValidatedAt stays: what was
// validated before goes on ageing.
func (w *Watcher) failMetadata(err error) {
	w.metadata.Reason = reasonOf(err)
	w.metadata.Class = classOf(err)
	w.metadataErr = err
}

func (w *Watcher) observed(reason status.Reason) {
	if w.o.Observer == nil {
		return
	}
	s := "ok"
	if reason != "" {
		s = string(reason)
	}
	w.o.Observer.MetadataObserved(s)
}

// read fetches the key's metadata and the mount's upsert setting and checks
// both against the profile (design: openbao, metadata view and key profile).
func (w *Watcher) read(ctx context.Context) (registry.Metadata, error) {
	key, err := w.o.Transit.ReadKey(ctx)
	if err != nil {
		return registry.Metadata{}, &problem{readReason(err, status.MetadataReadFailed), err}
	}
	disabled, err := w.o.Transit.ReadUpsertDisabled(ctx)
	if err != nil {
		return registry.Metadata{}, &problem{readReason(err, status.UpsertCheckFailed), err}
	}
	if !disabled {
		return registry.Metadata{}, &problem{status.UpsertAllowed,
			fmt.Errorf("the Transit mount lets an encrypt request create keys: set disable_upsert to true in the mount's config/keys")}
	}
	if bad := key.CheckProfile(); len(bad) > 0 {
		texts := make([]string, len(bad))
		for i, v := range bad {
			texts[i] = v.String()
		}
		return registry.Metadata{}, &problem{status.ProfileInvalid,
			fmt.Errorf("the Transit key does not have the required profile: %s", strings.Join(texts, "; "))}
	}
	return registry.Metadata{
		Latest:        key.Latest,
		CreatedAtUnix: key.CreatedAtUnix,
		MinDecryption: key.MinDecryption,
		MinEncryption: key.MinEncryption,
		MinAvailable:  key.MinAvailable,
	}, nil
}

// deepProbe proves one key by a real round trip and records the outcome for it.
func (w *Watcher) deepProbe(ctx context.Context, e *registry.Entry) {
	began := time.Now()
	err := w.o.Transit.RoundTrip(ctx, e.Binding)
	if ctx.Err() != nil {
		return
	}
	w.deep = status.Deep{KeyID: e.KeyID}
	w.deepErr = nil
	if err != nil {
		w.deep.Reason = readReason(err, deepReason(err))
		w.deep.Class = classOf(err)
		w.deepErr = &problem{w.deep.Reason, err}
	}
	w.reportProbe(probeDeep, began, w.deep.Reason, w.deep.Class, err)
}

// deepReason tells a key that could not be tried from one whose answer is wrong.
func deepReason(err error) status.Reason {
	switch fault.CauseOf(err) {
	case fault.ResponseOverLimit, fault.AnswerInvalid, fault.CiphertextRefused:
		return status.DeepProbeInvalid
	}
	return status.DeepProbeFailed
}

// readReason names the failures of a call that have a reason of their own.
func readReason(err error, otherwise status.Reason) status.Reason {
	switch fault.CauseOf(err) {
	case fault.LoginRejected, fault.Unauthenticated, fault.RecoveryDelayed:
		return status.AuthFailed
	case fault.BreakerOpen:
		return status.CircuitBreakerOpen
	}
	return otherwise
}
