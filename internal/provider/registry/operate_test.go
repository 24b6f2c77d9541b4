package registry_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// wantRefusal checks a refusal's guard, versions and words, and that it says
// both what is wrong and what to do.
func wantRefusal(t *testing.T, err error, guard registry.Guard, versions []int, words ...string) {
	t.Helper()
	var r *registry.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("error %v, want a refusal: %s", err, guard)
	}
	if r.Guard != guard || !slices.Equal(r.Versions, versions) || r.Detail == "" || r.NextStep == "" {
		t.Errorf("refusal %+v, want guard %s of versions %v, with a detail and a next step", r, guard, versions)
	}
	for _, w := range append(words, string(guard)+": ", r.Detail, r.NextStep) {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not hold %q", err, w)
		}
	}
}

const (
	active, retired, removed = registry.Active, registry.Retired, registry.Removed
)

// settled keeps 1 (removed), 2, 3 (retired) and 4 (active).
func settled(t *testing.T) *registry.Registry {
	t.Helper()
	return stored(t, snapshot(1, removed), snapshot(2, retired), snapshot(3, retired), snapshot(4, active))
}

// rotating is settled with 5 (skipped) and 6 pending.
func rotating(t *testing.T) *registry.Registry {
	t.Helper()
	return stored(t, snapshot(1, removed), snapshot(2, retired), snapshot(3, retired), snapshot(4, active), snapshot(5, retired), pending(6, 1))
}

// minimum is metadata with a raised min_decryption_version, as OpenBao lists it.
func minimum(latest, lowest int) registry.Metadata {
	return with(metadata(latest), func(md *registry.Metadata) {
		md.MinDecryption = lowest
		for v := 1; v < lowest; v++ {
			delete(md.CreatedAtUnix, v)
		}
	})
}

func TestRetire(t *testing.T) {
	remade := func(md registry.Metadata, v int) registry.Metadata {
		return with(md, func(md *registry.Metadata) { md.CreatedAtUnix[v]++ })
	}
	available := func(md registry.Metadata, lowest int) registry.Metadata {
		return with(md, func(md *registry.Metadata) { md.MinAvailable = lowest })
	}
	cases := []struct {
		name   string
		r      func(*testing.T) *registry.Registry
		md     registry.Metadata
		before int
		keep   bool // rejectVersionRollback: false

		removed  []int
		guard    registry.Guard
		problem  registry.Problem
		versions []int // of the refusal or rejection
		words    string
	}{
		{name: "one", r: settled, md: metadata(4), before: 3, removed: []int{2}},
		{name: "all below the active", r: settled, md: metadata(4), before: 4, removed: []int{2, 3}},
		{name: "nothing is left below", r: settled, md: metadata(4), before: 2},
		{name: "a removed version may be gone, and another", r: settled, md: without(metadata(4), 1), before: 3, removed: []int{2}},
		{name: "a removed version may be another", r: settled, md: remade(metadata(4), 1), before: 3, removed: []int{2}},
		{name: "minimum at what is removed first", r: settled, md: minimum(4, 2), before: 3, removed: []int{2}},

		{name: "bound above the active version", r: settled, md: metadata(4), before: 5, guard: registry.GuardBeforeVersion, versions: []int{4}, words: "name a version from 2 to 4"},
		{name: "bound far above", r: settled, md: metadata(4), before: math.MaxInt, guard: registry.GuardBeforeVersion, versions: []int{4}, words: "it is active"},
		{name: "bound 1", r: settled, md: metadata(4), before: 1, guard: registry.GuardBeforeVersion, words: "nothing can be below version 1"},
		{name: "bound 0", r: settled, md: metadata(4), before: 0, guard: registry.GuardBeforeVersion},
		{name: "bound negative", r: settled, md: metadata(4), before: math.MinInt, guard: registry.GuardBeforeVersion},
		{name: "bound above, in the recovery case", r: settled, md: minimum(4, 4), before: 5, guard: registry.GuardBeforeVersion, versions: []int{4}},
		{name: "bound that is pending", r: rotating, md: metadata(6), before: 6, guard: registry.GuardBeforeVersion, versions: []int{4}},

		{name: "rotation pending", r: rotating, md: metadata(6), before: 3, guard: registry.GuardPending, versions: []int{6}, words: "wait until this node has promoted it"},
		{name: "rotation pending, nothing to remove", r: rotating, md: metadata(6), before: 2, guard: registry.GuardPending, versions: []int{6}},
		{name: "rotation not seen yet", r: settled, md: metadata(5), before: 3, guard: registry.GuardNotLatest, versions: []int{5}, words: "version 4 is active on this node"},
		{name: "rotation not seen yet, nothing to remove", r: settled, md: metadata(5), before: 2, guard: registry.GuardNotLatest, versions: []int{5}},

		{name: "rollback", r: settled, md: metadata(3), before: 3, problem: registry.VersionRollback, versions: []int{4}},
		{name: "rollback allowed", r: settled, md: metadata(3), before: 3, keep: true, problem: registry.IdentityDrift, versions: []int{4}},
		{name: "what stays is gone", r: settled, md: without(metadata(4), 3), before: 3, problem: registry.IdentityDrift, versions: []int{3}},
		{name: "what stays is another", r: settled, md: remade(metadata(4), 4), before: 3, problem: registry.IdentityDrift, versions: []int{4}},
		{name: "what goes is gone, without a minimum that explains it", r: settled, md: without(metadata(4), 2), before: 3, problem: registry.IdentityDrift, versions: []int{2}},
		{name: "what goes is another", r: settled, md: remade(metadata(4), 2), before: 3, problem: registry.IdentityDrift, versions: []int{2}},
		{name: "minimum above what stays only", r: settled, md: minimum(4, 4), before: 2, problem: registry.VersionsBlocked, versions: []int{2, 3}},
		{name: "metadata contradicts itself", r: settled, md: with(metadata(4), func(md *registry.Metadata) { md.Latest = 3 }), before: 3, problem: registry.MetadataUnverified, versions: []int{4}},
		{name: "no metadata", r: settled, md: registry.Metadata{}, before: 3, problem: registry.VersionRollback, versions: []int{2, 3, 4}},

		{name: "recovery", r: settled, md: minimum(4, 3), before: 3, removed: []int{2}},
		{name: "recovery, available minimum", r: settled, md: available(metadata(4), 3), before: 3, removed: []int{2}},
		{name: "recovery, more than is forbidden", r: settled, md: minimum(4, 3), before: 4, removed: []int{2, 3}},
		{name: "more than is forbidden while pending", r: rotating, md: minimum(6, 3), before: 4, guard: registry.GuardPending, versions: []int{6}, words: "retire before version 3 first"},
		{name: "more than is forbidden before a rotation is seen", r: settled, md: minimum(5, 3), before: 4, guard: registry.GuardNotLatest, versions: []int{5}},
		{name: "recovery while pending", r: rotating, md: minimum(6, 3), before: 3, removed: []int{2}},
		{name: "recovery before a rotation is seen", r: settled, md: minimum(5, 4), before: 4, removed: []int{2, 3}},
		{name: "recovery from a minimum at the active version", r: rotating, md: minimum(6, 4), before: 4, removed: []int{2, 3}},
		{name: "recovery, what goes is another besides", r: settled, md: remade(minimum(4, 3), 3), before: 4, removed: []int{2, 3}},
		{name: "recovery that does not reach far enough", r: settled, md: minimum(4, 4), before: 3, problem: registry.VersionsBlocked, versions: []int{3}, words: "lower the minimum in OpenBao"},
		{name: "recovery, the active version is forbidden", r: settled, md: minimum(5, 5), before: 4, problem: registry.VersionsBlocked, versions: []int{4}},
		{name: "recovery, what stays is another", r: settled, md: remade(minimum(4, 3), 3), before: 3, problem: registry.IdentityDrift, versions: []int{3}},
		{name: "recovery, what stays is gone", r: rotating, md: without(minimum(6, 3), 6), before: 3, problem: registry.IdentityDrift, versions: []int{6}},
		{name: "recovery, rollback below the pending version", r: rotating, md: minimum(5, 3), before: 3, problem: registry.VersionRollback, versions: []int{6}},
		{name: "recovery, metadata contradicts itself", r: settled, md: with(minimum(4, 3), func(md *registry.Metadata) { md.CreatedAtUnix[5] = created(5) }), before: 3, problem: registry.MetadataUnverified, versions: []int{5}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := c.r(t)
			was := string(r.Encode())
			next, versions, err := r.Retire(c.md, registry.Rules{StableObservations: 3, RejectRollback: !c.keep}, c.before)
			if string(r.Encode()) != was {
				t.Fatal("the registry was changed in place")
			}
			if c.guard != "" || c.problem != "" {
				if next != nil || versions != nil {
					t.Errorf("refused, and yet %v removed", versions)
				}
				if c.guard != "" {
					wantRefusal(t, err, c.guard, c.versions, c.words)
				} else {
					wantRejection(t, err, c.problem, c.versions, c.words)
				}
				return
			}
			if err != nil || !slices.Equal(versions, c.removed) {
				t.Fatalf("removed %v with error %v, want %v", versions, err, c.removed)
			}
			if len(c.removed) == 0 {
				if next != r {
					t.Error("nothing to remove, and yet another registry")
				}
				return
			}
			wantSuccessor(t, r, next)
			want := contents(r)
			for i := range want {
				if slices.Contains(c.removed, want[i].TransitVersion) {
					want[i].State = removed
				}
			}
			wantSnapshots(t, next, want...)
		})
	}
}

// TestAfterARetirement: what the running provider does never revives a removed
// version, nor minds what became of it in OpenBao.
func TestAfterARetirement(t *testing.T) {
	r, _, err := settled(t).Retire(metadata(4), rules, 4)
	if err != nil {
		t.Fatal(err)
	}
	after := []registry.Snapshot{snapshot(1, removed), snapshot(2, removed), snapshot(3, removed), snapshot(4, active)}
	wantSnapshots(t, r, after...)
	for name, md := range map[string]registry.Metadata{
		"all still there":             metadata(4),
		"minimum raised":              minimum(4, 4),
		"available minimum raised":    with(metadata(4), func(md *registry.Metadata) { md.MinAvailable = 4 }),
		"gone without a minimum":      without(metadata(4), 1, 2, 3),
		"made anew with other times":  with(metadata(4), func(md *registry.Metadata) { md.CreatedAtUnix[2], md.CreatedAtUnix[3] = 7, 8 }),
		"minimum raised, one came up": with(minimum(4, 4), func(md *registry.Metadata) { md.CreatedAtUnix[2] = created(2) }),
	} {
		t.Run(name, func(t *testing.T) {
			for what, see := range map[string]func(registry.Metadata, registry.Rules, int64) (*registry.Registry, registry.Change, error){"observe": r.Observe, "discover": r.Discover} {
				next, change, err := see(md, rules, now)
				if err != nil || next != r || change.Any() {
					t.Errorf("%s: %+v, %v", what, change, err)
				}
			}
			// A whole rotation on top of it.
			rotated := with(md, func(md *registry.Metadata) { md.Latest = 5; md.CreatedAtUnix[5] = created(5) })
			next := r
			for range rules.StableObservations {
				if next, _, err = next.Observe(rotated, rules, now); err != nil {
					t.Fatal(err)
				}
			}
			if next, _, err = next.Promote(rotated, rules, true, now); err != nil {
				t.Fatal(err)
			}
			got := contents(next)
			if len(got) != 5 || !slices.Equal(got[:3], after[:3]) || got[3].State != retired || got[4].State != active {
				t.Errorf("after a rotation:\n%s", tell(got))
			}
		})
	}
}

func TestRestore(t *testing.T) {
	have := func(t *testing.T) *registry.Registry {
		return stored(t, snapshot(1, removed), snapshot(2, removed), snapshot(3, retired), snapshot(4, active), pending(5, 1))
	}
	type list = []int
	cases := []struct {
		name     string
		md       registry.Metadata
		named    []int
		restored []int

		guard    registry.Guard
		problem  registry.Problem
		versions []int
		words    string
	}{
		{name: "one", md: metadata(5), named: list{2}, restored: list{2}},
		{name: "all", md: metadata(5), named: list{1, 2}, restored: list{1, 2}},
		{name: "in any order and twice", md: metadata(5), named: list{2, 1, 2}, restored: list{1, 2}},
		{name: "the one that OpenBao decrypts", md: minimum(5, 2), named: list{2}, restored: list{2}},
		{name: "before a rotation is seen", md: metadata(6), named: list{1}, restored: list{1}},

		{name: "none", md: metadata(5), guard: registry.GuardNotRemoved, words: "name the removed versions"},
		{name: "a retired one", md: metadata(5), named: list{2, 3}, guard: registry.GuardNotRemoved, versions: list{3}, words: "no removed record"},
		{name: "the active and the pending one", md: metadata(5), named: list{5, 4}, guard: registry.GuardNotRemoved, versions: list{4, 5}},
		{name: "unknown ones", md: metadata(9), named: list{1, 7, 0, -1, math.MinInt, math.MaxInt}, guard: registry.GuardNotRemoved, versions: list{math.MinInt, -1, 0, 7, math.MaxInt}},

		{name: "forbidden in OpenBao", md: minimum(5, 2), named: list{1, 2}, problem: registry.VersionsBlocked, versions: list{1}, words: "lower the minimum in OpenBao"},
		{name: "not available in OpenBao", md: with(metadata(5), func(md *registry.Metadata) { md.MinAvailable = 3 }), named: list{2}, problem: registry.VersionsBlocked, versions: list{2}},
		{name: "gone from OpenBao", md: without(metadata(5), 2), named: list{2}, problem: registry.IdentityDrift, versions: list{2}},
		{name: "another in OpenBao", md: with(metadata(5), func(md *registry.Metadata) { md.CreatedAtUnix[2]++ }), named: list{2}, problem: registry.IdentityDrift, versions: list{2}, words: "the key was replaced"},
		{name: "another one is not valid", md: without(metadata(5), 3), named: list{2}, problem: registry.IdentityDrift, versions: list{3}},
		{name: "rollback", md: metadata(4), named: list{2}, problem: registry.VersionRollback, versions: list{5}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := have(t)
			was, named := string(r.Encode()), slices.Clone(c.named)
			next, versions, err := r.Restore(c.md, rules, c.named)
			if string(r.Encode()) != was || !slices.Equal(named, c.named) {
				t.Fatal("an argument was changed in place")
			}
			switch {
			case c.guard != "":
				wantRefusal(t, err, c.guard, c.versions, c.words)
			case c.problem != "":
				wantRejection(t, err, c.problem, c.versions, c.words)
			case err != nil || !slices.Equal(versions, c.restored):
				t.Fatalf("restored %v with error %v, want %v", versions, err, c.restored)
			default:
				wantSuccessor(t, r, next)
				want := contents(r)
				for i := range want {
					if slices.Contains(c.restored, want[i].TransitVersion) {
						want[i].State = retired
					}
				}
				wantSnapshots(t, next, want...)
				return
			}
			if next != nil || versions != nil {
				t.Errorf("refused, and yet %v restored", versions)
			}
		})
	}
}

// TestRetiredDocument is the reviewed hash, held against the format by hand: it
// depends on nothing but the registry before.
func TestRetiredDocument(t *testing.T) {
	r := settled(t)
	next, _, err := r.Retire(metadata(4), rules, 3)
	if err != nil {
		t.Fatal(err)
	}
	want := seal(t, unsealed(8, r.Hash(), snapshot(1, removed), snapshot(2, removed), snapshot(3, retired), snapshot(4, active)))
	if got := string(next.Encode()); got != string(want) {
		t.Errorf("the document is\n%s\nwant\n%s", got, want)
	}
	recovered, _, err := r.Retire(minimum(6, 3), registry.Rules{StableObservations: 1}, 3)
	if err != nil || recovered.Hash() != next.Hash() {
		t.Errorf("in the recovery case the hash is another one (%v)", err)
	}
}
