package registry_test

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/baokms/baokms/internal/provider/registry"
)

// machine drives a registry and its model through the same events and compares
// every byte of the document after each.
type machine struct {
	t     *testing.T
	r     *registry.Registry
	model *model
	now   int64
	rules registry.Rules
	real  registry.Metadata // what OpenBao truly has

	document []byte // of the model, and what it was made of
	sealed   uint64
	list     []registry.Snapshot

	everKnown map[string]bool // key_id of every accepted identity → is removed, by an operator
	highest   int             // the highest version that was ever active
	tally     map[outcome]int
	promoted  int
	operated  struct{ retired, recovered, restored int }
}

// TestMain makes rapid look further than its defaults, unless its flags say
// otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	wanted := map[string]string{"rapid.checks": "200", "rapid.steps": "60"}
	if os.Getenv(boundVariable) == "large" {
		wanted["rapid.checks"] = "20000"
	}
	flag.Visit(func(f *flag.Flag) { delete(wanted, f.Name) })
	for name, value := range wanted {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestStateMachine runs random lives of a registry against the model.
func TestStateMachine(t *testing.T) {
	tally := map[outcome]int{}
	lives, promoted, retired, recovered, restored := 0, 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(t, rt)
		rt.Repeat(map[string]func(*rapid.T){
			"":          m.check,
			"rotate":    m.rotate,
			"observe":   m.observe,
			"observe2":  m.observe, // probes are what happens most
			"observe3":  m.observe,
			"discover":  m.discover,
			"promote":   m.promote,
			"promote2":  m.promote,
			"restart":   m.restart,
			"configure": m.configure,
			"clock":     m.clock,
			"minimum":   m.minimum,
			"retire":    m.retire,
			"restore":   m.restore,
			"restore2":  m.restore,
			"observe4":  m.observe,
			"promote3":  m.promote,
		})
		for o, n := range m.tally {
			tally[o] += n
		}
		lives++
		promoted += m.promoted
		retired += m.operated.retired
		recovered += m.operated.recovered
		restored += m.operated.restored
	})
	t.Logf("%d lives: %d events saved, of them %d promotions, %d retirements (%d after OpenBao's minimum), %d restorations; %d with nothing to save, %d promotions held, %d refused, %d declined",
		lives, tally[saved], promoted, retired, recovered, restored, tally[nothing], tally[held], tally[refused], tally[declined])
	if promoted == 0 || retired == 0 || recovered == 0 || restored == 0 {
		t.Error("something never happened in any life")
	}
	for _, o := range []outcome{nothing, saved, held, refused, declined} {
		if tally[o] == 0 {
			t.Errorf("no event in any life ended with: %s", o)
		}
	}
}

func newMachine(t *testing.T, rt *rapid.T) *machine {
	m := &machine{t: t, now: start, real: metadata(1), everKnown: map[string]bool{}, tally: map[outcome]int{}}
	m.configure(rt)
	r, err := registry.Bootstrap(scope, fingerprint, m.real, m.now)
	if err != nil {
		rt.Fatal(err)
	}
	m.r = r
	m.model = &model{generation: 1, known: map[int]registry.Snapshot{1: snapshot(1, registry.Active)}}
	return m
}

// rotate adds versions in OpenBao, sometimes two within one second.
func (m *machine) rotate(rt *rapid.T) {
	if m.real.Latest >= 12 {
		rt.Skip("enough versions")
	}
	for range rapid.IntRange(1, 3).Draw(rt, "rotations") {
		last := m.real.CreatedAtUnix[m.real.Latest]
		m.real.Latest++
		m.real.CreatedAtUnix[m.real.Latest] = last + rapid.Int64Range(0, 2).Draw(rt, "seconds")
	}
}

// view is what a read of the metadata gives: mostly the truth, else something
// that a lagging, restored, replaced or misconfigured OpenBao would say.
func (m *machine) view(rt *rapid.T) registry.Metadata {
	md := with(m.real, func(*registry.Metadata) {})
	maps.DeleteFunc(md.CreatedAtUnix, func(v int, _ int64) bool { return v < md.MinDecryption })
	version := rapid.IntRange(1, md.Latest+1).Draw(rt, "version")
	switch rapid.SampledFrom([]string{"true", "true", "true", "true", "true", "true", "lagging", "unlisted", "remade", "decryption", "available", "encryption", "extra", "empty", "contradictory"}).Draw(rt, "view") {
	case "lagging":
		md.Latest = min(version, md.Latest)
		maps.DeleteFunc(md.CreatedAtUnix, func(v int, _ int64) bool { return v > md.Latest })
	case "unlisted":
		delete(md.CreatedAtUnix, version)
	case "remade":
		if _, ok := md.CreatedAtUnix[version]; ok {
			md.CreatedAtUnix[version] += rapid.SampledFrom([]int64{-1, 1, 3600, -md.CreatedAtUnix[version]}).Draw(rt, "shift")
		}
	case "decryption":
		md.MinDecryption = version
		maps.DeleteFunc(md.CreatedAtUnix, func(v int, _ int64) bool { return v < version })
	case "available":
		md.MinAvailable = version
	case "encryption":
		md.MinEncryption = version
	case "extra":
		md.CreatedAtUnix[md.Latest+1] = m.now
	case "empty":
		md = registry.Metadata{}
	case "contradictory":
		md.Latest = min(version, md.Latest)
	}
	return md
}

func (m *machine) observe(rt *rapid.T) {
	md := m.view(rt)
	want := m.model.see(md, m.rules, m.now, true)
	next, change, err := m.r.Observe(md, m.rules, m.now)
	m.take(rt, want, next, change, err)
}

func (m *machine) discover(rt *rapid.T) {
	md := m.view(rt)
	want := m.model.see(md, m.rules, m.now, false)
	next, change, err := m.r.Discover(md, m.rules, m.now)
	m.take(rt, want, next, change, err)
}

func (m *machine) promote(rt *rapid.T) {
	if m.r.Pending() == nil && rapid.IntRange(0, 3).Draw(rt, "even so") > 0 {
		rt.Skip("nothing is pending")
	}
	md, passed := m.view(rt), rapid.SampledFrom([]bool{true, true, false}).Draw(rt, "delay passed")
	want := m.model.promote(md, m.rules, passed, m.now)
	next, change, err := m.r.Promote(md, m.rules, passed, m.now)
	m.take(rt, want, next, change, err)
}

// take compares one outcome and keeps the new registry.
func (m *machine) take(rt *rapid.T, want outcome, next *registry.Registry, change registry.Change, err error) {
	rt.Helper()
	m.settle(rt, want, next, change.Any(), err)
	if change.Promoted != 0 {
		m.promoted++
	}
}

// settle is take for any transition; changed says that there is something to
// save.
func (m *machine) settle(rt *rapid.T, want outcome, next *registry.Registry, changed bool, err error) {
	rt.Helper()
	var hold registry.Hold
	var rejection *registry.Rejection
	var refusal *registry.Refusal
	got := saved
	switch {
	case errors.As(err, &refusal):
		got = declined
	case errors.As(err, &rejection):
		got = refused
	case errors.As(err, &hold):
		got = held
	case err != nil:
		rt.Fatalf("an error that is neither a hold nor a rejection: %v", err)
	case !changed:
		got = nothing
	}
	if got != want {
		rt.Fatalf("outcome is %s (%v), the model says %s\n%s", got, err, want, m.model)
	}
	if (next != nil) != (err == nil) || got == nothing && next != m.r {
		rt.Fatalf("%s returned %p in place of %p with error %v", got, next, m.r, err)
	}
	m.tally[got]++
	if got == saved {
		m.model.generation, m.model.previous = m.model.generation+1, m.r.Hash()
		m.r = next
	}
}

// restart reads the registry back from its document.
func (m *machine) restart(rt *rapid.T) {
	r, err := registry.Decode(m.r.Encode())
	if err != nil {
		rt.Fatalf("restart: %v", err)
	}
	if r.Hash() != m.r.Hash() {
		rt.Fatalf("read back with hash %s, saved with %s", r.Hash(), m.r.Hash())
	}
	m.r = r
}

// configure changes the rules, as an operator may between two runs.
func (m *machine) configure(rt *rapid.T) {
	m.rules = registry.Rules{
		StableObservations: rapid.IntRange(1, 4).Draw(rt, "n"),
		RejectRollback:     rapid.Bool().Draw(rt, "reject rollback"),
	}
}

func (m *machine) clock(rt *rapid.T) {
	m.now = max(1, m.now+rapid.Int64Range(-7200, 7200).Draw(rt, "seconds"))
}

// check holds after every event: the document is the model's to the byte, the
// active version never went back, no identity is forgotten or came back.
func (m *machine) check(rt *rapid.T) {
	if list := m.model.list(); m.model.generation != m.sealed || !slices.Equal(list, m.list) {
		m.sealed, m.list, m.document = m.model.generation, list, seal(m.t, m.model.document())
	}
	if !bytes.Equal(m.r.Encode(), m.document) {
		rt.Fatalf("the document is\n%s\nthe model's is\n%s", m.r.Encode(), m.document)
	}
	if m.r.Active().TransitVersion < m.highest {
		rt.Fatalf("the active version went from %d to %d", m.highest, m.r.Active().TransitVersion)
	}
	m.highest = m.r.Active().TransitVersion
	for keyID, removed := range m.everKnown {
		e, ok := m.r.Lookup(keyID)
		if !ok || e.Decrypts() == removed || e.Binding.KeyID() != keyID {
			rt.Fatalf("an accepted identity (removed by an operator: %v) is found %v", removed, ok)
		}
	}
	for _, e := range m.r.Entries() {
		if _, seen := m.everKnown[e.KeyID]; !seen {
			m.everKnown[e.KeyID] = false
		}
	}
	if p := m.r.Pending(); (p != nil) != (m.model.one(registry.Pending) != 0) || p != nil && p.TransitVersion != m.model.one(registry.Pending) {
		rt.Fatalf("pending is %+v", p)
	}
	if m.r.IsStable(m.rules) != (m.r.Pending() != nil && m.model.stable(m.rules.StableObservations)) {
		rt.Fatalf("stable is %v", m.r.IsStable(m.rules))
	}
}
