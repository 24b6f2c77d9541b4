package registry_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// TestOperatorSearch visits every state that one node and its OpenBao can reach,
// up to a number of versions, while an operator does whatever the two commands
// and OpenBao allow, in any order and at the worst moment: rotate, probe,
// promote, raise or lower either minimum, retire below any version, restore any
// set of versions.
//
// In each state every retirement and every restoration that can be asked for is
// held against the model, and what is done is held against invariant 6: an
// identity, once accepted, is there for good, only a retirement removes it and
// only a restoration brings it back. And no state is a dead end: however early
// the minimum was raised, as long as it leaves the active version, one
// retirement makes the next probe succeed.
func TestOperatorSearch(t *testing.T) {
	versions := 4
	if os.Getenv(boundVariable) == "large" {
		versions = 5
	}
	r, err := registry.Bootstrap(scope, fingerprint, metadata(1), start)
	if err != nil {
		t.Fatal(err)
	}
	s := &operatorSearch{t: t, versions: versions, rules: registry.Rules{StableObservations: 1, RejectRollback: true},
		visited: map[string]bool{}, outcomes: map[string]int{}}
	s.reach(lone{r, metadata(1)})
	for len(s.waiting) > 0 {
		last := len(s.waiting) - 1
		at := s.waiting[last]
		s.waiting = s.waiting[:last]
		s.leave(at)
	}
	t.Logf("%d states; %v", len(s.visited), s.outcomes)
	for _, what := range []string{
		"retire saved", "retire nothing to save", "retire refused", "retire declined", "retire saved, after the minimum", "retire saved, while pending",
		"restore saved", "restore refused", "restore declined", "observe saved", "promote saved", "restored by one probe after a retirement",
	} {
		if s.outcomes[what] == 0 {
			t.Errorf("no state had: %s", what)
		}
	}
}

// lone is one node without a fleet, and its OpenBao.
type lone struct {
	r  *registry.Registry
	md registry.Metadata
}

type operatorSearch struct {
	t        *testing.T
	versions int
	rules    registry.Rules
	visited  map[string]bool
	waiting  []lone
	outcomes map[string]int
}

func (s *operatorSearch) reach(at lone) {
	key := fmt.Sprint(contents(at.r), at.md.Latest, at.md.MinDecryption, at.md.MinAvailable)
	if !s.visited[key] {
		s.visited[key] = true
		s.waiting = append(s.waiting, at)
	}
}

// leave takes every step that is possible from one place.
func (s *operatorSearch) leave(at lone) {
	if at.md.Latest < s.versions {
		s.openbao(at, at.md.Latest+1, at.md.MinDecryption, at.md.MinAvailable)
	}
	for lowest := 0; lowest <= at.md.Latest; lowest++ {
		s.openbao(at, at.md.Latest, lowest, 0)
		s.openbao(at, at.md.Latest, 0, lowest)
	}
	if next, change, err := at.r.Observe(at.md, s.rules, start); err == nil {
		s.normal("observe", at, next, change.Any())
	}
	if next, change, err := at.r.Promote(at.md, s.rules, true, start); err == nil {
		s.normal("promote", at, next, change.Any())
	}
	for before := 0; before <= s.versions+1; before++ {
		s.retire(at, before)
	}
	for set := range 1 << (s.versions + 1) {
		var versions []int
		for v := 1; v <= s.versions+1; v++ {
			if set&(1<<(v-1)) != 0 {
				versions = append(versions, v)
			}
		}
		s.restore(at, versions)
	}
	s.escape(at)
}

// openbao changes the key in OpenBao.
func (s *operatorSearch) openbao(at lone, latest, minDecryption, minAvailable int) {
	md := metadata(latest)
	md.MinDecryption, md.MinAvailable = minDecryption, minAvailable
	for v := 1; v < minDecryption; v++ {
		delete(md.CreatedAtUnix, v)
	}
	s.reach(lone{at.r, md})
}

// normal keeps what a transition of the running provider made.
func (s *operatorSearch) normal(what string, at lone, next *registry.Registry, changed bool) {
	s.t.Helper()
	if !changed {
		return
	}
	s.outcomes[what+" saved"]++
	for _, e := range at.r.Entries() {
		if kept, ok := next.Lookup(e.KeyID); !ok || kept.Decrypts() != e.Decrypts() {
			s.t.Fatalf("invariant 6: %s changed whether version %d decrypts", what, e.TransitVersion)
		}
	}
	s.reach(lone{next, at.md})
}

// modelOf is the model in the state of a registry.
func modelOf(r *registry.Registry) *model {
	m := &model{known: map[int]registry.Snapshot{}}
	for _, snapshot := range contents(r) {
		m.known[snapshot.TransitVersion] = snapshot
	}
	return m
}

func (s *operatorSearch) retire(at lone, before int) {
	s.t.Helper()
	m := modelOf(at.r)
	want := m.retire(at.md, s.rules, before)
	next, versions, err := at.r.Retire(at.md, s.rules, before)
	s.compare(fmt.Sprintf("retire before %d", before), "retire", at, m, want, next, versions, err)
	if want == saved {
		if at.r.Validate(at.md, true) != nil {
			s.outcomes["retire saved, after the minimum"]++
		}
		if at.r.Pending() != nil {
			s.outcomes["retire saved, while pending"]++
		}
		s.back(at, next, versions)
	}
}

// back asserts that a restoration undoes a retirement, in all but the chain.
func (s *operatorSearch) back(at lone, next *registry.Registry, versions []int) {
	s.t.Helper()
	back, restored, err := next.Restore(metadata(at.md.Latest), s.rules, versions)
	if err != nil {
		s.t.Fatalf("retired %v and could not restore them: %v", versions, err)
	}
	wantSuccessor(s.t, next, back)
	wantSnapshots(s.t, back, contents(at.r)...)
	if !slices.Equal(restored, versions) {
		s.t.Fatalf("restored %v, want %v", restored, versions)
	}
}

func (s *operatorSearch) restore(at lone, versions []int) {
	s.t.Helper()
	m := modelOf(at.r)
	want := m.restore(at.md, s.rules, versions)
	next, restored, err := at.r.Restore(at.md, s.rules, versions)
	s.compare(fmt.Sprintf("restore %v", versions), "restore", at, m, want, next, restored, err)
	if want == saved && !slices.Equal(restored, versions) {
		s.t.Fatalf("restored %v, want %v", restored, versions)
	}
}

// compare holds one outcome against the model and goes on from it.
func (s *operatorSearch) compare(what, kind string, at lone, m *model, want outcome, next *registry.Registry, versions []int, err error) {
	s.t.Helper()
	var rejection *registry.Rejection
	var refusal *registry.Refusal
	got := saved
	switch {
	case errors.As(err, &refusal):
		got = declined
	case errors.As(err, &rejection):
		got = refused
	case err != nil:
		s.t.Fatalf("%s: neither a refusal nor a rejection: %v", what, err)
	case len(versions) == 0:
		got = nothing
	}
	if got != want || (err != nil) != (next == nil) || got == nothing && next != at.r {
		s.t.Fatalf("%s with %+v: %s (%v), the model says %s\n%s", what, at.md, got, err, want, tell(contents(at.r)))
	}
	s.outcomes[kind+" "+got.String()]++
	if got != saved {
		return
	}
	wantSuccessor(s.t, at.r, next)
	wantSnapshots(s.t, next, m.list()...)
	for _, e := range at.r.Entries() {
		kept, ok := next.Lookup(e.KeyID)
		named := slices.Contains(versions, e.TransitVersion)
		if !ok || (kept.Decrypts() != e.Decrypts()) != named || named && kept.Decrypts() != (kind == "restore") {
			s.t.Fatalf("invariant 6: %s (%v) and version %d, found %v, decrypts %v", what, versions, e.TransitVersion, ok, kept.Decrypts())
		}
	}
	s.reach(lone{next, at.md})
}

// escape asserts that a minimum that was raised too early is no dead end.
func (s *operatorSearch) escape(at lone) {
	s.t.Helper()
	lowest := max(at.md.MinDecryption, at.md.MinAvailable)
	if lowest > at.r.Active().TransitVersion || at.r.Validate(at.md, true) == nil {
		return
	}
	next, _, err := at.r.Retire(at.md, s.rules, lowest)
	if err == nil {
		_, _, err = next.Observe(at.md, s.rules, start)
	}
	if err != nil {
		s.t.Fatalf("OpenBao's minimum is %d, and no retirement helps: %v\n%s", lowest, err, tell(contents(at.r)))
	}
	s.outcomes["restored by one probe after a retirement"]++
}
