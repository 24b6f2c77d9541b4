package diagnose

import (
	"slices"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/registry"
)

// threeVersions is a node that knows versions 1 to 3: retired, active, pending.
func threeVersions(t *testing.T) *story {
	t.Helper()
	return newStory(t).rotate(2).probe(3).promote().rotate(3).probe(1)
}

// What OpenBao says of each version is told beside what the node knows of it.
func TestSideBySide(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*story)
		want   []string // InTransit of versions 1, 2, 3
		known  []bool   // of the versions that OpenBao lists
	}{
		"agrees":      {func(*story) {}, []string{"agrees", "agrees", "agrees"}, []bool{true, true, true}},
		"not read":    {func(s *story) { s.unread() }, []string{"", "", ""}, nil},
		"minimum":     {func(s *story) { s.minimums(2, 0) }, []string{"blocked", "agrees", "agrees"}, []bool{true, true}},
		"not listed":  {func(s *story) { delete(s.metadata.CreatedAtUnix, 2) }, []string{"agrees", "missing", "agrees"}, []bool{true, true}},
		"other time":  {func(s *story) { s.metadata.CreatedAtUnix[3]++ }, []string{"agrees", "agrees", "differs"}, []bool{true, true, true}},
		"rolled back": {func(s *story) { s.rotate(2) }, []string{"agrees", "agrees", "missing"}, []bool{true, true}},
		"newer":       {func(s *story) { s.rotate(5) }, []string{"agrees", "agrees", "agrees"}, []bool{true, true, true, false, false}},
		"available": {func(s *story) { s.metadata.MinAvailable, s.key.MinAvailable = 2, 2 },
			[]string{"blocked", "agrees", "agrees"}, []bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := threeVersions(t)
			c.change(s)
			r := s.sideBySide(checked(keyChecks))
			if r.Registry.ComparedWithTransit != (c.known != nil) || r.Registry.StateHash != s.registry.Hash() || r.Registry.Generation != s.registry.Generation() {
				t.Errorf("the registry is told as %+v", r.Registry)
			}
			var said, states []string
			for i, told := range r.Registry.Snapshots {
				said, states = append(said, told.InTransit), append(states, told.State)
				if e := s.registry.Entries()[i]; told.TransitVersion != i+1 || told.KeyIDHash != e.Binding.KeyIDHash() {
					t.Errorf("snapshot %d is told as %+v", i+1, told)
				}
			}
			if !slices.Equal(said, c.want) || !slices.Equal(states, []string{"retired", "active", "pending"}) {
				t.Errorf("OpenBao says %q of %q, want %q", said, states, c.want)
			}
			if c.known == nil {
				if r.Transit != nil {
					t.Errorf("metadata that was not read is told as %+v", r.Transit)
				}
				return
			}
			var known []bool
			for _, v := range r.Transit.Versions {
				known = append(known, v.Known)
				if want := s.metadata.CreatedAtUnix[v.Version]; v.CreatedAt == "" || want == 0 {
					t.Errorf("version %d is listed with %q", v.Version, v.CreatedAt)
				}
			}
			if !slices.Equal(known, c.known) {
				t.Errorf("known are %v, want %v", known, c.known)
			}
		})
	}
}

// What OpenBao calls a type is repeated only where it is a known one.
func TestTheKeysTypeIsAKnownOne(t *testing.T) {
	for got, want := range map[string]string{"aes256-gcm96": "aes256-gcm96", "ed25519": "ed25519", "canary-type": "another type", "": "another type"} {
		s := newStory(t)
		s.key.Type = got
		if told := s.sideBySide(checked(keyChecks)).Transit.Type; told != want {
			t.Errorf("the type %q is told as %q, want %q", got, told, want)
		}
	}
}

// A registry that only a first start would make is not told as if it were there.
func TestAFreshNodeHasNoRegistry(t *testing.T) {
	s := newStory(t)
	s.fresh = true
	r := s.sideBySide(checked(keyChecks))
	if r.Registry != nil {
		t.Errorf("the registry is told as %+v", r.Registry)
	}
	if len(r.Transit.Versions) != 1 || r.Transit.Versions[0].Known {
		t.Errorf("the versions are %+v: none is known here", r.Transit.Versions)
	}
	s.registry, s.fresh = nil, false
	if r := s.sideBySide(checked(keyChecks)); r.Registry != nil {
		t.Errorf("without a registry there is %+v", r.Registry)
	}
}

// What is not compared is no pass, whatever the checks say.
func TestNotComparedIsNoPass(t *testing.T) {
	s := threeVersions(t).unread()
	checks := checked(keyChecks)
	i := slices.Index(keyChecks, transitKey)
	checks[i].Result, checks[i].SkippedBecause = command.Skip, []string{authLogin}
	r := s.sideBySide(checks).Seal(command.KindKey)
	if c := r.Checks[i]; r.Result != command.Fail || c.Result != command.Fail || c.Reason != "metadata_read_failed" || c.NextStep == "" {
		t.Errorf("the report is %s with %+v", r.Result, c)
	}
	if checks[i].Result != command.Skip {
		t.Error("the caller's checks were changed")
	}
	// Where a check says it already, nothing is put on top.
	checks[0].Result = command.Fail
	if r := s.sideBySide(checks); !slices.EqualFunc(r.Checks, checks, func(a, b command.Check) bool { return a.ID == b.ID && a.Result == b.Result }) {
		t.Errorf("the checks are %+v", r.Checks)
	}
}

// A removed version is told, and that OpenBao's minimum blocks it is as it
// should be.
func TestARemovedVersionIsTold(t *testing.T) {
	s := newStory(t).rotate(2).probe(3).promote()
	next, _, err := s.registry.Retire(s.metadata, s.rules(), 2)
	if err != nil {
		t.Fatal(err)
	}
	s.registry = next
	s.minimums(2, 0)
	r := s.rotationReport(t.Context(), checked(planChecks))
	if got := r.Registry.Snapshots[0]; got.State != string(registry.Removed) || got.InTransit != command.Blocked {
		t.Errorf("version 1 is %+v", got)
	}
	if got, want := aheadOf(r), "nothing until the key is rotated in OpenBao: version 2 is active here and OpenBao's latest []\n"; got != want {
		t.Errorf("ahead are\n%s", got)
	}
}
