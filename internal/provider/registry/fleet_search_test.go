package registry_test

import (
	"fmt"
	"math/bits"
	"os"
	"slices"
	"testing"
)

// fleet is everything that matters in one moment: what OpenBao has, which
// versions were ever encrypted with, and the nodes. Nodes are interchangeable,
// so they are kept in order and a fleet has one spelling.
type fleet struct {
	at      view
	written uint16 // a bit for each version
	nodes   [3]nodeID
}

// bound is how far a search goes.
type bound struct {
	nodes, versions, observations int
	// retiring searches the operators' part, in the handbook's order, in place of
	// min_encryption_version.
	retiring bool
}

// TestFleet visits every state that a fleet of nodes with one Transit key can
// reach, in whatever order things happen, up to a number of versions: OpenBao
// rotates or has its min_encryption_version raised; any node probes and gets an
// answer of now, of any earlier moment, or none; its delay passes; it restarts;
// it encrypts; it meets a peer's ciphertext and discovers, with such an answer.
// In each state every ciphertext that was ever written must decrypt on every
// node that can read OpenBao's metadata now, and every node must be able to
// reach the latest version (design: registry, how it is proven).
//
// In a search of retirement, operators rewrite the data once every node has
// promoted the latest version, so that nothing older is needed; retire what is
// older on one node after the other; and raise OpenBao's
// min_decryption_version when the last one has. All else goes on meanwhile: the
// key is rotated again, nodes probe, restart, discover.
//
// The interval between two discoveries is not part of this: it delays a
// Decrypt, and watch owns it.
func TestFleet(t *testing.T) {
	bounds := []bound{{2, 3, 3, false}, {3, 2, 3, false}, {3, 3, 1, false}, {2, 3, 2, true}, {3, 3, 1, true}}
	if os.Getenv(boundVariable) == "large" {
		bounds = append(bounds, bound{2, 4, 2, false}, bound{2, 5, 1, false}, bound{3, 3, 2, false}, bound{2, 4, 1, true})
	}
	for _, b := range bounds {
		t.Run(fmt.Sprintf("nodes=%d/versions=%d/observations=%d/retiring=%v", b.nodes, b.versions, b.observations, b.retiring), func(t *testing.T) {
			s := &search{nodes: newNodes(t, b.observations), bound: b, visited: map[fleet]struct{}{}, places: map[placeKey]*place{}}
			s.run(t)
		})
	}
}

type search struct {
	*nodes
	bound       bound
	visited     map[fleet]struct{}
	waiting     []fleet
	places      map[placeKey]*place
	moves       int // taken between fleets
	ciphertexts int // decryptions checked
}

// place is one node under one OpenBao.
type place struct {
	after  []nodeID // what one action can make of it, without itself
	reads  uint16   // the versions whose ciphertexts it decrypts
	writes uint16   // the version that it encrypts with, if it may
}

type placeKey struct {
	id nodeID
	at view
}

func (s *search) run(t *testing.T) {
	initial := fleet{at: view{latest: 1}}
	first := s.first()
	for i := range s.bound.nodes {
		initial.nodes[i] = first
	}
	s.reach(initial)
	for len(s.waiting) > 0 {
		last := len(s.waiting) - 1
		f := s.waiting[last]
		s.waiting = s.waiting[:last]
		s.leave(f)
	}
	t.Logf("%d states of the fleet, %d transitions between them; %d distinct nodes, %d transitions of real registries; %d decryptions checked; %v",
		len(s.visited), s.moves, len(s.all), s.nodes.transitions, s.ciphertexts, s.seen)
	wanted := []string{"promoted", "discovered", "lagging answer refused", "the activation delay has not passed", "nothing is pending"}
	if s.bound.retiring {
		wanted = append(wanted, "retired", "rewritten", "minimum raised")
	} else {
		wanted = append(wanted, "encryption blocked")
	}
	if s.bound.versions > 2 {
		wanted = append(wanted, "superseded", "skipped")
	}
	for _, what := range wanted {
		if s.seen[what] == 0 {
			t.Errorf("no run met: %s", what)
		}
	}
	if s.ciphertexts == 0 {
		t.Error("nothing was decrypted")
	}
}

// reach takes a fleet into the search unless it was there.
func (s *search) reach(f fleet) {
	s.moves++
	slices.Sort(f.nodes[:s.bound.nodes])
	if _, ok := s.visited[f]; ok {
		return
	}
	s.visited[f] = struct{}{}
	s.waiting = append(s.waiting, f)
}

// leave checks one state and takes every step that is possible from it.
func (s *search) leave(f fleet) {
	if f.at.latest < s.bound.versions {
		next := f
		next.at.latest++
		s.reach(next)
	}
	if s.bound.retiring {
		s.operate(f)
	} else if f.at.minimum < f.at.latest {
		next := f
		next.at.minimum = f.at.latest
		s.reach(next)
	}
	for i := range s.bound.nodes {
		n := s.look(f.nodes[i], f.at)
		if lost := f.written &^ n.reads; lost != 0 {
			s.t.Fatalf("OpenBao has version %d, and ciphertexts of the versions in %b do not decrypt on a node with\n%s",
				f.at.latest, lost, tell(contents(s.all[f.nodes[i]].r)))
		}
		s.ciphertexts += bits.OnesCount16(f.written)
		if i > 0 && f.nodes[i] == f.nodes[i-1] {
			continue // the same steps again
		}
		for _, id := range n.after {
			next := f
			next.nodes[i] = id
			s.reach(next)
		}
		if next := f; n.writes&^f.written != 0 {
			next.written |= n.writes
			s.reach(next)
		}
	}
}

// operate takes the operators' steps. None is possible before every node has
// promoted the latest version.
func (s *search) operate(f fleet) {
	latest := uint16(1) << f.at.latest
	removed := true
	for _, id := range f.nodes[:s.bound.nodes] {
		r := s.all[id].r
		if r.Active().TransitVersion != f.at.latest {
			return
		}
		for _, e := range r.Entries() {
			removed = removed && (e.TransitVersion == f.at.latest || !e.Decrypts())
		}
	}
	if f.written&^latest != 0 {
		next := f
		next.written = latest
		s.seen["rewritten"]++
		s.reach(next)
		return // old data is still needed
	}
	for i, id := range f.nodes[:s.bound.nodes] {
		if f.at.latest < 2 {
			break
		}
		next := f
		next.nodes[i] = s.do(id, retire, f.at)
		s.reach(next)
	}
	if removed && f.at.lowest < f.at.latest {
		next := f
		next.at.lowest = f.at.latest
		s.seen["minimum raised"]++
		s.reach(next)
	}
}

// look finds out all about one node under one OpenBao, once.
func (s *search) look(id nodeID, at view) *place {
	n, ok := s.places[placeKey{id, at}]
	if ok {
		return n
	}
	n = &place{}
	s.places[placeKey{id, at}] = n
	s.converges(id, at)
	if v := s.encrypts(id, at); v != 0 {
		n.writes = 1 << v
	}
	for v := 1; v <= at.latest; v++ {
		if s.decrypts(id, v, at) {
			n.reads |= 1 << v
		}
	}
	for _, do := range []action{failProbe, failDiscover, elapse, restart} {
		n.after = append(n.after, s.do(id, do, view{}))
	}
	for latest := 1; latest <= at.latest; latest++ {
		for minimum := 0; minimum <= min(latest, at.minimum); minimum++ {
			for lowest := 0; lowest <= min(latest, at.lowest); lowest++ {
				answer := view{latest, minimum, lowest}
				n.after = append(n.after, s.do(id, probe, answer), s.do(id, discover, answer))
			}
		}
	}
	slices.Sort(n.after)
	n.after = slices.DeleteFunc(slices.Compact(n.after), func(to nodeID) bool { return to == id })
	return n
}
