package registry_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// small are all registries with versions 1 to 4: every version below the active
// one retired or removed, and above it nothing or one pending.
func small(t *testing.T) []*registry.Registry {
	t.Helper()
	var all []*registry.Registry
	for top := 1; top <= 4; top++ {
		for gone := range 1 << (top - 1) {
			var below []registry.Snapshot
			for v := 1; v < top; v++ {
				state := retired
				if gone>>(v-1)&1 == 1 {
					state = removed
				}
				below = append(below, snapshot(v, state))
			}
			settled := append(slices.Clone(below), snapshot(top, active))
			all = append(all, stored(t, settled...), stored(t, append(settled, pending(top+1, 1))...), stored(t, append(slices.Clone(settled), pending(top+1, 3))...))
		}
	}
	return all
}

// successors are what every transition makes of r, named.
func successors(t *testing.T, r *registry.Registry) map[string]*registry.Registry {
	t.Helper()
	made := map[string]*registry.Registry{}
	keep := func(name string, next *registry.Registry, err error) {
		if err == nil && next != r {
			made[name] = next
		}
	}
	for _, latest := range []int{4, 5, 6} {
		next, _, err := r.Observe(metadata(latest), rules, now)
		keep(fmt.Sprintf("observe %d", latest), next, err)
		next, _, err = r.Discover(metadata(latest), rules, now)
		keep(fmt.Sprintf("discover %d", latest), next, err)
		next, _, err = r.Promote(metadata(latest), rules, true, now)
		keep(fmt.Sprintf("promote %d", latest), next, err)
	}
	newest := r.Entries()[len(r.Entries())-1].TransitVersion
	for before := 2; before <= 4; before++ {
		for _, md := range []registry.Metadata{metadata(newest), minimum(newest, before)} {
			next, _, err := r.Retire(md, rules, before)
			keep(fmt.Sprintf("retire %d", before), next, err)
		}
	}
	for _, versions := range subsets {
		next, _, err := r.Restore(metadata(newest), rules, versions)
		keep(fmt.Sprintf("restore %v", versions), next, err)
	}
	return made
}

var subsets = [][]int{{1}, {2}, {3}, {1, 2}, {1, 3}, {2, 3}, {1, 2, 3}}

// TestFollows holds both answers against every transition of every small
// registry: an applied plan is known again, and nothing else is taken for one.
func TestFollows(t *testing.T) {
	known := map[string]int{}
	for _, r := range small(t) {
		next := successors(t, r)
		for before := 2; before <= 4; before++ {
			wanted := next[fmt.Sprintf("retire %d", before)]
			if wanted == nil {
				continue // nothing was to be removed, or it was refused
			}
			for name, n := range next {
				got := n.FollowsRetirement(r.Hash(), before)
				switch {
				case got && n.Hash() != wanted.Hash():
					t.Errorf("%s is taken for retire %d of\n%s", name, before, tell(contents(r)))
				case got:
					known["retired"]++
				case n.Hash() == wanted.Hash() && !slices.ContainsFunc(contents(r), func(s registry.Snapshot) bool {
					return s.State == removed && s.TransitVersion >= before
				}):
					t.Errorf("retire %d is not known again after\n%s", before, tell(contents(r)))
				}
				if n.FollowsRetirement(n.Hash(), before) || n.FollowsRetirement("", before) {
					t.Error("a registry follows from another hash than its predecessor's")
				}
			}
		}
		for _, versions := range subsets {
			wanted := next[fmt.Sprintf("restore %v", versions)]
			if wanted == nil {
				continue
			}
			for name, n := range next {
				var named []int // what name restores
				for _, s := range contents(n) {
					if s.State == retired && slices.ContainsFunc(contents(r), func(was registry.Snapshot) bool {
						return was.TransitVersion == s.TransitVersion && was.State == removed
					}) {
						named = append(named, s.TransitVersion)
					}
				}
				all := !slices.ContainsFunc(versions, func(v int) bool { return !slices.Contains(named, v) })
				if got := n.FollowsRestoration(r.Hash(), versions); got != all {
					t.Errorf("%s follows restore %v: %v, after\n%s", name, versions, got, tell(contents(r)))
				} else if got {
					known["restored"]++
				}
				if n.FollowsRestoration(n.Hash(), versions) || n.FollowsRestoration(r.Hash(), nil) {
					t.Error("a registry follows from another hash, or from a restoration of nothing")
				}
			}
		}
	}
	if known["retired"] < 20 || known["restored"] < 20 {
		t.Errorf("too little was told apart to mean anything: %v", known)
	}
}

// TestFollowsNothing: a first generation follows from nothing, whatever is asked.
func TestFollowsNothing(t *testing.T) {
	first, err := registry.Bootstrap(scope, stored(t, snapshot(1, active)).Fingerprint(), metadata(1), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{"", first.Hash()} {
		if first.FollowsRetirement(hash, 2) || first.FollowsRestoration(hash, []int{1}) {
			t.Errorf("generation 1 follows from %q", hash)
		}
	}
}
