package assess

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

// proves is what an applied retirement does not prove.
const proves = "This does not say that a minimum version may be raised in OpenBao: that needs the operators' own evidence, and a plan with nothing to do on every node."

const askedForNone = "The plan asks for no retirement."

// retirementPlanned: every node returned a plan that removes the same versions.
func retirementPlanned(f *facts) verdict {
	r := f.retirement
	switch {
	case r == nil:
		return unknown(ReasonNotRequested, askedForNone)
	case len(f.nodes) == 0:
		return unknown(ReasonNoNodes, "There are no nodes that could plan. Correct spec.nodes.")
	}
	var refused []string
	awaited := f.names(func(n *node) bool { return n.counts() && r.parts[n.name].values == nil })
	by := map[string][]string{}
	for _, n := range f.nodes {
		p := r.parts[n.name]
		if p.problem != "" && n.counts() {
			refused = append(refused, fmt.Sprintf("%s (%s)", n.name, p.problem))
		}
		if p.values != nil {
			what := versionList(p.values.removed)
			by[what] = append(by[what], n.name)
		}
	}
	switch silent := sayNotReporting(f); {
	case len(refused) > 0:
		return no(ReasonPlanRefused, fmt.Sprintf("Retiring below version %d is refused on %s.", r.spec.BeforeVersion, list(refused)))
	case len(by) > 1:
		var said []string
		for _, what := range slices.Sorted(maps.Keys(by)) {
			said = append(said, fmt.Sprintf("%s: %s.", list(by[what]), what))
		}
		return no(ReasonPlansDiffer, sentences("The nodes would not remove the same versions.", few(said), "Find out why with `bao-kms-provider rotation-plan` on each before anybody approves."))
	case silent != "":
		return unknown(ReasonNodesNotReporting, silent)
	case len(awaited) > 0:
		return unknown(ReasonAwaitingPlans, fmt.Sprintf("%s %s not told yet what retiring below version %d would do there. The node reporter asks by itself; if it stays so, look at its log.",
			list(awaited), verb(awaited, "has", "have"), r.spec.BeforeVersion))
	}
	what := slices.Collect(maps.Keys(by))[0]
	if what == versionList(nil) {
		return yes(ReasonNothingToRemove, fmt.Sprintf("%s: nothing below version %d is left to remove.", f.all(), r.spec.BeforeVersion))
	}
	return yes(ReasonSameVersions, fmt.Sprintf("%s: retiring below version %d removes %s.", f.all(), r.spec.BeforeVersion, what))
}

// retirementApproved: approvedDigest equals the current digest, and evidence is
// given.
func retirementApproved(f *facts) verdict {
	r := f.retirement
	switch {
	case r == nil:
		return unknown(ReasonNotRequested, askedForNone)
	case len(f.nodes) == 0:
		return unknown(ReasonNoNodes, "There are no nodes to approve anything for. Correct spec.nodes.")
	case r.spec.ApprovedDigest == "" && r.digest == "":
		return no(ReasonNotApproved, "There is nothing to review yet: see RetirementPlanned.")
	case r.spec.ApprovedDigest == "":
		return no(ReasonNotApproved, f.sayToReview())
	case r.spec.Evidence == nil:
		return no(ReasonEvidenceMissing, "The approval does not count without spec.retirement.evidence. Say what proves the rewrite and what becomes of backups.")
	case r.approved:
		return yes(ReasonApproved, sentences(fmt.Sprintf("%s is approved for %s.", r.digest, f.everyNode()), f.sayToApply()))
	case r.digest != "" || len(r.changed) > 0:
		return no(ReasonPlanChanged, f.sayPlanChanged())
	}
	return unknown(ReasonDigestUnavailable, "There is no digest to compare spec.retirement.approvedDigest with: see RetirementPlanned.")
}

// everyNode is the plan's nodes in the middle of a sentence.
func (f *facts) everyNode() string { return list(f.names(func(*node) bool { return true })) }

// sayToReview asks for the review, when it is time for one.
func (f *facts) sayToReview() string {
	if wait := f.sayWait(); wait != "" {
		return "Approve nothing yet. " + wait
	}
	first := ""
	if f.verdicts[v1alpha1.ConditionRetirementPlanned].status == metav1.ConditionFalse {
		first = "See RetirementPlanned first."
	}
	return sentences(first, fmt.Sprintf("Review the plans of %s in nodes[].retirement, and set spec.retirement.approvedDigest to %s, with the evidence of a complete rewrite.", f.everyNode(), f.retirement.digest))
}

// sayPlanChanged names the nodes for which an older approval no longer counts.
func (f *facts) sayPlanChanged() string {
	r := f.retirement
	var differ, left []string
	for _, name := range r.changed {
		if _, ok := r.parts[name]; ok {
			differ = append(differ, name)
		} else {
			left = append(left, name)
		}
	}
	said := ""
	if len(differ) > 0 {
		said = fmt.Sprintf("%s %s from what was approved.", list(differ), verb(differ, "differs", "differ"))
	}
	if len(left) > 0 {
		said = sentences(said, fmt.Sprintf("%s %s left the plan since.", list(left), verb(left, "has", "have")))
	}
	if said == "" {
		said = fmt.Sprintf("What %s would do now has another digest than spec.retirement.approvedDigest.", f.everyNode())
	}
	next := fmt.Sprintf("Review again and set spec.retirement.approvedDigest to %s.", r.digest)
	switch wait := f.sayWait(); {
	case r.digest == "":
		next = "There is no new digest yet: see RetirementPlanned."
	case wait != "":
		next = wait + " Then review again."
	}
	return sentences("The approval no longer counts.", said, "Apply nothing.", next)
}

// sayToApply is the next step of an approved retirement, or what it waits for.
func (f *facts) sayToApply() string {
	rest := f.notApplied()
	if len(rest) == 0 {
		return ""
	}
	if held := f.sayHeld(); held != "" {
		return held
	}
	return fmt.Sprintf("Run nodes[].retirement.command on %s, one node after the other.", list(rest))
}

func (f *facts) notApplied() []string {
	return f.names(func(n *node) bool { return !f.retirement.parts[n.name].applied })
}

func (f *facts) applied() []string {
	return f.names(func(n *node) bool { return f.retirement.parts[n.name].applied })
}

// retirementApplied: every node's registry is the approved next one or descends
// from it.
func retirementApplied(f *facts) verdict {
	r := f.retirement
	switch {
	case r == nil:
		return unknown(ReasonNotRequested, askedForNone)
	case len(f.nodes) == 0:
		return unknown(ReasonNoNodes, "There are no nodes that could apply anything. Correct spec.nodes.")
	case !r.approved && r.spec.ApprovedDigest != "" && r.spec.Evidence != nil && r.digest == "" && len(r.changed) == 0:
		return unknown(ReasonDigestUnavailable, "It cannot be told what was approved: see RetirementApproved.")
	case !r.approved:
		return no(ReasonNotApproved, "No approval counts: see RetirementApproved.")
	}
	done, rest := f.applied(), f.notApplied()
	switch silent := sayNotReporting(f); {
	case len(done) == 0:
		return no(ReasonNotApplied, sentences("No node has applied it.", f.sayToApply()))
	case len(rest) > 0:
		return no(ReasonPartlyApplied, sentences(fmt.Sprintf("%s %s applied it.", list(done), verb(done, "has", "have")), f.sayToApply()))
	case silent != "":
		return unknown(ReasonNodesNotReporting, sentences("When last seen, every node had applied it.", silent))
	}
	return yes(ReasonAllApplied, sentences(fmt.Sprintf("%s applied the retirement below version %d.", f.all(), r.spec.BeforeVersion), proves))
}
