package registry_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// node is one provider of a fleet: its registry, which is what it published and
// what is on its disk, and the facts that live only in its process.
type node struct {
	r *registry.Registry
	// candidate is the version that the activation deadline runs for, 0 if it
	// does not run; passed says that it has passed.
	candidate int
	passed    bool
	// healthy is what the last probe or discovery left. Encrypt needs it.
	healthy bool
	// status is the version whose key_id the most recent healthy Status gave.
	status int
}

// view is the metadata that one read gives: the latest version,
// min_encryption_version and min_decryption_version of some moment.
type view struct{ latest, minimum, lowest int }

func (v view) metadata() registry.Metadata {
	md := metadata(v.latest)
	md.MinEncryption = v.minimum
	md.MinDecryption = v.lowest
	for old := 1; old < v.lowest; old++ {
		delete(md.CreatedAtUnix, old)
	}
	return md
}

// action is what happens to one node. Those with a view read metadata.
type action int

const (
	probe        action = iota // a metadata probe that answered
	failProbe                  // one that did not
	discover                   // the metadata read of a Decrypt with an unknown key_id
	failDiscover               // … that did not answer
	elapse                     // the activation delay passes
	restart                    // the process ends and reads its files
	retire                     // it is stopped, all below the latest is retired, and it starts
)

// nodeID numbers the distinct nodes that a search has met.
type nodeID int32

// nodes gives every distinct node a number and remembers what each action does
// to it, so that a search over fleets runs the real transitions once for each
// node and not once for each fleet. Two nodes are the same when all that a
// transition looks at is the same: everything but the generation and the hashes,
// which the chain check covers at each transition.
type nodes struct {
	t     *testing.T
	rules registry.Rules
	byKey map[string]nodeID
	all   []node
	memo  map[memoKey]nodeID

	transitions int // of real registries, distinct
	seen        map[string]int
}

type memoKey struct {
	id nodeID
	do action
	at view
}

func newNodes(t *testing.T, n int) *nodes {
	return &nodes{
		t: t, rules: registry.Rules{StableObservations: n, RejectRollback: true},
		byKey: map[string]nodeID{}, memo: map[memoKey]nodeID{}, seen: map[string]int{},
	}
}

// first is a node of a fleet that was just set up.
func (ns *nodes) first() nodeID {
	r, err := registry.Bootstrap(scope, fingerprint, metadata(1), start)
	if err != nil {
		ns.t.Fatal(err)
	}
	return ns.id(node{r: r, healthy: true, status: 1})
}

func (ns *nodes) id(n node) nodeID {
	key := fmt.Sprint(contents(n.r), n.candidate, n.passed, n.healthy, n.status)
	id, ok := ns.byKey[key]
	if !ok {
		id = nodeID(len(ns.all))
		ns.byKey[key] = id
		ns.all = append(ns.all, n)
	}
	return id
}

// do is the node after an action, from memory when it was asked before.
func (ns *nodes) do(id nodeID, do action, at view) nodeID {
	key := memoKey{id, do, at}
	after, ok := ns.memo[key]
	if !ok {
		before := ns.all[id]
		n := ns.act(before, do, at)
		ns.hold(before, n, do)
		after = ns.id(n)
		ns.memo[key] = after
		ns.transitions++
	}
	return after
}

// act is the page's watcher, without its files: every save succeeds at once or
// the process dies before it, which is the same as a restart.
func (ns *nodes) act(n node, do action, at view) node {
	switch do {
	case probe:
		return ns.probe(n, at)
	case discover:
		next, change, err := n.r.Discover(at.metadata(), ns.rules, start)
		if err != nil {
			ns.rejected(err)
			n.healthy = false
			return n
		}
		if len(change.Accepted) > 0 {
			ns.seen["discovered"]++
		}
		n.r = next
	case failProbe, failDiscover:
		n.healthy = false
	case elapse:
		n.passed = n.candidate != 0
	case restart:
		r, err := registry.Decode(n.r.Encode())
		if err != nil {
			ns.t.Fatalf("restart: %v", err)
		}
		return node{r: r, status: n.status}
	case retire:
		next, versions, err := n.r.Retire(at.metadata(), ns.rules, at.latest)
		if err != nil {
			ns.t.Fatalf("a node that has promoted version %d refuses to retire what is below: %v", at.latest, err)
		}
		if len(versions) > 0 {
			ns.seen["retired"]++
		}
		return node{r: next, status: n.status}
	}
	return n
}

// probe observes, starts or stops the deadline, and promotes when it may.
func (ns *nodes) probe(n node, at view) node {
	next, change, err := n.r.Observe(at.metadata(), ns.rules, start)
	if err != nil {
		ns.rejected(err)
		n.healthy = false
		return n
	}
	if change.Superseded != 0 {
		ns.seen["superseded"]++
	}
	if len(change.Accepted) > 1 {
		ns.seen["skipped"]++
	}
	n.r = next
	switch p := next.Pending(); {
	case p == nil || !next.IsStable(ns.rules):
		n.candidate, n.passed = 0, false
	case p.TransitVersion != n.candidate:
		n.candidate, n.passed = p.TransitVersion, false
	}
	promoted, change, err := n.r.Promote(at.metadata(), ns.rules, n.passed, start)
	var hold registry.Hold
	switch {
	case err == nil:
		if change.Promoted != n.candidate {
			ns.t.Fatalf("version %d was promoted, the deadline of %d had passed", change.Promoted, n.candidate)
		}
		n.r, n.candidate, n.passed = promoted, 0, false
		ns.seen["promoted"]++
	case errors.As(err, &hold):
		ns.seen[string(hold)]++
	default:
		ns.t.Fatalf("observed, but not fit for promotion: %v", err)
	}
	n.healthy = !n.r.EncryptionBlocked(at.metadata())
	if n.healthy {
		n.status = n.r.Active().TransitVersion
	} else {
		ns.seen["encryption blocked"]++
	}
	return n
}

// rejected counts the one reason for which a lagging answer may be refused.
func (ns *nodes) rejected(err error) {
	var rejection *registry.Rejection
	if !errors.As(err, &rejection) || rejection.Problem != registry.VersionRollback {
		ns.t.Fatalf("an honest OpenBao was refused: %v", err)
	}
	ns.seen["lagging answer refused"]++
}

// hold asserts invariants 2 and 6 and the chain over one action.
func (ns *nodes) hold(before, after node, do action) {
	a, b := before.r, after.r
	if b.Active().TransitVersion < a.Active().TransitVersion || after.status < before.status {
		ns.t.Fatalf("invariant 2: active went from %d to %d, the published key_id from that of %d to %d",
			a.Active().TransitVersion, b.Active().TransitVersion, before.status, after.status)
	}
	for _, e := range a.Entries() {
		kept, ok := b.Lookup(e.KeyID)
		if !ok || kept.Decrypts() != e.Decrypts() && (do != retire || kept.Decrypts()) {
			ns.t.Fatalf("invariant 6: version %d is forgotten or came back", e.TransitVersion)
		}
	}
	// A probe may save an observation and a promotion: two generations at most.
	switch b.Generation() - a.Generation() {
	case 0:
		if a.Hash() != b.Hash() {
			ns.t.Fatal("the content changed within a generation")
		}
	case 1:
		if !b.Succeeds(a.Generation(), a.Hash()) {
			ns.t.Fatal("the chain of hashes is broken")
		}
	default:
		ns.t.Fatalf("generation went from %d to %d", a.Generation(), b.Generation())
	}
	if p := b.Pending(); p != nil && p.TransitVersion <= b.Active().TransitVersion {
		ns.t.Fatalf("version %d is pending and %d active", p.TransitVersion, b.Active().TransitVersion)
	}
}

// decrypts reports whether a node whose OpenBao answers with at decrypts a
// ciphertext of a version, with what it knows or after one discovery. It asserts
// invariant 4: if so, with the one snapshot that the key_id names.
func (ns *nodes) decrypts(id nodeID, version int, at view) bool {
	keyID := scope.KeyID(version, created(version))
	e, ok := ns.all[id].r.Lookup(keyID)
	if !ok {
		e, ok = ns.all[ns.do(id, discover, at)].r.Lookup(keyID)
	}
	if !ok || !e.Decrypts() {
		return false
	}
	if e.KeyID != keyID || e.TransitVersion != version || e.Binding.KeyID() != keyID || e.Binding.Version() != version {
		ns.t.Fatalf("invariant 4: key_id of version %d leads to version %d", version, e.TransitVersion)
	}
	return true
}

// encrypts is the version that the node encrypts with, 0 when it may not. It
// asserts invariant 1: the key_id is that of the most recent healthy Status.
func (ns *nodes) encrypts(id nodeID, at view) int {
	n := ns.all[id]
	version := n.r.Active().TransitVersion
	if !n.healthy || version < at.minimum { // the node refuses, or OpenBao does
		return 0
	}
	if version != n.status || version > at.latest {
		ns.t.Fatalf("invariant 1: encrypts with version %d, Status said %d, OpenBao has %d", version, n.status, at.latest)
	}
	return version
}

// converges asserts that a node whose probes succeed from now on reaches the
// latest version: no state is a dead end.
func (ns *nodes) converges(id nodeID, at view) {
	for range 2 * (ns.rules.StableObservations + 1) {
		id = ns.do(ns.do(id, probe, at), elapse, view{})
	}
	if n := ns.all[id]; n.r.Active().TransitVersion != at.latest || !n.healthy || n.r.Pending() != nil {
		ns.t.Fatalf("with only good probes a node ends, healthy %v, with\n%s", n.healthy, tell(contents(n.r)))
	}
}
