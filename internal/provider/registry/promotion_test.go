package registry_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

func TestPromote(t *testing.T) {
	have := []registry.Snapshot{snapshot(1, registry.Removed), snapshot(2, registry.Active), snapshot(3, registry.Retired), pending(4, 3)}
	r := stored(t, have...)
	// A minimum for encryption that forbids the old version, but not the new
	// one, is when promotion is needed most.
	for _, minimum := range []int{0, 2, 3, 4} {
		md := with(metadata(4), func(md *registry.Metadata) { md.MinEncryption = minimum })
		next, change, err := r.Promote(md, rules, true, now)
		if err != nil {
			t.Fatalf("min_encryption_version %d: %v", minimum, err)
		}
		wantSnapshots(t, next, have[0], edited(have[1], func(s *registry.Snapshot) { s.State = registry.Retired }), have[2],
			edited(have[3], func(s *registry.Snapshot) { s.State, s.PromotedAtUnix = registry.Active, now }))
		wantSuccessor(t, r, next)
		if want := (registry.Change{Promoted: 4}); !reflect.DeepEqual(change, want) || !change.Any() {
			t.Errorf("change is %+v, want %+v", change, want)
		}
		if next.Pending() != nil || next.Active().TransitVersion != 4 || r.Active().TransitVersion != 2 {
			t.Errorf("pending %+v, active %d, and %d before", next.Pending(), next.Active().TransitVersion, r.Active().TransitVersion)
		}
	}
}

// Each guard holds by itself: everything else in its case allows promotion.
func TestPromoteHolds(t *testing.T) {
	ready := []registry.Snapshot{snapshot(1, registry.Active), pending(2, 3)}
	unmarked := edited(pending(2, 3), func(s *registry.Snapshot) { s.StableAtUnix = 0 })
	n := func(count int) registry.Rules { return registry.Rules{StableObservations: count, RejectRollback: true} }
	cases := []struct {
		name   string
		have   []registry.Snapshot
		md     registry.Metadata
		rules  registry.Rules
		passed bool
		want   registry.Hold
		words  string
	}{
		{"nothing pending", []registry.Snapshot{snapshot(1, registry.Active)}, metadata(1), rules, true,
			registry.HoldNothingPending, "not promoted: nothing is pending"},
		{"retired is the latest", []registry.Snapshot{snapshot(1, registry.Retired), snapshot(2, registry.Active)}, metadata(2), rules, true,
			registry.HoldNothingPending, "nothing is pending"},
		{"no observation", []registry.Snapshot{snapshot(1, registry.Active), pending(2, 0)}, metadata(2), rules, true,
			registry.HoldNotStable, "not promoted: not enough stable observations are durable"},
		{"one observation short", []registry.Snapshot{snapshot(1, registry.Active), pending(2, 2)}, metadata(2), rules, true,
			registry.HoldNotStable, "not enough"},
		{"discovered, n = 1", []registry.Snapshot{snapshot(1, registry.Active), pending(2, 0)}, metadata(2), n(1), true,
			registry.HoldNotStable, "not enough"},
		{"n raised", ready, metadata(2), n(4), true, registry.HoldNotStable, "not enough"},
		{"n lowered, not yet recorded as stable", []registry.Snapshot{snapshot(1, registry.Active), pending(2, 2)}, metadata(2), n(2), true,
			registry.HoldNotStable, "not enough"},
		{"count reached, not recorded as stable", []registry.Snapshot{snapshot(1, registry.Active), unmarked}, metadata(2), rules, true,
			registry.HoldNotStable, "not enough"},
		{"delay running", ready, metadata(2), rules, false, registry.HoldDelay, "not promoted: the activation delay has not passed"},
		{"newer latest", ready, metadata(3), rules, true, registry.HoldNotLatest, "not promoted: the pending version is not OpenBao's latest"},
		{"encryption minimum above pending", ready, with(metadata(2), func(md *registry.Metadata) { md.MinEncryption = 3 }), rules, true,
			registry.HoldEncryption, "not promoted: min_encryption_version forbids the pending version"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := stored(t, c.have...)
			next, change, err := r.Promote(c.md, c.rules, c.passed, now)
			if next != nil || change.Any() {
				t.Fatalf("promoted: %+v", change)
			}
			var hold registry.Hold
			if !errors.As(err, &hold) || hold != c.want {
				t.Fatalf("error is %v, want the hold %q", err, c.want)
			}
			if !strings.Contains(err.Error(), c.words) {
				t.Errorf("error is %q, want %q", err, c.words)
			}
			wantSnapshots(t, r, c.have...)
		})
	}
	// The base of the cases above does promote.
	if next, _, err := stored(t, ready...).Promote(metadata(2), rules, true, now); err != nil || next.Active().TransitVersion != 2 {
		t.Errorf("nothing holds, and yet: %v", err)
	}
}

// Metadata that does not validate is a rejection, not a hold, whatever else
// is missing.
func TestPromoteRejects(t *testing.T) {
	cases := []struct {
		name     string
		md       registry.Metadata
		keep     bool
		problem  registry.Problem
		versions []int
	}{
		{"rollback below pending", metadata(1), false, registry.VersionRollback, []int{2}},
		{"rollback allowed, pending gone", metadata(1), true, registry.IdentityDrift, []int{2}},
		{"pending made anew", with(metadata(2), func(md *registry.Metadata) { md.CreatedAtUnix[2]++ }), false, registry.IdentityDrift, []int{2}},
		{"old version blocked", with(metadata(2), func(md *registry.Metadata) { md.MinDecryption = 2; delete(md.CreatedAtUnix, 1) }), false, registry.VersionsBlocked, []int{1}},
		{"old version not available", with(metadata(2), func(md *registry.Metadata) { md.MinAvailable = 2 }), false, registry.VersionsBlocked, []int{1}},
		{"read failed and gave nothing", registry.Metadata{}, false, registry.VersionRollback, []int{1, 2}},
		{"read failed and gave nothing, rollback allowed", registry.Metadata{}, true, registry.IdentityDrift, []int{1, 2}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := stored(t, snapshot(1, registry.Active), pending(2, 3))
			for _, passed := range []bool{true, false} {
				next, change, err := r.Promote(c.md, registry.Rules{StableObservations: 3, RejectRollback: !c.keep}, passed, now)
				if next != nil || change.Any() {
					t.Errorf("promoted: %+v", change)
				}
				wantRejection(t, err, c.problem, c.versions)
			}
		})
	}
}

func TestIsStable(t *testing.T) {
	cases := []struct {
		name string
		have []registry.Snapshot
		n    int
		want bool
	}{
		{"nothing pending", []registry.Snapshot{snapshot(1, registry.Active)}, 1, false},
		{"below", []registry.Snapshot{snapshot(1, registry.Active), pending(2, 2)}, 3, false},
		{"at", []registry.Snapshot{snapshot(1, registry.Active), pending(2, 3)}, 3, true},
		{"above", []registry.Snapshot{snapshot(1, registry.Active), pending(2, 4)}, 3, true},
		{"at, not recorded", []registry.Snapshot{snapshot(1, registry.Active), pending(2, 2)}, 2, false},
	}
	for _, c := range cases {
		if got := stored(t, c.have...).IsStable(registry.Rules{StableObservations: c.n}); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Timestamps that are newly written keep the order of events when the wall
// clock steps back; those that exist stay as they are.
func TestClock(t *testing.T) {
	const observed, stable = start + 100, start + 200 // those of pending()
	active := snapshot(1, registry.Active)            // promoted at start
	young := edited(active, func(s *registry.Snapshot) { s.PromotedAtUnix = start + 300 })
	n5 := edited(pending(2, 3), func(s *registry.Snapshot) { s.StableObservations = 4 })
	observe := func(r *registry.Registry, n int, now int64) (*registry.Registry, registry.Change, error) {
		return r.Observe(metadata(2), registry.Rules{StableObservations: n, RejectRollback: true}, now)
	}
	promote := func(r *registry.Registry, n int, now int64) (*registry.Registry, registry.Change, error) {
		return r.Promote(metadata(2), registry.Rules{StableObservations: n, RejectRollback: true}, true, now)
	}
	cases := []struct {
		name       string
		have       []registry.Snapshot
		transition func(*registry.Registry, int, int64) (*registry.Registry, registry.Change, error)
		n          int
		now        int64
		stable     int64
		promoted   int64
		regressed  bool
	}{
		{"stable, clock ahead", []registry.Snapshot{active, pending(2, 2)}, observe, 3, observed + 1, observed + 1, 0, false},
		{"stable, clock at the observation", []registry.Snapshot{active, pending(2, 2)}, observe, 3, observed, observed, 0, false},
		{"stable, clock a second behind", []registry.Snapshot{active, pending(2, 2)}, observe, 3, observed - 1, observed, 0, true},
		{"stable, clock years behind", []registry.Snapshot{active, pending(2, 2)}, observe, 3, 1, observed, 0, true},
		{"counting writes no timestamp", []registry.Snapshot{active, pending(2, 1)}, observe, 3, 1, 0, 0, false},
		{"stable again, clock behind the first time", []registry.Snapshot{active, n5}, observe, 5, stable - 1, stable, 0, true},
		{"promoted, clock ahead", []registry.Snapshot{active, pending(2, 3)}, promote, 3, stable + 1, stable, stable + 1, false},
		{"promoted, clock at stable", []registry.Snapshot{active, pending(2, 3)}, promote, 3, stable, stable, stable, false},
		{"promoted, clock a second behind", []registry.Snapshot{active, pending(2, 3)}, promote, 3, stable - 1, stable, stable, true},
		{"promoted, clock behind the promotion before", []registry.Snapshot{young, pending(2, 3)}, promote, 3, start + 299, stable, start + 300, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			next, change, err := c.transition(stored(t, c.have...), c.n, c.now)
			if err != nil {
				t.Fatal(err)
			}
			p := contents(next)[1]
			if p.ObservedAtUnix != observed || p.CreatedAtUnix != start {
				t.Errorf("recorded at %d, observed at %d: existing timestamps were rewritten", p.CreatedAtUnix, p.ObservedAtUnix)
			}
			if p.StableAtUnix != c.stable || p.PromotedAtUnix != c.promoted || change.ClockRegressed != c.regressed {
				t.Errorf("stable at %d, promoted at %d, regressed %v; want %d, %d, %v",
					p.StableAtUnix, p.PromotedAtUnix, change.ClockRegressed, c.stable, c.promoted, c.regressed)
			}
			old := c.have[0]
			old.State = contents(next)[0].State
			if contents(next)[0] != old {
				t.Errorf("the old version's record became %+v", contents(next)[0])
			}
		})
	}
}

// The exception for a failed save is for a counted observation alone.
func TestObservationOnly(t *testing.T) {
	active := snapshot(1, registry.Active)
	base := stored(t, active, pending(2, 2))
	after := func(previous string, generation uint64, snapshots ...registry.Snapshot) *registry.Registry {
		t.Helper()
		r, err := registry.Decode(seal(t, unsealed(generation, previous, snapshots...)))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	foreign, err := registry.Decode(seal(t, strings.Replace(unsealed(8, base.Hash(), active, pending(2, 3)), fingerprint, scope.Fingerprint("transit/prod", "another-key"), 1)))
	if err != nil {
		t.Fatal(err)
	}
	next := func(snapshots ...registry.Snapshot) *registry.Registry { return after(base.Hash(), 8, snapshots...) }
	plain := stored(t, active)
	longer := stored(t, snapshot(1, registry.Retired), snapshot(2, registry.Active), pending(3, 2))
	cases := []struct {
		name       string
		base, next *registry.Registry
		want       bool
	}{
		{"count", base, next(active, edited(pending(2, 2), func(s *registry.Snapshot) { s.StableObservations = 3 })), true},
		{"count and stable", base, next(active, pending(2, 3)), true},
		{"stable", base, next(active, edited(pending(2, 2), func(s *registry.Snapshot) { s.StableAtUnix = now })), true},
		{"first observation after discovery writes observedAtUnix", stored(t, active, pending(2, 0)),
			after(stored(t, active, pending(2, 0)).Hash(), 8, active, pending(2, 1)), false},
		{"pending's record rewritten", base, next(active, edited(pending(2, 3), func(s *registry.Snapshot) { s.CreatedAtUnix++ })), false},
		{"active's record rewritten", base, next(edited(active, func(s *registry.Snapshot) { s.PromotedAtUnix++ }), pending(2, 3)), false},
		{"active's count", base, next(edited(active, func(s *registry.Snapshot) { s.StableObservations++ }), pending(2, 3)), false},
		{"active's stable time", base, next(edited(active, func(s *registry.Snapshot) { s.StableAtUnix = s.PromotedAtUnix }), pending(2, 3)), false},
		{"promotion", base, next(snapshot(1, registry.Retired), edited(pending(2, 3), func(s *registry.Snapshot) { s.State = registry.Active; s.PromotedAtUnix = now })), false},
		{"superseded", base, next(active, edited(pending(2, 2), func(s *registry.Snapshot) { s.State = registry.Retired }), pending(3, 1)), false},
		{"new identity", plain, after(plain.Hash(), 8, active, pending(2, 1)), false},
		{"retired identity lost", longer, after(longer.Hash(), 8, snapshot(2, registry.Active), pending(3, 3)), false},
		{"identity lost", base, next(edited(pending(2, 3), func(s *registry.Snapshot) { s.State, s.PromotedAtUnix = registry.Active, now }), pending(3, 2)), false},
		{"pending replaced", base, next(active, pending(3, 3)), false},
		{"nothing pending", plain, after(plain.Hash(), 8, active), false},
		{"pending gone", base, next(active), false},
		{"another configuration", base, foreign, false},
		{"another history", base, after(previous, 8, active, pending(2, 3)), false},
		{"a generation between", base, after(base.Hash(), 9, active, pending(2, 3)), false},
		{"itself", base, base, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.base.ObservationOnly(c.next); got != c.want {
				t.Errorf("observation only is %v, want %v", got, c.want)
			}
		})
	}
}
