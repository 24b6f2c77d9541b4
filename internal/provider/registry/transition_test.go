package registry_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// taken is the record of a version that a transition takes in at the moment now.
func taken(version int, state registry.State, now int64) registry.Snapshot {
	s := snapshot(version, state)
	s.CreatedAtUnix = now
	return s
}

const now = start + 1000

// Every row of the table of design/registry that takes metadata and does not
// promote. want nil means that nothing has to be saved.
func TestTakeIn(t *testing.T) {
	active1 := snapshot(1, registry.Active)
	observed := func(version, observations int) registry.Snapshot { // taken in by a probe, now
		return edited(taken(version, registry.Pending, now), func(s *registry.Snapshot) {
			s.StableObservations, s.ObservedAtUnix = observations, now
		})
	}
	retiredFrom := func(s registry.Snapshot) registry.Snapshot { s.State = registry.Retired; return s }
	n := func(count int) registry.Rules { return registry.Rules{StableObservations: count, RejectRollback: true} }
	cases := []struct {
		name     string
		have     []registry.Snapshot
		latest   int
		rules    registry.Rules
		discover bool
		want     []registry.Snapshot
		change   registry.Change
	}{
		{name: "observe, latest is active", have: []registry.Snapshot{active1}, latest: 1, rules: n(3)},
		{name: "observe, latest is active, n = 1", have: []registry.Snapshot{active1}, latest: 1, rules: n(1)},
		{name: "observe, new latest", have: []registry.Snapshot{active1}, latest: 2, rules: n(3),
			want: []registry.Snapshot{active1, observed(2, 1)}, change: registry.Change{Accepted: []int{2}, Counted: true}},
		{name: "observe, new latest, n = 1", have: []registry.Snapshot{active1}, latest: 2, rules: n(1),
			want:   []registry.Snapshot{active1, edited(observed(2, 1), func(s *registry.Snapshot) { s.StableAtUnix = now })},
			change: registry.Change{Accepted: []int{2}, Counted: true, Stable: true}},
		{name: "observe, jump over two versions", have: []registry.Snapshot{active1}, latest: 4, rules: n(3),
			want:   []registry.Snapshot{active1, taken(2, registry.Retired, now), taken(3, registry.Retired, now), observed(4, 1)},
			change: registry.Change{Accepted: []int{2, 3, 4}, Counted: true}},
		{name: "observe, newer than pending", have: []registry.Snapshot{active1, pending(2, 2)}, latest: 3, rules: n(3),
			want:   []registry.Snapshot{active1, retiredFrom(pending(2, 2)), observed(3, 1)},
			change: registry.Change{Accepted: []int{3}, Superseded: 2, Counted: true}},
		{name: "observe, newer than a stable pending, jump", have: []registry.Snapshot{active1, pending(2, 3)}, latest: 4, rules: n(3),
			want:   []registry.Snapshot{active1, retiredFrom(pending(2, 3)), taken(3, registry.Retired, now), observed(4, 1)},
			change: registry.Change{Accepted: []int{3, 4}, Superseded: 2, Counted: true}},
		{name: "observe, removed and retired stay", have: []registry.Snapshot{snapshot(1, registry.Removed), snapshot(2, registry.Retired), snapshot(3, registry.Active)}, latest: 4, rules: n(3),
			want:   []registry.Snapshot{snapshot(1, registry.Removed), snapshot(2, registry.Retired), snapshot(3, registry.Active), observed(4, 1)},
			change: registry.Change{Accepted: []int{4}, Counted: true}},
		{name: "observe, newer than a rejected record", have: []registry.Snapshot{active1, snapshot(2, registry.Rejected)}, latest: 3, rules: n(3),
			want:   []registry.Snapshot{active1, snapshot(2, registry.Rejected), observed(3, 1)},
			change: registry.Change{Accepted: []int{3}, Counted: true}},

		{name: "observe, pending, first count after discovery", have: []registry.Snapshot{active1, pending(2, 0)}, latest: 2, rules: n(3),
			want:   []registry.Snapshot{active1, edited(pending(2, 0), func(s *registry.Snapshot) { s.StableObservations, s.ObservedAtUnix = 1, now })},
			change: registry.Change{Counted: true}},
		{name: "observe, pending, below n", have: []registry.Snapshot{active1, pending(2, 1)}, latest: 2, rules: n(3),
			want:   []registry.Snapshot{active1, edited(pending(2, 1), func(s *registry.Snapshot) { s.StableObservations = 2 })},
			change: registry.Change{Counted: true}},
		{name: "observe, pending, reaches n", have: []registry.Snapshot{active1, pending(2, 2)}, latest: 2, rules: n(3),
			want:   []registry.Snapshot{active1, edited(pending(2, 2), func(s *registry.Snapshot) { s.StableObservations, s.StableAtUnix = 3, now })},
			change: registry.Change{Counted: true, Stable: true}},
		{name: "observe, pending, first count after discovery, n = 1", have: []registry.Snapshot{active1, pending(2, 0)}, latest: 2, rules: n(1),
			want: []registry.Snapshot{active1, edited(pending(2, 0), func(s *registry.Snapshot) {
				s.StableObservations, s.ObservedAtUnix, s.StableAtUnix = 1, now, now
			})}, change: registry.Change{Counted: true, Stable: true}},
		{name: "observe, pending, at n", have: []registry.Snapshot{active1, pending(2, 3)}, latest: 2, rules: n(3)},
		{name: "observe, pending, n lowered below the count, stable before", have: []registry.Snapshot{active1, pending(2, 3)}, latest: 2, rules: n(2)},
		{name: "observe, pending, n lowered to the count: the next probe makes it stable", have: []registry.Snapshot{active1, pending(2, 2)}, latest: 2, rules: n(2),
			want:   []registry.Snapshot{active1, edited(pending(2, 2), func(s *registry.Snapshot) { s.StableAtUnix = now })},
			change: registry.Change{Counted: true, Stable: true}},
		{name: "observe, pending, n lowered below the count: the next probe makes it stable", have: []registry.Snapshot{active1, pending(2, 2)}, latest: 2, rules: n(1),
			want:   []registry.Snapshot{active1, edited(pending(2, 2), func(s *registry.Snapshot) { s.StableAtUnix = now })},
			change: registry.Change{Counted: true, Stable: true}},
		{name: "observe, pending, n raised: counting goes on", have: []registry.Snapshot{active1, pending(2, 3)}, latest: 2, rules: n(5),
			want:   []registry.Snapshot{active1, edited(pending(2, 3), func(s *registry.Snapshot) { s.StableObservations = 4 })},
			change: registry.Change{Counted: true}},
		{name: "observe, pending, n raised: reached", have: []registry.Snapshot{active1, edited(pending(2, 3), func(s *registry.Snapshot) { s.StableObservations = 4 })}, latest: 2, rules: n(5),
			want: []registry.Snapshot{active1, edited(pending(2, 3), func(s *registry.Snapshot) {
				s.StableObservations, s.StableAtUnix = 5, now
			})}, change: registry.Change{Counted: true, Stable: true}},

		{name: "discover, latest is active", have: []registry.Snapshot{active1}, latest: 1, rules: n(3), discover: true},
		{name: "discover, new latest", have: []registry.Snapshot{active1}, latest: 2, rules: n(3), discover: true,
			want: []registry.Snapshot{active1, taken(2, registry.Pending, now)}, change: registry.Change{Accepted: []int{2}}},
		{name: "discover, new latest, n = 1", have: []registry.Snapshot{active1}, latest: 2, rules: n(1), discover: true,
			want: []registry.Snapshot{active1, taken(2, registry.Pending, now)}, change: registry.Change{Accepted: []int{2}}},
		{name: "discover, jump over two versions", have: []registry.Snapshot{active1}, latest: 4, rules: n(3), discover: true,
			want:   []registry.Snapshot{active1, taken(2, registry.Retired, now), taken(3, registry.Retired, now), taken(4, registry.Pending, now)},
			change: registry.Change{Accepted: []int{2, 3, 4}}},
		{name: "discover, newer than pending", have: []registry.Snapshot{active1, pending(2, 3)}, latest: 3, rules: n(3), discover: true,
			want:   []registry.Snapshot{active1, retiredFrom(pending(2, 3)), taken(3, registry.Pending, now)},
			change: registry.Change{Accepted: []int{3}, Superseded: 2}},
		{name: "discover, pending counts nothing", have: []registry.Snapshot{active1, pending(2, 0)}, latest: 2, rules: n(1), discover: true},
		{name: "discover, pending one short of n counts nothing", have: []registry.Snapshot{active1, pending(2, 2)}, latest: 2, rules: n(3), discover: true},
		{name: "discover, stable pending", have: []registry.Snapshot{active1, pending(2, 3)}, latest: 2, rules: n(3), discover: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := stored(t, c.have...)
			before := string(r.Encode())
			transition := r.Observe
			if c.discover {
				transition = r.Discover
			}
			next, change, err := transition(metadata(c.latest), c.rules, now)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(change, c.change) {
				t.Errorf("change is %+v, want %+v", change, c.change)
			}
			if change.Any() != (c.want != nil) {
				t.Errorf("change.Any() is %v for %+v", change.Any(), change)
			}
			if c.want == nil {
				if next != r {
					t.Errorf("made generation %d although there is nothing to save", next.Generation())
				}
				return
			}
			wantSnapshots(t, next, c.want...)
			wantSuccessor(t, r, next)
			if next.Active().TransitVersion != r.Active().TransitVersion {
				t.Errorf("version %d became active", next.Active().TransitVersion)
			}
			if string(r.Encode()) != before {
				t.Error("the registry was changed in place")
			}
			if again, err := registry.Decode(next.Encode()); err != nil || again.Hash() != next.Hash() {
				t.Errorf("the successor is not read back: %v", err)
			}
		})
	}
}

// Versions that would be taken in need creation metadata, each of them.
func TestTakeInRefuses(t *testing.T) {
	set := func(latest, version int, second int64) registry.Metadata {
		return with(metadata(latest), func(md *registry.Metadata) { md.CreatedAtUnix[version] = second })
	}
	one := []registry.Snapshot{snapshot(1, registry.Active)}
	cases := []struct {
		name     string
		have     []registry.Snapshot
		md       registry.Metadata
		versions []int
		words    string
	}{
		{"new latest not listed", one, without(metadata(2), 2), []int{2}, "no creation time"},
		{"skipped version not listed", one, without(metadata(4), 3), []int{3}, "no creation time"},
		{"first of several not listed", one, without(metadata(4), 2, 3), []int{2}, "no creation time"},
		{"far ahead with nothing listed", one, with(metadata(1), func(md *registry.Metadata) { md.Latest = math.MaxInt }), []int{2}, "no creation time"},
		{"new latest created at 0", one, set(2, 2, 0), []int{2}, "not usable"},
		{"skipped version created before 1970", one, set(3, 2, -62135596800), []int{2}, "not usable"},
		{"version after pending not listed", []registry.Snapshot{snapshot(1, registry.Active), pending(2, 3)}, without(metadata(4), 3), []int{3}, "no creation time"},
		{"version after pending created at 0", []registry.Snapshot{snapshot(1, registry.Active), pending(2, 3)}, set(3, 3, 0), []int{3}, "not usable"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := stored(t, c.have...)
			for name, transition := range map[string]func(registry.Metadata, registry.Rules, int64) (*registry.Registry, registry.Change, error){"observe": r.Observe, "discover": r.Discover} {
				next, change, err := transition(c.md, rules, now)
				if next != nil || change.Any() {
					t.Errorf("%s made %+v", name, change)
				}
				wantRejection(t, err, registry.MetadataUnverified, c.versions, c.words)
			}
			wantSnapshots(t, r, c.have...)
		})
	}
}

// A latest version that the registry holds as rejected can be neither counted
// nor taken in; discovery finds nothing new in it.
func TestLatestIsRejected(t *testing.T) {
	r := stored(t, snapshot(1, registry.Active), snapshot(2, registry.Rejected))
	next, _, err := r.Observe(metadata(2), rules, now)
	if next != nil {
		t.Errorf("made generation %d", next.Generation())
	}
	wantRejection(t, err, registry.MetadataUnverified, []int{2}, "neither as active nor as pending")
	if next, change, err := r.Discover(metadata(2), rules, now); next != r || change.Any() || err != nil {
		t.Errorf("discovery made %+v: %v", change, err)
	}
	if e, ok := r.Lookup(scope.KeyID(2, created(2))); !ok || e.Decrypts() {
		t.Errorf("a rejected version is found %v and decrypts", ok)
	}
}

// Nothing follows the last generation.
func TestGenerationsEnd(t *testing.T) {
	r, err := registry.Decode(seal(t, unsealed(math.MaxUint64, previous, snapshot(1, registry.Active))))
	if err != nil {
		t.Fatal(err)
	}
	if next, _, err := r.Observe(metadata(2), rules, now); next != nil || err == nil || !strings.Contains(err.Error(), "generation is below 1") {
		t.Errorf("made %v: %v", next, err)
	}
	first := stored(t, snapshot(1, registry.Active))
	if first.Succeeds(math.MaxUint64, first.PreviousHash()) {
		t.Error("a generation follows the last one")
	}
}

func TestSucceeds(t *testing.T) {
	r := stored(t, snapshot(1, registry.Active)) // generation 7 after previous
	other := "sha256:" + strings.Repeat("0b", 32)
	cases := []struct {
		generation uint64
		hash       string
		want       bool
	}{
		{6, previous, true}, {6, other, false}, {6, "", false}, {5, previous, false}, {7, previous, false}, {8, previous, false}, {7, r.Hash(), false}, {6, r.Hash(), false},
	}
	for _, c := range cases {
		if got := r.Succeeds(c.generation, c.hash); got != c.want {
			t.Errorf("generation 7 succeeds generation %d with hash %.12s…: %v, want %v", c.generation, c.hash, got, c.want)
		}
	}
}

// Whatever list of snapshots a transition came to, its successor keeps what the
// registry held (design: overview, invariants 2 and 6).
func TestSuccessorKeeps(t *testing.T) {
	have := []registry.Snapshot{snapshot(1, registry.Removed), snapshot(2, registry.Retired), snapshot(3, registry.Active), pending(4, 3)}
	state := func(i int, s registry.State) []registry.Snapshot {
		list := append([]registry.Snapshot(nil), have...)
		list[i].State = s
		return list
	}
	cases := []struct {
		name  string
		next  []registry.Snapshot
		words string
	}{
		{"nothing changed", have, ""},
		{"promotion", []registry.Snapshot{have[0], have[1], snapshot(3, registry.Retired), edited(have[3], func(s *registry.Snapshot) { s.State = registry.Active })}, ""},
		{"one more", append(state(3, registry.Retired), pending(5, 0)), ""},
		{"removed record lost", have[1:], "the identity of Transit version 1 is lost"},
		{"retired identity lost", []registry.Snapshot{have[0], have[2], have[3]}, "the identity of Transit version 2 is lost"},
		{"pending identity lost", have[:3], "the identity of Transit version 4 is lost"},
		{"identity replaced", append([]registry.Snapshot{have[0], edited(have[1], func(s *registry.Snapshot) {
			s.VersionCreatedAtUnix++
			s.KeyID = scope.KeyID(2, s.VersionCreatedAtUnix)
		})}, have[2:]...), "the identity of Transit version 2 is lost"},
		{"retired becomes removed", state(1, registry.Removed), "Transit version 2 is retired and would be removed"},
		{"retired becomes rejected", state(1, registry.Rejected), "Transit version 2 is retired and would be rejected"},
		{"pending becomes rejected", state(3, registry.Rejected), "Transit version 4 is pending and would be rejected"},
		{"removed is revived", state(0, registry.Retired), "Transit version 1 is removed and would be retired"},
		{"active goes back", []registry.Snapshot{have[0], edited(have[1], func(s *registry.Snapshot) { s.State = registry.Active }), snapshot(3, registry.Retired), have[3]},
			"the active version would go back from 3 to 2"},
		{"an invariant broken", state(2, registry.Retired), "no snapshot is active"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := stored(t, have...)
			next, err := r.Successor(c.next)
			if c.words == "" {
				if err != nil {
					t.Fatal(err)
				}
				wantSuccessor(t, r, next)
				wantSnapshots(t, next, c.next...)
				return
			}
			if next != nil || err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("made %v: %v, want %q", next, err, c.words)
			}
		})
	}
}
