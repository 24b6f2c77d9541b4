package assess

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// dispute finds what speaks against the plan whatever is approved, the gravest
// first.
func (f *facts) dispute(others []*v1alpha1.KMSRotationPlan) []verdict {
	var found []verdict
	add := func(reason, message string) {
		if message != "" {
			found = append(found, yes(reason, message))
		}
	}
	add(ReasonNodesDiverged, f.diverged)
	add(ReasonKeyReturned, f.sayKeyReturned())
	add(ReasonNodeWentBack, f.sayWentBack())
	if f.retirement != nil {
		add(ReasonRetirementsOverlap, f.sayOverlap(others))
	}
	return found
}

// contradictions are all that speaks against the plan, the gravest first.
func (f *facts) contradictions() []verdict {
	r, found := f.retirement, slices.Clone(f.disputes)
	if r == nil {
		return found
	}
	lightest := len(found)
	if lightest > 0 && found[lightest-1].reason == ReasonRetirementsOverlap {
		lightest--
	}
	switch {
	case r.lapsed():
		found = slices.Insert(found, lightest, yes(ReasonApprovedPlanChanged, f.sayPlanChanged()))
	case !r.approved && len(f.applied()) > 0:
		found = slices.Insert(found, lightest, yes(ReasonAppliedWithoutApproval, f.sayUnapproved()))
	}
	return found
}

// sayDiverged tells of nodes that went different ways.
func (f *facts) sayDiverged() string { return sentences(f.sayForked(), f.sayCannotRead()) }

// degraded: something contradicts the plan. While a node does not report, nobody
// can say that nothing does.
func degraded(f *facts) verdict {
	if len(f.nodes) == 0 {
		return unknown(ReasonNoNodes, "There are no nodes that could contradict the plan. Correct spec.nodes.")
	}
	if len(f.against) > 0 {
		var said []string
		for _, c := range f.against {
			said = append(said, c.message)
		}
		return yes(f.against[0].reason, sentences(said...))
	}
	if silent := sayNotReporting(f); silent != "" {
		return unknown(ReasonNodesNotReporting, silent)
	}
	return no(ReasonConsistent, "Nothing that the nodes report contradicts the plan.")
}

// sayForked finds a Transit version that has different key_ids on two nodes: the
// key was made anew under one of them.
func (f *facts) sayForked() string {
	by := map[int]map[string][]string{}
	for _, n := range f.nodes {
		if !n.counts() {
			continue
		}
		for _, s := range n.report.Snapshots {
			if by[s.TransitVersion] == nil {
				by[s.TransitVersion] = map[string][]string{}
			}
			by[s.TransitVersion][s.KeyIDHash] = append(by[s.TransitVersion][s.KeyIDHash], n.name)
		}
	}
	for _, version := range slices.Sorted(maps.Keys(by)) {
		if len(by[version]) < 2 {
			continue
		}
		var said []string
		for _, hash := range slices.Sorted(maps.Keys(by[version])) {
			said = append(said, fmt.Sprintf("%s: %s.", list(by[version][hash]), keyName(report.Key{KeyIDHash: hash, TransitVersion: version})))
		}
		return sentences("The nodes know different keys under one Transit version, and cannot read each other's data.", few(said),
			"Compare their configurations with `bao-kms-provider config`, and rewrite nothing.")
	}
	return ""
}

// sayCannotRead finds a node that encrypts with a version which another has
// removed.
func (f *facts) sayCannotRead() string {
	removed := map[string][]string{}
	for _, n := range f.nodes {
		if !n.counts() {
			continue
		}
		for _, s := range n.report.Snapshots {
			if s.State == report.SnapshotRemoved {
				removed[s.KeyIDHash] = append(removed[s.KeyIDHash], n.name)
			}
		}
	}
	var said []string
	for _, n := range f.nodes {
		if k, ok := n.key(); ok && n.counts() && len(removed[k.KeyIDHash]) > 0 {
			said = append(said, fmt.Sprintf("%s encrypts with %s, which is removed on %s and cannot be read there.", n.name, keyName(k), list(removed[k.KeyIDHash])))
		}
	}
	if said == nil {
		return ""
	}
	return few(said) + " Restore it with `bao-kms-provider restore-versions` there until every node has promoted."
}

func (f *facts) sayKeyReturned() string {
	k, left := f.agreement.key, f.history.left
	if left == nil {
		return ""
	}
	return fmt.Sprintf("%s went back to %s after %s. Registries were lost or restored: bring back the newest state files, and rewrite nothing.",
		f.all(), keyName(*k), keyName(report.Key{KeyIDHash: left.KeyIDHash, TransitVersion: int(left.TransitVersion)}))
}

func (f *facts) sayWentBack() string {
	var names []string
	for _, n := range f.nodes {
		if m := n.told.WentBackFrom; m != nil {
			names = append(names, fmt.Sprintf("%s (generation %d with version %d, was generation %d with version %d)", n.name,
				n.told.Generation, n.told.TransitVersion, m.Generation, m.TransitVersion))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("The key registry went back on %s. Bring back the newest state files there; if the node was set up anew on purpose, remove it from the plan and add it again.", list(names))
}

func (f *facts) sayUnapproved() string {
	names := f.applied()
	next := "Review, and approve for the other nodes or restore the versions there with `bao-kms-provider restore-versions`."
	if len(names) == len(f.nodes) {
		next = fmt.Sprintf("If that was reviewed, set spec.retirement.approvedDigest to %s, with the evidence; if the plan has served its purpose, take spec.retirement out of it.", f.retirement.digest)
	}
	return fmt.Sprintf("%s %s applied the retirement although no approval counts. %s", list(names), verb(names, "has", "have"), next)
}

// sayOverlap finds other plans that retire below another version on the same
// nodes. A retirement that every node has applied is at odds with none.
func (f *facts) sayOverlap(others []*v1alpha1.KMSRotationPlan) string {
	if f.retirement.approved && len(f.notApplied()) == 0 {
		return ""
	}
	var said []string
	sorted := slices.SortedFunc(slices.Values(others), func(a, b *v1alpha1.KMSRotationPlan) int { return cmp.Compare(a.Name, b.Name) })
	for _, o := range sorted {
		if o.Name == f.plan.Name || o.DeletionTimestamp != nil || o.Spec.ProviderName != f.plan.Spec.ProviderName ||
			o.Spec.Retirement == nil || o.Spec.Retirement.BeforeVersion == f.plan.Spec.Retirement.BeforeVersion || Finished(o) {
			continue
		}
		theirs := nodesOf(o)
		if shared := f.names(func(n *node) bool { return theirs[n.name] }); len(shared) > 0 {
			said = append(said, fmt.Sprintf("Plan %s retires below version %d on %s, this one below version %d.", o.Name, o.Spec.Retirement.BeforeVersion, list(shared), f.plan.Spec.Retirement.BeforeVersion))
		}
	}
	if said == nil {
		return ""
	}
	return few(said) + " Take the retirement out of one of them."
}

// nodesOf are another plan's nodes: those that it names, or those that its
// selector was last resolved to.
func nodesOf(p *v1alpha1.KMSRotationPlan) map[string]bool {
	names := map[string]bool{}
	if p.Spec.Nodes.Selector == nil {
		for _, name := range p.Spec.Nodes.Names {
			names[name] = true
		}
		return names
	}
	for _, n := range p.Status.Nodes {
		names[n.Name] = true
	}
	return names
}

// Finished reports whether the retirement that a plan asks for now is done, as its
// status says: such a plan is at odds with no other. It stays finished while a node
// does not report, which every provider does that is stopped for the next
// retirement; what comes to light when the node is back counts then.
func Finished(p *v1alpha1.KMSRotationPlan) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionRetirementApplied && c.ObservedGeneration == p.Generation &&
			(c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionUnknown && c.Reason == ReasonNodesNotReporting)
	})
}
