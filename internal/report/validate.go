package report

import (
	"errors"
	"math"
	"slices"
)

// head checks what all documents begin with. A Decode has done so before; a
// document may also come from elsewhere in the process.
func head(apiVersion, kind, want string) error {
	return firstOf(
		require(apiVersion == APIVersion, "apiVersion is not %s", APIVersion),
		require(kind == want, "kind is not %s", want))
}

func (p *Problem) validate() error {
	return firstOf(
		head(p.APIVersion, p.Kind, KindProblem),
		require(isCode(p.Reason), "reason is not a code"),
		require(isText(p.Message, maxText), "message is empty, too long or not a line of text"),
		require(isText(p.NextStep, maxText), "nextStep is empty, too long or not a line of text"))
}

func (p *RetirementPlan) validate() error {
	err := firstOf(
		head(p.APIVersion, p.Kind, KindRetirementPlan),
		require(p.BeforeVersion >= 2 && p.BeforeVersion <= math.MaxInt32, "beforeVersion is out of bounds"),
		require(p.RemovedVersions != nil && len(p.RemovedVersions) <= maxSnapshots, "removedVersions are null or too many"),
		require(isKeyIDHash(p.ActiveKeyIDHash), "activeKeyIdHash is malformed"),
		require(isStateHash(p.StateHash), "stateHash is malformed"),
		require(isStateHash(p.NextStateHash), "nextStateHash is malformed"),
		require(p.NextGeneration >= 1 && p.NextGeneration <= math.MaxInt64, "nextGeneration is out of bounds"),
		require((len(p.RemovedVersions) == 0) == (p.StateHash == p.NextStateHash), "nextStateHash does not fit removedVersions"),
		require(len(p.RemovedVersions) == 0 || p.NextGeneration >= 2, "nextGeneration does not fit removedVersions"))
	last := 0
	for _, v := range p.RemovedVersions {
		err = firstOf(err, require(v > last && v < p.BeforeVersion, "removedVersions do not ascend from 1 to below beforeVersion"))
		last = v
	}
	return err
}

func (r *NodeReport) validate() error {
	return firstOf(
		head(r.APIVersion, r.Kind, KindNodeReport),
		require(isTime(r.GeneratedAt), "generatedAt is not a time"),
		require(isText(r.Provider.Name, maxName), "provider.name is empty, too long or not a line of text"),
		require(of(version, r.Provider.Version, 1, maxVersion), "provider.version is malformed"),
		require(isFingerprint(r.Provider.Fingerprint), "provider.fingerprint is malformed"),
		r.Readiness.validate(),
		r.validateRegistry(),
		r.validateSnapshots(),
		r.validateRotation(),
		r.Preflight.validate(),
		r.validateTimes())
}

func (r Readiness) validate() error {
	err := firstOf(
		require(r.Reasons != nil, "readiness.reasons are null"),
		require(len(r.Reasons) <= maxReasons, "readiness.reasons are too many"),
		require(r.Ready == (len(r.Reasons) == 0), "readiness.ready does not fit its reasons"),
		require(!r.Stale || !r.Ready, "readiness.ready although it is stale"),
		require(r.MetadataErrorClass == "" || isCode(r.MetadataErrorClass), "readiness.metadataErrorClass is not a code"),
		require(r.DeepErrorClass == "" || isCode(r.DeepErrorClass), "readiness.deepErrorClass is not a code"))
	for i, reason := range r.Reasons {
		err = firstOf(err,
			require(isCode(reason), "readiness.reasons hold what is not a code"),
			require(!slices.Contains(r.Reasons[:i], reason), "readiness.reasons hold one twice"))
	}
	return err
}

// validateRegistry: registry, active key and snapshots are there together.
func (r *NodeReport) validateRegistry() error {
	if r.Registry == nil {
		return firstOf(
			require(r.ActiveKey == nil, "activeKey is there without registry"),
			require(len(r.Snapshots) == 0, "snapshots are there without registry"),
			require(!r.Readiness.Ready, "readiness.ready without registry"))
	}
	return firstOf(
		require(r.ActiveKey != nil, "registry is there without activeKey"),
		require(r.Registry.Generation >= 1 && r.Registry.Generation <= math.MaxInt64, "registry.generation is out of bounds"),
		require(isStateHash(r.Registry.StateHash), "registry.stateHash is malformed"),
		require(slices.Contains([]CheckpointState{CheckpointConfirmed, CheckpointOutstanding, CheckpointConflict, CheckpointUnreadable}, r.Registry.Checkpoint),
			"registry.checkpoint is not a value of v1"))
}

// validateSnapshots: versions ascend, one is active and is the active key, at
// most one is pending and is the rotation's.
func (r *NodeReport) validateSnapshots() error {
	if r.Snapshots == nil || len(r.Snapshots) > maxSnapshots {
		return errors.New("snapshots are null or too many")
	}
	var active, pending []Key
	hashes := map[string]bool{}
	last := 0
	for _, s := range r.Snapshots {
		switch s.State {
		case SnapshotActive:
			active = append(active, s.Key)
		case SnapshotPending:
			pending = append(pending, s.Key)
		case SnapshotRetired, SnapshotRemoved, SnapshotRejected:
		default:
			return errors.New("snapshots hold a state that is not one of v1")
		}
		if err := firstOf(
			require(s.TransitVersion > last && s.TransitVersion <= math.MaxInt32, "snapshots do not ascend by version, or one is out of bounds"),
			require(isKeyIDHash(s.KeyIDHash), "snapshots hold a malformed keyIdHash"),
			require(!hashes[s.KeyIDHash], "snapshots hold one keyIdHash twice")); err != nil {
			return err
		}
		last, hashes[s.KeyIDHash] = s.TransitVersion, true
	}
	var wantActive, wantPending []Key
	if r.ActiveKey != nil {
		wantActive = []Key{*r.ActiveKey}
	}
	if r.Rotation.Pending != nil {
		wantPending = []Key{r.Rotation.Pending.Key}
	}
	return firstOf(
		require(slices.Equal(active, wantActive), "activeKey is not the one active snapshot"),
		require(slices.Equal(pending, wantPending), "rotation.pending is not the one pending snapshot"))
}

func (r *NodeReport) validateRotation() error {
	p := r.Rotation.Pending
	want := RotationActive
	switch {
	case r.Registry == nil:
		want = RotationUnknown
	case p != nil:
		want = RotationPending
	}
	if r.Rotation.State != want {
		return errors.New("rotation.state does not fit rotation.pending and registry")
	}
	if p == nil {
		return nil
	}
	return firstOf(
		require(r.ActiveKey != nil && p.TransitVersion > r.ActiveKey.TransitVersion, "rotation.pending is not above the active version"),
		require(p.Observations >= 0 && p.Observations <= math.MaxInt32, "rotation.pending.observations is out of bounds"),
		require(p.Required >= 1 && p.Required <= math.MaxInt32, "rotation.pending.required is out of bounds"),
		require(!p.Stable || p.Observations >= p.Required, "rotation.pending.stable with too few observations"),
		require(p.EstimatedPromotion == "" || isTime(p.EstimatedPromotion), "rotation.pending.estimatedPromotion is not a time"),
		require(p.EstimatedPromotion == "" || p.Stable, "rotation.pending.estimatedPromotion of a version that is not stable"))
}

func (p Preflight) validate() error {
	if len(p.Checks) > maxChecks || len(p.CannotKnow) > maxSentences {
		return errors.New("preflight has too many entries")
	}
	var ids []string
	for _, c := range p.Checks {
		if err := c.validate(); err != nil {
			return err
		}
		if slices.Contains(ids, c.ID) {
			return errors.New("preflight.checks hold an id twice")
		}
		ids = append(ids, c.ID)
	}
	for _, id := range CheckIDs {
		if !slices.Contains(ids, id) {
			return errors.New("preflight.checks have no check " + id)
		}
	}
	for _, s := range p.CannotKnow {
		if !isText(s, maxText) {
			return errors.New("preflight.cannotKnow holds what is not a line of text")
		}
	}
	return firstOf(
		require(p.Confidence == ConfidenceLimited, "preflight.confidence is not %s", ConfidenceLimited),
		require(p.Result == Worst(p.Checks), "preflight.result is not the worst of its checks"),
		require(len(p.CannotKnow) > 0, "preflight.cannotKnow is empty"))
}

func (c Check) validate() error {
	told := []string{c.Reason, c.Message, c.NextStep}
	empty := slices.Equal(told, []string{"", "", ""})
	return firstOf(
		require(of(checkID, c.ID, 1, maxCode), "preflight.checks hold a malformed id"),
		require(slices.Contains(worsening, c.Result), "preflight.checks hold a result that is not one of v1"),
		require(slices.Contains([]Basis{BasisMetadata, BasisDeep, BasisState, BasisMemory}, c.Basis), "preflight.checks hold a basis that is not one of v1"),
		require((c.Result == Pass) == empty, "preflight.checks hold a reason for a pass, or none for another result"),
		require(empty || isCode(c.Reason), "preflight.checks hold a reason that is not a code"),
		require(empty || isText(c.Message, maxText) && isText(c.NextStep, maxText), "preflight.checks hold a message or nextStep that is not a line of text"))
}

// validateTimes: nothing was observed after the report was made, and nothing
// validated after it was probed. The spelling makes text order time order.
func (r *NodeReport) validateTimes() error {
	m, d := r.Observations.Metadata, r.Observations.DeepProbe
	times := []Time{m.ProbedAt, m.ValidatedAt, d.ProbedAt, r.Observations.State.ConfirmedAt}
	if s := m.Seen; s != nil {
		if err := firstOf(
			require(isTime(s.At), "observations.metadata.seen.at is not a time"),
			require(s.LatestVersion >= 1 && s.LatestVersion <= math.MaxInt32, "observations.metadata.seen.latestVersion is out of bounds")); err != nil {
			return err
		}
		for _, minimum := range []int{s.MinDecryptionVersion, s.MinEncryptionVersion, s.MinAvailableVersion} {
			if minimum < 0 || minimum > math.MaxInt32 {
				return errors.New("observations.metadata.seen has a minimum out of bounds")
			}
		}
		times = append(times, s.At)
	}
	for _, t := range times {
		if err := firstOf(
			require(t == "" || isTime(t), "observations hold what is not a time"),
			require(t <= r.GeneratedAt, "observations hold a time after generatedAt")); err != nil {
			return err
		}
	}
	return firstOf(
		require(m.ValidatedAt <= m.ProbedAt, "observations.metadata.validatedAt is after probedAt"),
		require(!r.Readiness.Ready || m.ValidatedAt != "" && d.ProbedAt != "", "readiness.ready without observations"),
		require(d.KeyIDHash == "" || isKeyIDHash(d.KeyIDHash), "observations.deepProbe.keyIdHash is malformed"),
		require((d.KeyIDHash == "") == (d.ProbedAt == ""), "observations.deepProbe has one of probedAt and keyIdHash"))
}
