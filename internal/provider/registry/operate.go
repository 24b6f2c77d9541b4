package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Guard is a stable code for why an operator's transition is refused although
// the metadata says nothing against it (design: registry, retirement and
// restoration).
type Guard string

// The guards.
const (
	// GuardBeforeVersion: the bound is not one that a retirement can have.
	GuardBeforeVersion Guard = "before_version_invalid"
	// GuardPending: a rotation is pending.
	GuardPending Guard = "rotation_pending"
	// GuardNotLatest: the active version is not OpenBao's latest.
	GuardNotLatest Guard = "active_not_latest"
	// GuardNotRemoved: a version that is to come back is not a removed one.
	GuardNotRemoved Guard = "version_not_removed"
)

// Refusal says why an operator's transition is refused. Nothing was changed.
type Refusal struct {
	Guard Guard
	// Versions are the Transit versions concerned, ascending.
	Versions []int
	// Detail is what stands against it, NextStep what to do.
	Detail, NextStep string
}

func (r *Refusal) Error() string { return string(r.Guard) + ": " + r.Text() }

// Text is the error without its code.
func (r *Refusal) Text() string { return r.Message() + "; " + r.NextStep }

// Message is what stands against which versions.
func (r *Refusal) Message() string { return versionList(r.Versions) + ": " + r.Detail }

// Retire is an operator's retirement: every retired snapshot below the version
// before becomes a removed record, which decrypts nothing and is no longer held
// against OpenBao. It returns the next registry and the removed versions,
// ascending; with nothing to remove it returns r itself and none. It returns a
// *Refusal when a guard holds and a *Rejection when md does not validate.
//
// md must be fresh. Everything retained must validate, no rotation may be
// pending, and the active version must be OpenBao's latest. The exception is the
// recovery case: OpenBao's minimum already forbids every version that would be
// removed. Then a probe can succeed only after the retirement, so only what
// stays must validate, and active and pending stay as they are (design:
// registry, retirement and restoration). Where it forbids some of them, only what
// stays must validate, and the other two conditions hold.
//
// No time goes into the result: what an operator reviews as the next hash is
// what any later run makes of the same registry.
func (r *Registry) Retire(md Metadata, rules Rules, before int) (*Registry, []int, error) {
	switch {
	case before < 2:
		return nil, nil, &Refusal{GuardBeforeVersion, nil, fmt.Sprintf("nothing can be below version %d", before),
			"name the lowest version that must stay, at least 2"}
	case r.active.TransitVersion == 1:
		return nil, nil, &Refusal{GuardBeforeVersion, []int{1}, "it is active, and there is no older one", "there is nothing to retire before the first rotation"}
	case before > r.active.TransitVersion:
		return nil, nil, &Refusal{GuardBeforeVersion, []int{r.active.TransitVersion}, fmt.Sprintf("it is active, and so cannot be retired with everything below %d", before),
			"name " + bounds(r.active.TransitVersion)}
	}
	var removed, allowed []int
	for _, e := range r.entries {
		if e.State == Retired && e.TransitVersion < before {
			removed = append(removed, e.TransitVersion)
			if !md.Forbids(e.TransitVersion) {
				allowed = append(allowed, e.TransitVersion)
			}
		}
	}
	// What OpenBao forbids is told apart from what it does not: a minimum that is
	// past one version is no reason to give up another.
	forbidden := len(removed) - len(allowed)
	if forbidden == 0 || len(allowed) > 0 {
		err := r.retirable(md, rules, forbidden > 0)
		if refusal, ok := errors.AsType[*Refusal](err); ok && forbidden > 0 {
			// A node that OpenBao's minimum has made unhealthy promotes nothing.
			refusal.NextStep = fmt.Sprintf("retire before version %d first: OpenBao forbids what is below it already", allowed[0])
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if len(removed) == 0 {
		return r, nil, nil
	}
	next, err := r.operated(removed, Retired, Removed)
	if err == nil && forbidden > 0 {
		err = next.Validate(md, rules.RejectRollback)
	}
	if err != nil {
		return nil, nil, err
	}
	return next, removed, nil
}

// bounds are those that a retirement can have, with what is active.
func bounds(active int) string {
	if active == 2 {
		return "version 2"
	}
	return fmt.Sprintf("a version from 2 to %d", active)
}

// retirable checks the guards of a retirement that is no recovery. Where OpenBao
// forbids a part of what would be removed, what is retained now cannot validate;
// what stays is validated later.
func (r *Registry) retirable(md Metadata, rules Rules, forbidden bool) error {
	if p := r.pending; p != nil {
		return &Refusal{GuardPending, []int{p.TransitVersion}, "it is pending, so data may still be encrypted with the active version",
			"wait until this node has promoted it, rewrite the data, and plan again"}
	}
	if !forbidden {
		if err := r.Validate(md, rules.RejectRollback); err != nil {
			return err
		}
	}
	if md.Latest != r.active.TransitVersion {
		return &Refusal{GuardNotLatest, []int{md.Latest}, fmt.Sprintf("it is OpenBao's latest version, but version %d is active on this node", r.active.TransitVersion),
			"wait until this node has promoted the latest version, rewrite the data, and plan again"}
	}
	return nil
}

// Restore is an operator's restoration: the named removed snapshots become
// retired, and decrypt again. It returns the next registry and the versions,
// ascending and each once. It returns a *Refusal when there is none, or one that
// is not a removed record of r, and a *Rejection when OpenBao could not decrypt
// with what would then be retained: md must be fresh. No time goes into the
// result (design: registry, retirement and restoration).
func (r *Registry) Restore(md Metadata, rules Rules, versions []int) (*Registry, []int, error) {
	restored := slices.Compact(slices.Sorted(slices.Values(versions)))
	if len(restored) == 0 {
		return nil, nil, &Refusal{GuardNotRemoved, nil, "no version is named", "name the removed versions that must decrypt again"}
	}
	var other []int
	for _, v := range restored {
		if e := r.version(v); e == nil || e.State != Removed {
			other = append(other, v)
		}
	}
	if len(other) > 0 {
		return nil, nil, &Refusal{GuardNotRemoved, other, "this registry has no removed record of it", "name only versions that the registry shows as removed"}
	}
	next, err := r.operated(restored, Removed, Retired)
	if err != nil {
		return nil, nil, err
	}
	if err := next.Validate(md, rules.RejectRollback); err != nil {
		return nil, nil, err
	}
	return next, restored, nil
}

// version is the snapshot of a version in whatever state, nil if there is none.
func (r *Registry) version(v int) *Entry {
	i, found := slices.BinarySearchFunc(r.entries, v, func(e *Entry, v int) int { return cmp.Compare(e.TransitVersion, v) })
	if !found {
		return nil
	}
	return r.entries[i]
}

// operated makes the next generation, in which the given versions have gone from
// one state to another, and proves that nothing else is different.
func (r *Registry) operated(versions []int, from, to State) (*Registry, error) {
	snapshots := r.snapshots()
	for _, v := range versions {
		at(snapshots, v).State = to
	}
	return r.next(snapshots, func(next *Registry) error {
		if len(next.entries) != len(r.entries) {
			return errors.New("a snapshot is lost or came up")
		}
		for i, e := range r.entries {
			want := e.Snapshot
			if slices.Contains(versions, want.TransitVersion) && want.State == from {
				want.State = to
			}
			if next.entries[i].Snapshot != want {
				return fmt.Errorf("snapshot of Transit version %d would be changed in more than its state", want.TransitVersion)
			}
		}
		return nil
	})
}
