package registry_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/baokms/baokms/internal/provider/registry"
)

// minimum is an operator's raise, in OpenBao, of what may still be decrypted, or
// its taking back: before, after or without a retirement here.
func (m *machine) minimum(rt *rapid.T) {
	m.real.MinDecryption, m.real.MinAvailable = 0, 0
	if rapid.IntRange(0, 3).Draw(rt, "raised") > 0 {
		return
	}
	lowest := rapid.IntRange(1, m.model.one(registry.Active)+1).Draw(rt, "lowest")
	if rapid.Bool().Draw(rt, "available") {
		m.real.MinAvailable = lowest
	} else {
		m.real.MinDecryption = lowest
	}
}

// retire is an operator's plan and its application, with the registry read from
// its file between the two and whatever OpenBao says at the moment. Both come out
// the same to the byte, or the plan would not be what was reviewed.
func (m *machine) retire(rt *rapid.T) {
	md := m.view(rt)
	before := m.model.one(registry.Active)
	if rapid.Bool().Draw(rt, "other") {
		before = rapid.IntRange(0, before+1).Draw(rt, "before")
	}
	if rapid.Bool().Draw(rt, "too late") { // the minimum was raised first
		md.MinDecryption = min(before, md.Latest)
		maps.DeleteFunc(md.CreatedAtUnix, func(v int, _ int64) bool { return v < md.MinDecryption })
	}
	atRisk := m.r.Validate(md, m.rules.RejectRollback) != nil
	want := m.model.retire(md, m.rules, before)
	next, versions, err := m.r.Retire(md, m.rules, before)
	m.repeat(rt, next, func(r *registry.Registry) *registry.Registry {
		again, _, _ := r.Retire(md, m.rules, before)
		return again
	})
	m.settle(rt, want, next, len(versions) > 0, err)
	if len(versions) > 0 {
		m.operated.retired++
		if atRisk {
			m.operated.recovered++
		}
	}
	m.account(rt, versions, true)
}

// restore names versions, mostly removed ones.
func (m *machine) restore(rt *rapid.T) {
	md := m.view(rt)
	var versions []int
	for _, e := range m.r.Entries() {
		if e.State == registry.Removed && rapid.Bool().Draw(rt, "named") || rapid.IntRange(0, 20).Draw(rt, "by mistake") == 0 {
			versions = append(versions, e.TransitVersion)
		}
	}
	if len(versions) == 0 && rapid.IntRange(0, 9).Draw(rt, "even so") > 0 {
		rt.Skip("nothing to restore")
	}
	named := rapid.Permutation(append(slices.Clone(versions), versions...)).Draw(rt, "spelling")
	want := m.model.restore(md, m.rules, versions)
	next, restored, err := m.r.Restore(md, m.rules, named)
	if err == nil && !slices.Equal(restored, versions) {
		rt.Fatalf("restored %v, want %v", restored, versions)
	}
	m.repeat(rt, next, func(r *registry.Registry) *registry.Registry {
		again, _, _ := r.Restore(md, m.rules, versions)
		return again
	})
	m.settle(rt, want, next, err == nil, err)
	if err == nil {
		m.operated.restored++
	}
	m.account(rt, restored, false)
}

// repeat asserts that a transition of the registry as its file gives it back has
// the same outcome.
func (m *machine) repeat(rt *rapid.T, next *registry.Registry, apply func(*registry.Registry) *registry.Registry) {
	rt.Helper()
	read, err := registry.Decode(m.r.Encode())
	if err != nil {
		rt.Fatal(err)
	}
	again := apply(read)
	if (again == nil) != (next == nil) || again != nil && (again.Hash() != next.Hash() || again.Generation() != next.Generation()) {
		rt.Fatal("the same plan of the same registry has another outcome")
	}
}

// account writes down what an operator removed or brought back: exactly what the
// transition named.
func (m *machine) account(rt *rapid.T, versions []int, removed bool) {
	rt.Helper()
	if !slices.IsSorted(versions) {
		rt.Fatalf("versions %v do not ascend", versions)
	}
	for _, v := range versions {
		m.everKnown[scope.KeyID(v, m.model.known[v].VersionCreatedAtUnix)] = removed
	}
}
