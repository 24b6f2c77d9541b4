package assess

import (
	"fmt"
	"math"
	"slices"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// part is one node's part in the retirement.
type part struct {
	// values are what it plans, or has applied; nil when it says neither.
	values  *values
	applied bool
	// problem is why its provider gives no plan now.
	problem string
	// joined: it joined the plan after the approval that counted, so it was never
	// approved.
	joined bool
}

// retirement is where the retirement stands.
type retirement struct {
	spec   *v1alpha1.Retirement
	parts  map[string]part
	digest string // empty while a node has no values
	// approved: the digest is approved, with evidence.
	approved bool
	// counted is the last approval that counted, while there is an approvedDigest;
	// changed are the nodes that are not, or no longer, as it was for.
	counted string
	changed []string
	// given: the commands of this approval were shown before.
	given bool
	// evidence is what that approval rests on.
	evidence *v1alpha1.Evidence
}

// lapsed reports whether an approval counted and no longer does.
func (r *retirement) lapsed() bool {
	return r.counted != "" && r.digest != r.spec.ApprovedDigest
}

// retire works out the retirement that the plan asks for.
func (f *facts) retire() *retirement {
	spec := f.plan.Spec.Retirement
	if spec == nil {
		return nil
	}
	r := &retirement{spec: spec, parts: map[string]part{}}
	memory := f.prev.Retirement
	if memory == nil || memory.BeforeVersion != spec.BeforeVersion {
		memory = &v1alpha1.RetirementStatus{}
	}
	if spec.ApprovedDigest != "" {
		r.counted, r.changed, r.evidence = memory.ApprovedDigest, memory.ChangedNodes, memory.Evidence
		// The approval is for what was shown, even when a node has moved since.
		if spec.ApprovedDigest == memory.Digest && spec.Evidence != nil {
			r.count(spec.ApprovedDigest)
		}
	}
	known := map[string]*values{}
	for _, n := range f.nodes {
		p := n.part(n.remembered(memory.BeforeVersion), spec.BeforeVersion, r.counted != "")
		if p.values != nil {
			known[n.name] = p.values
		}
		r.parts[n.name] = p
	}
	if len(known) > 0 && len(known) == len(f.nodes) {
		r.digest = digest(f.plan.Spec.ProviderName, spec.BeforeVersion, known)
	}
	r.approved = r.digest != "" && r.digest == spec.ApprovedDigest && spec.Evidence != nil
	if r.approved {
		r.count(r.digest)
		r.given = commandsGiven(f.prev, r.digest)
		for name, p := range r.parts {
			// A node with nothing to remove has done all that was approved.
			p.applied = p.applied || len(p.values.removed) == 0
			r.parts[name] = p
		}
	} else if r.counted != "" {
		r.changed = f.changes(r, memory.BeforeVersion)
	}
	return r
}

// count takes an approval in. The evidence shown is that of the moment when it
// began to count.
func (r *retirement) count(digest string) {
	if r.counted != digest || r.evidence == nil {
		r.evidence = r.spec.Evidence
	}
	r.counted, r.changed = digest, nil
}

// remembered is what the status holds of the node's part, provided that it is
// about a retirement below the same version.
func (n *node) remembered(before int32) *values {
	if before == 0 || n.prev == nil || n.prev.Retirement == nil || n.prev.Retirement.StateHash == "" {
		return nil
	}
	p := n.prev.Retirement
	return &values{p.ActiveKeyIDHash, slices.Clone(p.RemovedVersions), p.StateHash, p.NextStateHash, p.NextGeneration}
}

// part is the node's part, by what it tells now and what is remembered of it;
// counted says whether an approval has counted.
func (n *node) part(known *values, before int32, counted bool) part {
	if n.report == nil || n.report.Registry == nil {
		applied := known != nil && n.prev.Retirement.State == v1alpha1.RetirementApplied
		return part{values: known, applied: applied}
	}
	state := n.report.Registry.StateHash
	planned, problem := n.planned(before)
	switch {
	case planned != nil && planned.stateHash != state:
		planned = nil // read before the registry moved: the next report has both
	case planned == nil && known != nil && known.stateHash == state:
		planned = known // the plan of a registry is the same at any time
	}
	moved := known != nil && known.stateHash != state
	switch {
	case known != nil && len(known.removed) > 0 && (moved && known.nextStateHash == state || n.descends(known, before)),
		known != nil && len(known.removed) == 0 && counted && (known.nextStateHash == state && n.appliedBefore() || n.descends(known, before)):
		return part{values: known, applied: true}
	}
	return part{values: planned, problem: problem}
}

func (n *node) appliedBefore() bool {
	return n.prev.Retirement.State == v1alpha1.RetirementApplied
}

// descends reports whether the node's registry is a later one than the planned
// outcome, in which the planned versions, and whatever else is below before, are
// still removed.
func (n *node) descends(v *values, before int32) bool {
	if n.told.Generation <= v.nextGeneration {
		return false
	}
	left := slices.Clone(v.removed)
	for _, s := range n.report.Snapshots {
		if s.TransitVersion >= int(before) {
			continue
		}
		switch s.State {
		case report.SnapshotRemoved:
			left = slices.DeleteFunc(left, func(v int32) bool { return int(v) == s.TransitVersion })
		case report.SnapshotRejected:
		default:
			return false
		}
	}
	return len(left) == 0
}

// planned is what the node's provider answered, or its problem. Neither, while
// its reporter has not asked.
func (n *node) planned(before int32) (*values, string) {
	switch a := n.answer; {
	case a == nil:
		return nil, ""
	case a.Problem != nil:
		return nil, quoted(fmt.Sprintf("%s: %s; %s", a.Problem.Reason, a.Problem.Message, a.Problem.NextStep))
	case a.Plan == nil || !wellFormed(a.Plan, before):
		return nil, "the plan in the KMSNodeReport contradicts itself; look at who writes it, and at the release of the provider and the node reporter"
	}
	p := n.answer.Plan
	v := &values{p.ActiveKeyIDHash, nil, p.StateHash, p.NextStateHash, int64(min(p.NextGeneration, math.MaxInt64))}
	for _, version := range p.RemovedVersions {
		v.removed = append(v.removed, narrow(version))
	}
	return v, ""
}

// wellFormed holds a plan's fields against each other, as the report's decoder
// does: the API keeps what anybody wrote who may.
func wellFormed(p *report.RetirementPlan, before int32) bool {
	last := 0
	for _, v := range p.RemovedVersions {
		if v <= last || v >= int(before) {
			return false
		}
		last = v
	}
	return p.BeforeVersion == int(before) && p.ActiveKeyIDHash != "" && isStateHash(p.StateHash) && isStateHash(p.NextStateHash) &&
		(len(p.RemovedVersions) == 0) == (p.StateHash == p.NextStateHash)
}

// changes are the nodes that are not as the approval which counted was for: those
// known before, and those that changed, joined or left since the last status. One
// that joined and left again is none.
func (f *facts) changes(r *retirement, remembered int32) []string {
	changed := slices.Clone(r.changed)
	present := map[string]bool{}
	for _, n := range f.nodes {
		present[n.name] = true
		p := r.parts[n.name]
		p.joined = n.joined(r.changed)
		r.parts[n.name] = p
		was, is := n.remembered(remembered), p.values
		switch {
		case n.prev == nil, was != nil && is == nil, was != nil && !was.equal(is):
			changed = append(changed, n.name)
		}
	}
	for i := range f.prev.Nodes {
		n := &node{name: f.prev.Nodes[i].Name, prev: &f.prev.Nodes[i]}
		switch {
		case present[n.name]:
		case n.joined(r.changed):
			changed = slices.DeleteFunc(changed, func(name string) bool { return name == n.name })
		default:
			changed = append(changed, n.name)
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

// joined reports whether the node joined after the approval that counted, given the
// nodes that had changed by the last status. There such a node is among them
// without being told as changed; one that left and is back is told as changed.
func (n *node) joined(changed []string) bool {
	_, known := slices.BinarySearch(changed, n.name)
	if n.prev == nil {
		return !known
	}
	told := n.prev.Retirement
	return known && told != nil && (told.State == "" || told.State == v1alpha1.RetirementPlanned)
}
