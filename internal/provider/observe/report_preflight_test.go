package observe

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/report"
)

// every is what one kind of fact can be, put into facts.
type every []func(*status.Facts)

// everyReason has all reason codes, and none.
func everyReason(put func(*status.Facts, status.Reason)) (all every) {
	all = append(all, func(f *status.Facts) { put(f, "") })
	for reason := range reasons {
		all = append(all, func(f *status.Facts) { put(f, status.Reason(reason)) })
	}
	return all
}

// TestPreflightIsNeverMoreConfident goes through the outcomes, ages and registries
// that facts can have, every two kinds of them together, and asserts of each
// report that a consumer takes it, and that it promises nothing that the facts do
// not.
func TestPreflightIsNeverMoreConfident(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		time.Sleep(time.Hour) // synthetic time
		now := time.Now()
		fresh, old := now.Add(-time.Second), now.Add(-kmstest.MaxStaleness-time.Second)
		r := rotated(t)
		pending := kmstest.Observed(t, r)

		registries := every{
			func(f *status.Facts) { f.Registry = nil },
			func(f *status.Facts) { f.Registry = r },
			func(f *status.Facts) { f.Registry, f.Starting = r, true },
			func(f *status.Facts) { f.Registry = pending },
			func(f *status.Facts) {
				f.Registry, f.Rules.StableObservations, f.PromotionAt = pending, 1, now.Add(time.Minute)
			},
		}
		metadataReasons := everyReason(func(f *status.Facts, reason status.Reason) { f.Metadata.Reason = reason })
		metadataTimes := every{
			func(f *status.Facts) {
				f.Metadata.ProbedAt, f.Metadata.ValidatedAt, f.Metadata.SeenAt = fresh, fresh, fresh
			},
			func(f *status.Facts) {
				f.Metadata.ProbedAt, f.Metadata.ValidatedAt, f.Metadata.SeenAt = fresh, old, old
			},
			func(f *status.Facts) { f.Metadata.ProbedAt, f.Metadata.ValidatedAt, f.Metadata.SeenAt = old, old, old },
			func(f *status.Facts) { f.Metadata.ProbedAt = fresh },
			func(f *status.Facts) { f.Metadata.ProbedAt, f.Metadata.SeenAt = fresh, fresh },
			func(f *status.Facts) {},
		}
		deeps := every{
			func(f *status.Facts) {},
			func(f *status.Facts) { f.Deep = status.Deep{KeyID: r.Active().KeyID, ProbedAt: fresh} },
			func(f *status.Facts) {
				f.Deep = status.Deep{KeyID: r.Active().KeyID, ProbedAt: fresh, Reason: status.DeepProbeInvalid, Class: fault.ClassProtocolLimit}
			},
			func(f *status.Facts) {
				f.Deep = status.Deep{KeyID: r.Active().KeyID, ProbedAt: old, Reason: status.AuthFailed, Class: fault.ClassAuthFailed}
			},
			func(f *status.Facts) { f.Deep = status.Deep{KeyID: r.Active().KeyID, ProbedAt: begin} },
			func(f *status.Facts) { f.Deep = status.Deep{KeyID: r.Entries()[0].KeyID, ProbedAt: fresh} },
		}
		persistence := every{
			func(f *status.Facts) { f.Persistence.ConfirmedAt = fresh },
			func(f *status.Facts) { f.Persistence.ConfirmedAt = old },
			func(f *status.Facts) { f.Persistence = status.Persistence{ConfirmedAt: fresh, Degraded: true} },
			func(f *status.Facts) {
				f.Persistence = status.Persistence{Reason: status.StateSaveFailed, Degraded: true}
			},
			func(f *status.Facts) {
				f.Persistence = status.Persistence{Reason: status.StateConflict, ConfirmedAt: fresh}
			},
			func(f *status.Facts) { f.Persistence = status.Persistence{Reason: status.StateUnavailable} },
		}
		results := map[report.Result]int{}
		tell := func(set ...func(*status.Facts)) {
			t.Helper()
			f := status.Facts{Rules: registry.Rules{StableObservations: 3, RejectRollback: true}, MaxStaleness: kmstest.MaxStaleness, DeepInterval: testDeepInterval}
			f.Metadata.Seen = seenMetadata(3)
			for _, s := range set {
				s(&f)
			}
			// A probe that does not fail validates.
			if f.Metadata.Reason != "" || f.Metadata.ValidatedAt == f.Metadata.ProbedAt {
				results[confident(t, f, now)]++
			}
		}
		good := func(f *status.Facts) {}
		for _, reg := range registries {
			for _, times := range metadataTimes {
				for _, reason := range metadataReasons {
					tell(reg, times, reason, deeps[1], persistence[0])
				}
				for _, deep := range deeps {
					for _, saved := range persistence {
						tell(reg, times, good, deep, saved)
					}
				}
			}
		}
		t.Logf("%v", results)
		for _, result := range []report.Result{report.Pass, report.Warn, report.Unknown, report.Fail} {
			if results[result] == 0 {
				t.Errorf("no facts gave %s", result)
			}
		}
	})
}

// confident checks one report against what it was made from.
func confident(t *testing.T, f status.Facts, now time.Time) report.Result {
	t.Helper()
	v := status.New(f)
	d := nodeReport(v, now, reportOptions(nil))
	body, err := report.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := report.Decode[report.NodeReport](body); err != nil {
		t.Fatalf("%v\nof %+v:\n%s", err, f, body)
	}
	verdict := v.Judge(now)
	if d.Readiness.Ready != verdict.Healthy || fmt.Sprint(d.Readiness.Reasons) != fmt.Sprint(verdict.Reasons) {
		t.Fatalf("readiness %+v, want %v %q", d.Readiness, verdict.Healthy, verdict.Reasons)
	}
	young := func(at time.Time) bool { return !at.IsZero() && now.Sub(at) <= f.MaxStaleness }
	deepYoung := !f.Deep.ProbedAt.IsZero() && now.Sub(f.Deep.ProbedAt) <= f.MaxStaleness+f.DeepInterval
	metadata, deep := f.Metadata, f.Deep
	may := map[string]bool{ // pass or warn
		report.CheckTransitKey:         young(metadata.ProbedAt) && (metadata.Reason == status.UpsertCheckFailed || metadata.Reason == status.UpsertAllowed || metadata.Reason == status.ProfileInvalid || ofRegistry(metadata.Reason)),
		report.CheckTransitUpsert:      young(metadata.ProbedAt) && (metadata.Reason == status.ProfileInvalid || ofRegistry(metadata.Reason)),
		report.CheckTransitProfile:     young(metadata.ProbedAt) && ofRegistry(metadata.Reason),
		report.CheckRegistryMetadata:   young(metadata.ValidatedAt) && metadata.Reason == "",
		report.CheckTransitRoundTrip:   f.Registry != nil && deep.KeyID == f.Registry.Active().KeyID && deep.Reason == "" && deepYoung,
		report.CheckRegistryState:      f.Registry != nil && f.Persistence.Reason == "" && young(f.Persistence.ConfirmedAt),
		report.CheckRegistryCheckpoint: f.Registry != nil && f.Persistence.Reason == "" && young(f.Persistence.ConfirmedAt),
		report.CheckKeyIDDeterministic: f.Registry != nil,
		report.CheckStatusConsistency:  verdict.Healthy,
	}
	for _, c := range d.Preflight.Checks {
		if good := c.Result == report.Pass || c.Result == report.Warn; good != may[c.ID] {
			t.Fatalf("%s is %s (%s), and the facts allow a pass: %v\n%+v", c.ID, c.Result, c.Reason, may[c.ID], f)
		}
	}
	if d.Preflight.Result == report.Pass && (!verdict.Healthy || f.Persistence.Degraded) {
		t.Fatalf("all passed on a node with %q", verdict.Reasons)
	}
	return d.Preflight.Result
}

// TestPreflightKeyIDs: a registry of another configuration does not pass.
func TestPreflightKeyIDs(t *testing.T) {
	o := reportOptions(nil)
	v := status.New(knowing(rotated(t)))
	o.Fingerprint = kmstest.Scope.Fingerprint("transit", "another")
	d := nodeReport(v, time.Now(), o)
	for _, c := range d.Preflight.Checks {
		if c.ID == report.CheckKeyIDDeterministic {
			if c.Result != report.Fail || c.Reason != reasonOtherScope {
				t.Errorf("%+v", c)
			}
			return
		}
	}
	t.Error("the check is missing")
}

// TestAdviceIsComplete: every reason code that the provider exports has words,
// with every class that it may come with.
func TestAdviceIsComplete(t *testing.T) {
	for reason := range reasons {
		if !status.Known(status.Reason(reason)) {
			t.Errorf("%s has no words of its own", reason)
		}
		for class := range classes {
			if a := status.AdviceOn(status.Reason(reason), fault.Class(class)); a.Message == "" || a.NextStep == "" {
				t.Errorf("%s with %s: %+v", reason, class, a)
			}
		}
	}
	for _, problem := range []registry.Problem{registry.IdentityDrift, registry.VersionRollback, registry.VersionsBlocked, registry.MetadataUnverified, registry.StateUnavailable} {
		if !ofRegistry(status.Reason(problem)) {
			t.Errorf("%s is a registry's, but not taken for one", problem)
		}
	}
}
