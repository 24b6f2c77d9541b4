package registry_test

import (
	"fmt"
	"slices"

	"github.com/baokms/baokms/internal/provider/registry"
)

// The model is the page design/registry, written down a second time and in
// another shape: one map of records and a list of rules, nothing shared with
// the code but the record type and the names of problems.
type model struct {
	generation uint64
	previous   string
	known      map[int]registry.Snapshot
}

// outcome is what the page says about one event.
type outcome int

const (
	nothing  outcome = iota // valid, nothing to save
	saved                   // a new generation
	held                    // a promotion guard holds
	refused                 // metadata is not valid
	declined                // an operator's transition that a guard forbids
)

func (o outcome) String() string {
	return [...]string{"nothing to save", "saved", "held", "refused", "declined"}[o]
}

// one is the version that is in a state, 0 if none is.
func (m *model) one(state registry.State) int {
	for v, s := range m.known {
		if s.State == state {
			return v
		}
	}
	return 0
}

func (m *model) newest() int {
	newest := 0
	for v := range m.known {
		newest = max(newest, v)
	}
	return newest
}

// valid are the rules of "Observe and discover first validate".
func (m *model) valid(md registry.Metadata, rejectRollback bool) bool {
	for v := range md.CreatedAtUnix {
		if v > md.Latest {
			return false // contradicts itself
		}
	}
	for v, s := range m.known {
		if s.State == registry.Removed || s.State == registry.Rejected {
			continue
		}
		second, listed := md.CreatedAtUnix[v]
		if !listed || second != s.VersionCreatedAtUnix || v < md.MinDecryption || v < md.MinAvailable || rejectRollback && md.Latest < v {
			return false
		}
	}
	return true
}

// newVersions says whether every version newly taken in has creation metadata.
func (m *model) newVersions(md registry.Metadata) bool {
	for v := m.newest() + 1; v <= md.Latest; v++ {
		if md.CreatedAtUnix[v] < 1 {
			return false
		}
	}
	return true
}

// see is observe (probe) or discover.
func (m *model) see(md registry.Metadata, rules registry.Rules, now int64, probe bool) outcome {
	p := m.one(registry.Pending)
	switch {
	case !m.valid(md, rules.RejectRollback):
		return refused
	case md.Latest > m.newest():
		if !m.newVersions(md) {
			return refused
		}
		if p != 0 {
			m.move(p, registry.Retired)
		}
		for v := m.newest() + 1; v <= md.Latest; v++ {
			m.known[v] = registry.Snapshot{
				TransitVersion: v, VersionCreatedAtUnix: md.CreatedAtUnix[v], KeyID: scope.KeyID(v, md.CreatedAtUnix[v]),
				State: registry.Retired, AADMode: registry.AADRequired, CreatedAtUnix: now,
			}
		}
		m.move(md.Latest, registry.Pending)
		if probe {
			m.count(md.Latest, rules.StableObservations, now)
		}
		return saved
	case !probe || md.Latest != p || m.stable(rules.StableObservations):
		return nothing
	}
	m.count(p, rules.StableObservations, now)
	return saved
}

func (m *model) move(version int, to registry.State) {
	s := m.known[version]
	s.State = to
	m.known[version] = s
}

// count is one observation of the pending version.
func (m *model) count(version, n int, now int64) {
	s := m.known[version]
	if s.StableObservations < n {
		s.StableObservations++
	}
	if s.ObservedAtUnix == 0 {
		s.ObservedAtUnix = now
	}
	if s.StableObservations >= n {
		s.StableAtUnix = max(now, s.ObservedAtUnix, s.StableAtUnix)
	}
	m.known[version] = s
}

// stable: the count is reached and that fact was written down.
func (m *model) stable(n int) bool {
	s := m.known[m.one(registry.Pending)]
	return s.StableObservations >= n && s.StableAtUnix != 0
}

// promote has every guard in one expression.
func (m *model) promote(md registry.Metadata, rules registry.Rules, passed bool, now int64) outcome {
	p, a := m.one(registry.Pending), m.one(registry.Active)
	if !m.valid(md, rules.RejectRollback) {
		return refused
	}
	if p == 0 || !m.stable(rules.StableObservations) || !passed || md.Latest != p || p < md.MinEncryption {
		return held
	}
	m.move(a, registry.Retired)
	s := m.known[p]
	s.State = registry.Active
	s.PromotedAtUnix = max(now, s.ObservedAtUnix, s.StableAtUnix, m.known[a].PromotedAtUnix)
	m.known[p] = s
	return saved
}

// retire is an operator's: retired versions below v become removed. The page's
// exception is written down as it reads, "when OpenBao's minimum has already been
// raised past versions that would be removed": past all of them. Past some, what
// stays is all that must be valid, and the rest of the conditions hold.
func (m *model) retire(md registry.Metadata, rules registry.Rules, v int) outcome {
	active := m.one(registry.Active)
	if v <= 1 || v > active {
		return declined
	}
	doomed := map[int]bool{}
	minimum := max(md.MinDecryption, md.MinAvailable)
	passed, all := false, true
	for version, s := range m.known {
		if s.State == registry.Retired && version < v {
			doomed[version] = true
			passed = passed || minimum > version
			all = all && minimum > version
		}
	}
	recovery := passed && all
	if !recovery && m.one(registry.Pending) != 0 {
		return declined
	}
	stays := &model{known: map[int]registry.Snapshot{}}
	for version, s := range m.known {
		if !passed || !doomed[version] {
			stays.known[version] = s
		}
	}
	valid := stays.valid(md, rules.RejectRollback)
	switch {
	case !recovery && (valid || passed) && active != md.Latest:
		return declined
	case !valid:
		return refused
	case len(doomed) == 0:
		return nothing
	}
	for version := range doomed {
		m.move(version, registry.Removed)
	}
	return saved
}

// restore is an operator's: the named removed versions become retired, if OpenBao
// decrypts with them and with all else that is kept.
func (m *model) restore(md registry.Metadata, rules registry.Rules, versions []int) outcome {
	after := &model{known: map[int]registry.Snapshot{}}
	for version, s := range m.known {
		after.known[version] = s
	}
	for _, v := range versions {
		if m.known[v].State != registry.Removed {
			return declined
		}
		after.move(v, registry.Retired)
	}
	switch {
	case len(versions) == 0:
		return declined
	case !after.valid(md, rules.RejectRollback):
		return refused
	}
	m.known = after.known
	return saved
}

// list is the model's content by ascending version.
func (m *model) list() []registry.Snapshot {
	var out []registry.Snapshot
	for _, s := range m.known {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b registry.Snapshot) int { return a.TransitVersion - b.TransitVersion })
	return out
}

// document is the model's own spelling of its state, without the hash.
func (m *model) document() string {
	return unsealed(m.generation, m.previous, m.list()...)
}

func (m *model) String() string {
	return fmt.Sprintf("generation %d\n%s", m.generation, tell(m.list()))
}
