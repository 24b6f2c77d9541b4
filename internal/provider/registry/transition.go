package registry

import (
	"fmt"
	"slices"
)

// Rules are the configured rotation rules that transitions follow.
type Rules struct {
	// StableObservations is rotation.requireStableObservationCount, at least 1.
	StableObservations int
	// RejectRollback is rotation.rejectVersionRollback.
	RejectRollback bool
}

// Change says what a transition did, for logs and events. The zero Change
// means that nothing has to be saved.
type Change struct {
	// Accepted are the versions taken in for the first time, ascending.
	Accepted []int
	// Superseded is the version that was pending and is retired because a newer
	// one took its place; 0 if none.
	Superseded int
	// Counted is set when the pending snapshot got one more observation.
	Counted bool
	// Stable is set when that made it stable.
	Stable bool
	// Promoted is the version that became active; 0 if none.
	Promoted int
	// ClockRegressed is set when the wall clock was behind an earlier event, so
	// that a timestamp was raised to keep the events in order.
	ClockRegressed bool
}

// Any reports whether there is something to save.
func (c Change) Any() bool {
	return len(c.Accepted) > 0 || c.Counted || c.Promoted != 0
}

// IsStable reports whether the pending snapshot has as many observations as the
// rules require. It is false when nothing is pending.
func (r *Registry) IsStable(rules Rules) bool {
	p := r.pending
	return p != nil && p.StableObservations >= rules.StableObservations && p.StableAtUnix != 0
}

// Observe takes in one successful metadata probe at the moment now, in Unix
// seconds (design: registry, transitions). It returns r itself and a zero Change
// when there is nothing to save, a successor otherwise, or a *Rejection.
func (r *Registry) Observe(md Metadata, rules Rules, now int64) (*Registry, Change, error) {
	if err := r.Validate(md, rules.RejectRollback); err != nil {
		return nil, Change{}, err
	}
	switch {
	case md.Latest == r.active.TransitVersion:
		return r, Change{}, nil
	case r.pending != nil && md.Latest == r.pending.TransitVersion:
		return r.count(rules, now)
	}
	return r.accept(md, rules, now, true)
}

// Discover takes in a metadata read that a Decrypt with an unknown key_id
// caused. It accepts new versions as Observe does, but counts no observation
// (design: registry, discovery).
func (r *Registry) Discover(md Metadata, rules Rules, now int64) (*Registry, Change, error) {
	if err := r.Validate(md, rules.RejectRollback); err != nil {
		return nil, Change{}, err
	}
	if md.Latest <= r.newest() {
		return r, Change{}, nil
	}
	return r.accept(md, rules, now, false)
}

// newest is the highest version that the registry knows.
func (r *Registry) newest() int { return r.entries[len(r.entries)-1].TransitVersion }

// count adds one observation to the pending snapshot.
func (r *Registry) count(rules Rules, now int64) (*Registry, Change, error) {
	if r.IsStable(rules) {
		return r, Change{}, nil
	}
	snapshots := r.snapshots()
	p := at(snapshots, r.pending.TransitVersion)
	c := Change{Counted: true}
	observe(p, rules, now, &c)
	return r.successor(snapshots, c)
}

// observe records one observation in a pending snapshot.
func observe(p *Snapshot, rules Rules, now int64, c *Change) {
	if p.StableObservations < rules.StableObservations {
		p.StableObservations++
	}
	if p.ObservedAtUnix == 0 {
		p.ObservedAtUnix = now
	}
	if p.StableObservations >= rules.StableObservations {
		p.StableAtUnix = floor(now, c, p.ObservedAtUnix, p.StableAtUnix)
		c.Stable = true
	}
}

// floor is now, or the latest of the earlier events when the clock is behind
// one of them.
func floor(now int64, c *Change, earlier ...int64) int64 {
	last := slices.Max(earlier)
	if now < last {
		c.ClockRegressed = true
		return last
	}
	return now
}

// accept makes md.Latest pending, and every version between it and the newest
// known one a retired snapshot: a peer may have encrypted with any of them.
func (r *Registry) accept(md Metadata, rules Rules, now int64, counted bool) (*Registry, Change, error) {
	if md.Latest <= r.newest() {
		return nil, Change{}, &Rejection{MetadataUnverified, []int{md.Latest},
			"it is OpenBao's latest version, but this registry has it neither as active nor as pending",
			"compare the key's versions in OpenBao with those in this node's state"}
	}
	snapshots := r.snapshots()
	var c Change
	if r.pending != nil {
		at(snapshots, r.pending.TransitVersion).State = Retired
		c.Superseded = r.pending.TransitVersion
	}
	for v := r.newest() + 1; v <= md.Latest; v++ {
		created, ok := md.CreatedAtUnix[v]
		if !ok {
			return nil, Change{}, &Rejection{MetadataUnverified, []int{v},
				"OpenBao gives no creation time for a version that is new here", distrusted}
		}
		b, err := r.scope.Bind(v, created)
		if err != nil {
			return nil, Change{}, &Rejection{MetadataUnverified, []int{v}, "OpenBao's creation time is not usable", distrusted}
		}
		snapshots = append(snapshots, Snapshot{
			TransitVersion:       v,
			VersionCreatedAtUnix: created,
			KeyID:                b.KeyID(),
			State:                Retired,
			AADMode:              AADRequired,
			CreatedAtUnix:        now,
		})
		c.Accepted = append(c.Accepted, v)
	}
	p := &snapshots[len(snapshots)-1]
	p.State = Pending
	if counted {
		c.Counted = true
		observe(p, rules, now, &c)
	}
	return r.successor(snapshots, c)
}

// Hold says why a pending snapshot is not promoted.
type Hold string

// The guards of a promotion (design: registry, promotion guards).
const (
	HoldNothingPending Hold = "nothing is pending"
	HoldNotStable      Hold = "not enough stable observations are durable"
	HoldDelay          Hold = "the activation delay has not passed"
	HoldNotLatest      Hold = "the pending version is not OpenBao's latest"
	HoldEncryption     Hold = "min_encryption_version forbids the pending version"
)

func (h Hold) Error() string { return "not promoted: " + string(h) }

// Promote makes the pending snapshot active and the active one retired. r must
// be the durable registry, md must be fresh and come from the metadata probe,
// and delayPassed says whether this process's activation deadline for exactly
// this candidate has passed. It returns a Hold while a guard is not met and a
// *Rejection when md does not validate.
func (r *Registry) Promote(md Metadata, rules Rules, delayPassed bool, now int64) (*Registry, Change, error) {
	if err := r.Validate(md, rules.RejectRollback); err != nil {
		return nil, Change{}, err
	}
	p := r.pending
	switch {
	case p == nil:
		return nil, Change{}, HoldNothingPending
	case !r.IsStable(rules):
		return nil, Change{}, HoldNotStable
	case !delayPassed:
		return nil, Change{}, HoldDelay
	case md.Latest != p.TransitVersion:
		return nil, Change{}, HoldNotLatest
	case md.MinEncryption > p.TransitVersion:
		return nil, Change{}, HoldEncryption
	}
	snapshots := r.snapshots()
	c := Change{Promoted: p.TransitVersion}
	at(snapshots, r.active.TransitVersion).State = Retired
	promoted := at(snapshots, p.TransitVersion)
	promoted.State = Active
	promoted.PromotedAtUnix = floor(now, &c, p.ObservedAtUnix, p.StableAtUnix, r.active.PromotedAtUnix)
	return r.successor(snapshots, c)
}

// at finds a version that is known to be there.
func at(snapshots []Snapshot, version int) *Snapshot {
	i := slices.IndexFunc(snapshots, func(s Snapshot) bool { return s.TransitVersion == version })
	return &snapshots[i]
}

// successor makes the next generation and proves that it keeps what a normal
// transition must keep.
func (r *Registry) successor(snapshots []Snapshot, c Change) (*Registry, Change, error) {
	next, err := r.next(snapshots, r.kept)
	if err != nil {
		return nil, Change{}, err
	}
	return next, c, nil
}

// next makes the next generation and has a rule of its transition checked.
func (r *Registry) next(snapshots []Snapshot, rule func(*Registry) error) (*Registry, error) {
	next, err := build(content{
		scope:        r.scope,
		fingerprint:  r.fingerprint,
		generation:   r.generation + 1,
		previousHash: r.hash,
		snapshots:    snapshots,
	})
	if err == nil {
		err = rule(next)
	}
	if err != nil {
		return nil, fmt.Errorf("registry: a transition would break an invariant: %w", err)
	}
	return next, nil
}

// kept checks what no normal transition may do: forget an identity, revive or
// remove one, or move the active version backwards (design: overview,
// invariants 2 and 6).
func (r *Registry) kept(next *Registry) error {
	for _, e := range r.entries {
		n, ok := next.byKeyID[e.KeyID]
		switch {
		case !ok:
			return fmt.Errorf("the identity of Transit version %d is lost", e.TransitVersion)
		case n.State.Retained() != e.State.Retained():
			return fmt.Errorf("snapshot of Transit version %d is %s and would be %s", e.TransitVersion, e.State, n.State)
		}
	}
	if next.active.TransitVersion < r.active.TransitVersion {
		return fmt.Errorf("the active version would go back from %d to %d", r.active.TransitVersion, next.active.TransitVersion)
	}
	return nil
}

// ObservationOnly reports whether next differs from r in nothing but the
// pending snapshot's observation count and the moment that it became stable:
// the one kind of save whose failure may leave the provider healthy (design:
// registry, when a save fails).
func (r *Registry) ObservationOnly(next *Registry) bool {
	if !next.Succeeds(r.generation, r.hash) || next.fingerprint != r.fingerprint || r.pending == nil || next.pending == nil {
		return false
	}
	a, b := r.snapshots(), next.snapshots()
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].State == Pending && b[i].State == Pending {
			a[i].StableObservations, a[i].StableAtUnix = b[i].StableObservations, b[i].StableAtUnix
		}
	}
	return slices.Equal(a, b)
}
