package diagnose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/provider/transit"
)

// reasonAutoRotate is a key that rotates by itself.
const reasonAutoRotate = "auto_rotate_enabled"

// checkKey reads the key's metadata. A policy that is known to deny it has been
// told already, and asking would only cost a login.
func checkKey(ctx context.Context, e *exam) finding {
	if e.lacks(toReadMetadata) {
		return skippedFor(authPolicy)
	}
	k, err := e.readKey(ctx)
	if err != nil {
		return e.noKey(err)
	}
	e.take(k)
	return passed(fmt.Sprintf("its latest version is %d", k.Latest))
}

// take keeps what OpenBao says of the key.
func (e *exam) take(k transit.Key) {
	e.key = &k
	e.metadata = registry.Metadata{
		Latest:        k.Latest,
		CreatedAtUnix: k.CreatedAtUnix,
		MinDecryption: k.MinDecryption,
		MinEncryption: k.MinEncryption,
		MinAvailable:  k.MinAvailable,
	}
}

// noKey is a key that could not be read. Where it is not there and something may
// have been encrypted with it, nobody is told to make one.
func (e *exam) noKey(err error) finding {
	f := failure(err)
	switch {
	case fault.CauseOf(err) != fault.KeyMissing:
	case errors.Is(err, openbao.ErrNoMount):
		f.nextStep += e.noMount()
	case e.trace() != noState:
		f.nextStep = "correct transit.keyName, or restore the key from a backup of OpenBao: never create it anew"
	}
	return f
}

// noMount ends the next step where not even the mount is there.
func (e *exam) noMount() string {
	if e.trace() == noState {
		return ", or enable the Transit engine there"
	}
	return "; if the mount is gone, restore OpenBao from a backup: never create the key anew"
}

// cure is the next step against a violation, knowing whether something may have
// been encrypted with the key.
func (e *exam) cure(v transit.ProfileViolation) string {
	if v.Cure == transit.Curable || e.trace() == noState {
		return v.Fix
	}
	const keep = "change neither keyLineageId nor state.path while anything is encrypted"
	if v.Cure == transit.Innate {
		return "restore the key that this node has served with, in OpenBao or in transit.mountPath and transit.keyName: this is another one; " + keep
	}
	return "nothing encrypted is lost; keep the key, " + keep + ", and plan a move to a new key"
}

// checkProfile holds the key against the profile, and tells a key that rotates
// by itself: harmless to the data, but nobody watches the nodes meanwhile.
func checkProfile(_ context.Context, e *exam) finding {
	var told, steps []string
	byFix := map[string][]string{}
	for _, v := range e.key.CheckProfile() {
		told = append(told, fmt.Sprintf("%s is %s and must be %s", v.Field, v.Got, v.Want))
		fix := e.cure(v)
		if !slices.Contains(steps, fix) {
			steps = append(steps, fix)
		}
		byFix[fix] = append(byFix[fix], v.Field)
	}
	const noAutoRotation = "set auto_rotate_period to 0 with an update of the key's config, and rotate when somebody watches the nodes"
	if p := e.key.AutoRotatePeriod; p != 0 {
		told = append(told, fmt.Sprintf("auto_rotate_period is %s, so that OpenBao rotates the key by itself", config.Duration(p)))
		if len(steps) == 0 {
			return warning(reasonAutoRotate, told[0], noAutoRotation)
		}
		steps = append(steps, noAutoRotation)
		byFix[noAutoRotation] = []string{"auto_rotate_period"}
	}
	switch len(steps) {
	case 0:
		return finding{}
	case 1:
		return failed(string(status.ProfileInvalid), strings.Join(told, "; "), steps[0])
	}
	for i, fix := range steps {
		steps[i] = "for " + inWords(byFix[fix]) + ": " + fix
	}
	return failed(string(status.ProfileInvalid), strings.Join(told, "; "), strings.Join(steps, "; "))
}

// checkUpsert asks whether the mount makes keys for encryptions.
func checkUpsert(ctx context.Context, e *exam) finding {
	if e.lacks(toReadUpsert) {
		return skippedFor(authPolicy)
	}
	disabled, err := e.way.Transit.ReadUpsertDisabled(ctx)
	switch {
	case fault.CauseOf(err) == fault.KeyMissing:
		// The class is about the key, which this is not.
		what, next := split(faultOf(err).Detail, "check transit.mountPath")
		if errors.Is(err, openbao.ErrNoMount) {
			next += e.noMount()
		}
		return failed(string(status.UpsertCheckFailed), "the mount's disable_upsert cannot be read: "+what, next)
	case err != nil:
		return failure(err)
	}
	e.upsertDisabled = &disabled
	if !disabled {
		return failed(string(status.UpsertAllowed), "the Transit mount lets an encrypt request create keys, so that a wrong name would make a new key",
			"set disable_upsert to true in the mount's key configuration (config/keys of the mount)")
	}
	return finding{}
}

// breaksEncryption are the fields of the profile without which no encryption can
// be tried.
var breaksEncryption = []string{"type", "derived", "convergent_encryption", "soft_deleted", "supports_encryption", "supports_decryption"}

// checkRoundTrip encrypts and decrypts with the active version, or on a fresh
// node with the one that a first start would make active.
func checkRoundTrip(ctx context.Context, e *exam) finding {
	active := e.registry.Active()
	v := active.TransitVersion
	switch {
	case e.lacks(toEncrypt) || e.lacks(toDecrypt):
		return skippedFor(authPolicy)
	case slices.ContainsFunc(e.key.CheckProfile(), func(p transit.ProfileViolation) bool { return slices.Contains(breaksEncryption, p.Field) }):
		return skippedFor(transitProfile)
	case v > e.metadata.Latest || v < max(e.metadata.MinDecryption, e.metadata.MinAvailable):
		return skippedFor(registryMetadata)
	case e.registry.EncryptionBlocked(e.metadata):
		return failed(string(status.EncryptionBlocked),
			fmt.Sprintf("min_encryption_version %d forbids encryption with version %d, which is active on this node", e.metadata.MinEncryption, v),
			fmt.Sprintf("lower min_encryption_version in OpenBao to %d, or wait until this node has promoted version %d", v, e.metadata.MinEncryption))
	}
	err := e.way.Transit.RoundTrip(ctx, active.Binding)
	if err == nil {
		return passed(fmt.Sprintf("encrypted and decrypted with version %d", v))
	}
	f := failure(err)
	switch fault.CauseOf(err) {
	case fault.ResponseOverLimit, fault.AnswerInvalid, fault.CiphertextRefused:
		f.reason = string(status.DeepProbeInvalid)
	case fault.RequestRefused:
		f.reason = string(status.DeepProbeFailed)
	}
	return f
}
