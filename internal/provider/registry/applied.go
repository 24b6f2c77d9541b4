package registry

import "slices"

// FollowsRetirement reports whether r is what a retirement before that version
// makes of the registry with the hash previous: an apply whose end nobody saw is
// then known to be done.
//
// The registry before is gone, so this is told from r alone: it is the direct
// successor, nothing retired is left below the bound, and everything removed is
// below it. Of a registry that had something to remove no other transition makes
// such a successor. Of one that had nothing to remove any other may: then too
// nothing is left to do. A successor that cannot be told apart, because a version
// from the bound on is removed as well, is not taken for one.
func (r *Registry) FollowsRetirement(previous string, before int) bool {
	if r.previousHash == "" || r.previousHash != previous {
		return false
	}
	removed := false
	for _, e := range r.entries {
		below := e.TransitVersion < before
		switch {
		case e.State == Retired && below, e.State == Removed && !below:
			return false
		case e.State == Removed:
			removed = true
		}
	}
	return removed
}

// FollowsRestoration reports whether r is the direct successor of the registry
// with the hash previous and has all these versions retired. When they could be
// restored from that registry, nothing but a restoration that names them makes
// such a successor; whether it named others too cannot be told from r.
func (r *Registry) FollowsRestoration(previous string, versions []int) bool {
	if r.previousHash == "" || r.previousHash != previous || len(versions) == 0 {
		return false
	}
	return !slices.ContainsFunc(versions, func(v int) bool {
		e := r.version(v)
		return e == nil || e.State != Retired
	})
}
