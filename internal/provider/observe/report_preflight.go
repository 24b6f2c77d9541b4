package observe

import (
	"errors"
	"time"

	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/report"
)

// preflight judges the checks of verify-rotation from one view (design:
// observability, node report). Nothing is better known than the facts: what the
// last probe did not get to, and what was last seen too long ago, is unknown,
// while a failure stays one until something has been seen to be good.
type preflight struct {
	options ReportOptions
	facts   status.Facts
	verdict status.Verdict
	now     time.Time
}

// judge runs all checks.
func (p preflight) judge() report.Preflight {
	checks := append(p.metadataChecks(), p.roundTrip())
	checks = append(checks, p.files()...)
	checks = append(checks, p.keyIDs(), p.consistency())
	inOrder := make([]report.Check, 0, len(checks))
	for _, id := range report.CheckIDs {
		for _, c := range checks {
			if c.ID == id {
				inOrder = append(inOrder, c)
			}
		}
	}
	return report.Preflight{
		Confidence: report.ConfidenceLimited,
		Result:     report.Worst(inOrder),
		Checks:     inOrder,
		CannotKnow: report.Limits,
	}
}

// told is a check that did not pass, or could not be judged.
func told(c report.Check, result report.Result, reason string, a advice) report.Check {
	c.Result, c.Reason, c.Message, c.NextStep = result, reason, clipped(a.message), clipped(a.nextStep)
	return c
}

// old reports whether something was seen longer ago than limit, or never.
func (p preflight) old(at time.Time, limit time.Duration) bool {
	return at.IsZero() || p.now.Sub(at) > limit
}

// stale is what was good when it was last seen, too long ago.
func stale(c report.Check) report.Check {
	return told(c, report.Unknown, string(status.StatusStale), adviceOn(status.StatusStale, ""))
}

// The steps of a metadata probe, in the order in which it takes them: each is
// only looked at when those before it were good.
var probeSteps = []string{report.CheckTransitKey, report.CheckTransitUpsert, report.CheckTransitProfile, report.CheckRegistryMetadata}

// failedStep is the step that a metadata probe with this reason failed at, as an
// index into probeSteps. judged is false when the probe ended before it could
// say whether that step is good.
func failedStep(reason status.Reason) (step int, judged bool) {
	switch reason {
	case status.UpsertCheckFailed, status.UpsertAllowed:
		return 1, true
	case status.ProfileInvalid:
		return 2, true
	case status.ProbeFailed:
		return 0, false
	}
	if ofRegistry(reason) {
		return 3, true
	}
	return 0, true
}

// ofRegistry reports whether a metadata probe with this reason, "" for success,
// got as far as the registry: its metadata was read and has the profile.
func ofRegistry(reason status.Reason) bool {
	switch reason {
	case "", status.IdentityDrift, status.VersionRollback, status.VersionsBlocked, status.MetadataUnverified,
		status.EncryptionBlocked, status.StateUnavailable, status.StateSaveFailed, status.StateConflict:
		return true
	}
	return false
}

// metadataChecks are those that the last metadata probe answers: what came before
// the step that it failed at was good then, what comes after it is not known.
func (p preflight) metadataChecks() []report.Check {
	m := p.facts.Metadata
	reason, step, judged := m.Reason, len(probeSteps), true
	switch {
	case m.ProbedAt.IsZero():
		reason, step, judged = status.MetadataUnverified, 0, false
	case reason != "":
		step, judged = failedStep(reason)
	}
	a := adviceOn(reason, m.Class)
	checks := make([]report.Check, len(probeSteps))
	for i, id := range probeSteps {
		c := report.Check{ID: id, Result: report.Pass, Basis: report.BasisMetadata}
		switch {
		case i < step && p.old(m.ProbedAt, p.facts.MaxStaleness):
			c = stale(c)
		case i == step && judged && id == report.CheckRegistryMetadata:
			c = told(c, report.Fail, string(reason), p.registryAdvice(reason, a))
		case i == step && judged:
			c = told(c, report.Fail, string(reason), a)
		case i == step:
			c = told(c, report.Unknown, string(reason), a)
		case i > step:
			c = told(c, report.Unknown, string(reason), advice{"the last probe did not get this far: " + a.message, a.nextStep})
		}
		checks[i] = c
	}
	return checks
}

// registryAdvice names the versions that the registry refuses metadata for.
func (p preflight) registryAdvice(reason status.Reason, otherwise advice) advice {
	f := p.facts
	if f.Registry == nil || f.Metadata.SeenAt.IsZero() {
		return otherwise
	}
	var refused *registry.Rejection
	err := f.Registry.Validate(f.Metadata.Seen, f.Rules.RejectRollback)
	if !errors.As(err, &refused) || string(refused.Problem) != string(reason) {
		return otherwise
	}
	return advice{refused.Message(), refused.NextStep}
}

// roundTrip is what the last deep probe answers, for the key that is active now.
func (p preflight) roundTrip() report.Check {
	c := report.Check{ID: report.CheckTransitRoundTrip, Result: report.Pass, Basis: report.BasisDeep}
	r, d := p.facts.Registry, p.facts.Deep
	switch {
	case r == nil || d.KeyID != r.Active().KeyID:
		return told(c, report.Unknown, string(status.DeepProbePending), adviceOn(status.DeepProbePending, ""))
	case d.Reason != "":
		return told(c, report.Fail, string(d.Reason), adviceOn(d.Reason, d.Class))
	case p.old(d.ProbedAt, p.facts.DeepInterval+p.facts.MaxStaleness):
		return stale(c)
	}
	return c
}

// files are the two checks that the last save or look at the files answers: it
// concerns both of them.
func (p preflight) files() []report.Check {
	s := p.facts.Persistence
	var checks []report.Check
	for _, id := range []string{report.CheckRegistryState, report.CheckRegistryCheckpoint} {
		c := report.Check{ID: id, Result: report.Pass, Basis: report.BasisState}
		switch {
		case s.Reason != "":
			c = told(c, report.Fail, string(s.Reason), adviceOn(s.Reason, ""))
		case p.facts.Registry == nil:
			c = told(c, report.Unknown, string(status.Starting), adviceOn(status.Starting, ""))
		case p.old(s.ConfirmedAt, p.facts.MaxStaleness):
			c = stale(c)
		case s.Degraded:
			c = told(c, report.Warn, string(status.StateSaveFailed), adviceOn(status.StateSaveFailed, ""))
		}
		checks = append(checks, c)
	}
	return checks
}

// keyIDs derives every key_id anew from the fields that it is made of, and holds
// the registry against the configuration.
func (p preflight) keyIDs() report.Check {
	c := report.Check{ID: report.CheckKeyIDDeterministic, Result: report.Pass, Basis: report.BasisMemory}
	r := p.facts.Registry
	if r == nil {
		return told(c, report.Unknown, string(status.Starting), adviceOn(status.Starting, ""))
	}
	if r.Fingerprint() != p.options.Fingerprint {
		return told(c, report.Fail, reasonOtherScope, advice{"the registry belongs to another configuration", "compare the configuration of this node with its peers'"})
	}
	scope := r.Scope()
	for _, e := range r.Entries() {
		if id := scope.KeyID(e.TransitVersion, e.VersionCreatedAtUnix); id != e.KeyID || id != e.Binding.KeyID() {
			return told(c, report.Fail, reasonOtherKeyID, advice{"a key_id is not the one that its version and creation time give", status.ReportDefect})
		}
	}
	return c
}

// consistency holds what Status and Encrypt answer against the registry and the
// key that was proved.
func (p preflight) consistency() report.Check {
	c := report.Check{ID: report.CheckStatusConsistency, Result: report.Pass, Basis: report.BasisMemory}
	r, v := p.facts.Registry, p.verdict
	switch {
	case !v.Healthy && v.Reasons[0] == status.Starting:
		return told(c, report.Unknown, string(status.Starting), adviceOn(status.Starting, ""))
	case !v.Healthy:
		return told(c, report.Fail, string(v.Reasons[0]), adviceOn(v.Reasons[0], p.classOf(v.Reasons[0])))
	case v.Active != r.Active() || p.facts.Deep.KeyID != v.Active.KeyID:
		return told(c, report.Fail, reasonInconsistent, advice{"Status names another key than the one that is active and proved", status.ReportDefect})
	}
	return c
}
