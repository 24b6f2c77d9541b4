package watch

import (
	"cmp"
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

// probe runs the probes that are due and publishes what each finds: a finding
// never waits for the next call to OpenBao.
func (w *Watcher) probe(ctx context.Context, metadata, deep bool) {
	w.proved = false
	if metadata {
		w.metadataProbe(ctx)
		if ctx.Err() != nil {
			return // nothing was learned, or nothing may be told any more
		}
		w.publish()
	}
	if w.registry == nil {
		return
	}
	// A deep probe that failed or was left out, or that is owed to a key that
	// became active through a recovered save, follows the next successful
	// metadata probe. A promotion has proved its key already.
	owed := metadata && w.metadata.Reason == "" && (w.deepOwed || !w.deepHolds())
	if !deep && !owed || w.proved {
		return
	}
	if !w.upsertDisabled {
		// Encrypting might create a key (design: overview, invariant 9).
		w.deepOwed = true
		return
	}
	w.deepProbe(ctx, w.registry.Active())
	if ctx.Err() == nil {
		w.publish()
	}
}

// deepHolds reports whether the last deep probe succeeded for the active key.
func (w *Watcher) deepHolds() bool {
	return w.deep.KeyID == w.registry.Active().KeyID && w.deep.Reason == ""
}

// metadataProbe reads OpenBao's metadata and lets the registry take it in. When
// ctx has ended it changes nothing.
func (w *Watcher) metadataProbe(ctx context.Context) {
	began := time.Now()
	err := w.guarded(func() error {
		md, err := w.read(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		w.metadata.Seen, w.metadata.SeenAt = md, began
		return w.takeIn(ctx, md)
	})
	if ctx.Err() != nil {
		return
	}
	if err == nil || reasonOf(err) == status.EncryptionBlocked {
		// Nothing in the metadata is older than the moment before it was asked
		// for. A blocked active version is a finding of valid metadata.
		w.metadata.ValidatedAt = began
	}
	w.endMetadata(began, err)
	w.observed()
	w.reportProbe(probeMetadata, began, w.metadata.Reason, w.metadata.Class, err)
}

// guarded turns a panic into a failed probe: it is a defect, but one that must
// not take the node's decryption away. The value may hold anything and is
// dropped.
func (w *Watcher) guarded(probe func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = &problem{status.ProbeFailed, fault.New(fault.Panicked, "probe", "restart the provider and report this as a defect")}
		}
	}()
	return probe()
}

// endMetadata records how a metadata probe ended. After a failure ValidatedAt
// stays: what was validated before goes on ageing.
func (w *Watcher) endMetadata(began time.Time, err error) {
	w.metadata.ProbedAt = began
	w.metadata.Reason, w.metadata.Class, w.metadataErr = "", fault.ClassNone, err
	if err != nil {
		w.metadata.Reason, w.metadata.Class = reasonOf(err), classOf(err)
	}
}

// observed counts the probe under its reason, a failed save included.
func (w *Watcher) observed() {
	if w.o.Observer == nil {
		return
	}
	outcome := w.metadata.Reason
	if outcome == "" {
		outcome = w.persistence.Reason
	}
	if outcome == "" && w.persistence.Degraded {
		outcome = status.StateSaveFailed
	}
	w.o.Observer.MetadataObserved(string(cmp.Or(outcome, "ok")))
}

// read fetches the key's metadata and the mount's upsert setting and checks
// both against the profile (design: openbao, metadata view and key profile).
func (w *Watcher) read(ctx context.Context) (registry.Metadata, error) {
	w.upsertDisabled = false
	key, err := w.o.Transit.ReadKey(ctx)
	if err != nil {
		return registry.Metadata{}, &problem{readReason(err, status.MetadataReadFailed), err}
	}
	disabled, err := w.o.Transit.ReadUpsertDisabled(ctx)
	if err != nil {
		return registry.Metadata{}, &problem{readReason(err, status.UpsertCheckFailed), err}
	}
	w.upsertDisabled = disabled
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
// When ctx has ended it changes nothing.
func (w *Watcher) deepProbe(ctx context.Context, e *registry.Entry) {
	began := time.Now()
	err := w.guarded(func() error { return w.o.Transit.RoundTrip(ctx, e.Binding) })
	if ctx.Err() != nil {
		return
	}
	w.proved, w.deepOwed = true, false
	w.deep, w.deepErr = status.Deep{KeyID: e.KeyID, ProbedAt: began}, nil
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
