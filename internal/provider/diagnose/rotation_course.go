package diagnose

import (
	"github.com/baokms/baokms/internal/provider/registry"
)

// course is what a running provider will do with a registry while OpenBao keeps
// saying the same: told by the registry's own transitions, so that it cannot
// differ from what happens.
type course struct {
	// taken is what the next observation changes.
	taken registry.Change
	// observations are those still needed until the candidate is stable.
	observations int
	// candidate is what becomes active, nil when OpenBao's latest version is.
	candidate *registry.Entry
	// end is the registry after the promotion.
	end *registry.Registry
}

// foresee follows the course of a registry. The error is the *registry.Rejection
// or registry.Hold that stands against it. now is in Unix seconds and goes only
// into records that nobody sees.
func foresee(r *registry.Registry, md registry.Metadata, rules registry.Rules, now int64) (course, error) {
	next, change, err := r.Observe(md, rules, now)
	if err != nil {
		return course{}, err
	}
	c := course{taken: change}
	// Each observation counts, up to rules.StableObservations.
	for change.Any() {
		c.observations++
		if next, change, err = next.Observe(md, rules, now); err != nil {
			return course{}, err
		}
	}
	if next.Pending() == nil {
		c.end = next
		return c, nil
	}
	if c.end, _, err = next.Promote(md, rules, true, now); err != nil {
		return course{}, err
	}
	c.candidate = c.end.Active()
	return c, nil
}

// retired are the versions that only decrypt, ascending.
func retired(r *registry.Registry) []int {
	var found []int
	for _, s := range r.Entries() {
		if s.State == registry.Retired {
			found = append(found, s.TransitVersion)
		}
	}
	return found
}
