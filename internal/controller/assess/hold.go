package assess

import (
	"fmt"
	"slices"
	"strings"

	"github.com/baokms/baokms/api/v1alpha1"
)

// This file says when nobody is to approve anything, or to run a command, although
// the digest allows it. An approval counts all the same: only the next step waits.

// begun reports whether a node has removed what is asked for.
func (r *retirement) begun() bool {
	for _, p := range r.parts {
		if p.removed() {
			return true
		}
	}
	return false
}

// removed reports whether the node has applied something, rather than had nothing
// to do.
func (p part) removed() bool { return p.applied && p.values != nil && len(p.values.removed) > 0 }

// released reports whether the retirement may begin, or has begun. It may once no
// API server can write with an older key. That stays so for an approval whose
// commands were given: a provider that is stopped to apply breaks the convergence,
// and the digest, which holds each node's key and registry, is still the same.
func (f *facts) released() bool {
	return f.rewritable() || f.retirement.begun() || f.retirement.given
}

// commandsGiven reports whether the status shows commands for the approved digest.
func commandsGiven(prev *v1alpha1.KMSRotationPlanStatus, digest string) bool {
	return digest != "" && prev.Retirement != nil && prev.Retirement.ApprovedDigest == digest &&
		slices.ContainsFunc(prev.Nodes, func(n v1alpha1.NodeStatus) bool { return n.Retirement != nil && n.Retirement.Command != "" })
}

// sayWait is why nobody is to approve or to begin now; empty when they may.
func (f *facts) sayWait() string {
	switch {
	case len(f.disputes) > 0:
		return "Something contradicts the plan: see Degraded first."
	case !f.released():
		return "Wait for RewriteSafe: until then data may still be written with an older key."
	}
	return ""
}

// sayHeld is why no command is shown of an approved retirement; empty when they
// are.
func (f *facts) sayHeld() string {
	if wait := f.sayWait(); wait != "" {
		return "Run nothing yet. " + wait
	}
	if unwell := f.sayUnwell(); unwell != "" {
		return fmt.Sprintf("%s Look there first, with `bao-kms-provider doctor`, and run nothing on %s until that is ready.", unwell, list(f.notApplied()))
	}
	return ""
}

// sayUnwell names the nodes that have applied and do not say that they are well.
// One that is silent is not known to be: nobody goes on to the next node on that.
func (f *facts) sayUnwell() string {
	var names []string
	for _, n := range f.nodes {
		switch {
		case !f.retirement.parts[n.name].removed() || n.told.Ready:
		case n.counts():
			names = append(names, fmt.Sprintf("%s (%s)", n.name, quoted(strings.Join(n.told.Reasons, ", "))))
		default:
			names = append(names, fmt.Sprintf("%s (no report that counts)", n.name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s applied it and %s not ready.", list(names), verb(names, "has", "have"), verb(names, "is", "are"))
}
