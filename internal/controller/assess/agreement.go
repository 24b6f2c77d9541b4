package assess

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/baokms/baokms/internal/report"
)

// agreement is how the nodes' keys stand to each other.
type agreement struct {
	// key is what every node encrypts with, each by a report that counts; nil while
	// they do not agree.
	key *report.Key
	// wanted is where the nodes go: the key of the target version, else the newest.
	// Nil when no node tells one.
	wanted *report.Key
	// converged: all agree, are ready, have nothing pending, and are on the target.
	converged bool
}

func agree(nodes []*node, target *int32) agreement {
	var a agreement
	var keys []report.Key
	for _, n := range nodes {
		if k, ok := n.key(); ok && n.counts() {
			keys = append(keys, k)
		}
	}
	for i, k := range keys {
		onTarget := target != nil && k.TransitVersion == int(*target)
		switch {
		case target != nil && !onTarget:
		case a.wanted == nil, a.wanted.TransitVersion < k.TransitVersion,
			a.wanted.TransitVersion == k.TransitVersion && k.KeyIDHash < a.wanted.KeyIDHash:
			a.wanted = &keys[i]
		}
	}
	if len(nodes) == 0 || len(keys) < len(nodes) {
		return a
	}
	for _, k := range keys {
		if k != keys[0] {
			return a
		}
	}
	a.key = &keys[0]
	a.converged = target == nil || int(*target) == a.key.TransitVersion
	for _, n := range nodes {
		a.converged = a.converged && n.settled(*a.key)
	}
	return a
}

// nodesReporting: every expected node has a report younger than reportMaxAge.
func nodesReporting(f *facts) verdict {
	if len(f.nodes) == 0 {
		return unknown(ReasonNoNodes, "The plan names no node that exists. Correct spec.nodes.")
	}
	reason := ""
	var said []string
	for _, d := range []struct{ doubt, reason, one, more, next string }{
		{NodeReportMissing, ReasonReportsMissing, "has no KMSNodeReport", "have no KMSNodeReport", "Start the node reporter there, or correct spec.nodes."},
		{NodeReportEmpty, ReasonReportsMissing, "has an empty KMSNodeReport", "have an empty KMSNodeReport", "Look at its conditions and at the node reporter's log there."},
		{NodeReportTooOld, ReasonReportsTooOld, "", "", "Look at the KMSNodeReport's conditions, then at the provider and the node reporter there."},
		{NodeReportOtherProvider, ReasonReportsUnusable, "reports another provider than spec.providerName", "report another provider than spec.providerName", "Correct spec.nodes, or transit.keyIdScope.providerName there."},
		{NodeReportFromFuture, ReasonReportsUnusable, "has a clock that is ahead of the manager's", "have a clock that is ahead of the manager's", "Set the clocks."},
	} {
		names := f.names(func(n *node) bool { return n.doubt == d.doubt })
		if len(names) == 0 {
			continue
		}
		reason = cmp.Or(reason, d.reason)
		does := verb(names, d.one, d.more)
		if d.doubt == NodeReportTooOld {
			names = f.ages()
			does = verb(names, "has", "have") + fmt.Sprintf(" not reported for %s or longer", f.maxAge)
		}
		said = append(said, fmt.Sprintf("%s %s. %s", list(names), does, d.next))
	}
	if reason != "" {
		return no(reason, sentences(said...))
	}
	return yes(ReasonAllReporting, fmt.Sprintf("%s reported within %s.", f.all(), f.maxAge))
}

// ages are the nodes whose reports are too old, each with when it was last seen: a
// moment, because an age would change the message all the time.
func (f *facts) ages() []string {
	var names []string
	for _, n := range f.nodes {
		if n.doubt == NodeReportTooOld {
			names = append(names, fmt.Sprintf("%s (last seen %s)", n.name, moment(n.seen.Time)))
		}
	}
	return names
}

// converged: all report one key_id hash, ready, none pending, and it is the target
// version when one is set.
func converged(f *facts) verdict {
	if len(f.nodes) == 0 {
		return unknown(ReasonNoNodes, "There are no nodes that could agree. Correct spec.nodes.")
	}
	if f.agreement.converged {
		return yes(ReasonAllAgree, fmt.Sprintf("%s %s with %s, and nothing is pending.", f.all(), verb(make([]string, len(f.nodes)), "encrypts", "encrypt"), keyName(*f.agreement.key)))
	}
	reason := ""
	var said []string
	for _, p := range []struct {
		reason string
		say    func(*facts) string
	}{
		{ReasonNodesNotReporting, sayNotReporting},
		{ReasonNodesNotReady, sayNotReady},
		{ReasonRotationPending, sayPending},
		{ReasonKeysDiffer, sayKeysDiffer},
		{ReasonNotTargetVersion, sayNotTarget},
	} {
		if s := p.say(f); s != "" {
			reason = cmp.Or(reason, p.reason)
			said = append(said, s)
		}
	}
	return no(reason, sentences(said...))
}

// sayNotReporting names the nodes without a report that counts.
func sayNotReporting(f *facts) string {
	names := f.names(func(n *node) bool { return !n.counts() })
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s no report that counts: see NodesReporting.", list(names), verb(names, "has", "have"))
}

// sayNotReady names the nodes that are not ready, and those that say they are but
// not that nothing is pending.
func sayNotReady(f *facts) string {
	var names []string
	for _, n := range f.nodes {
		switch _, hasKey := n.key(); {
		case !n.counts():
		case !n.told.Ready || !hasKey:
			names = append(names, fmt.Sprintf("%s (%s)", n.name, quoted(strings.Join(n.told.Reasons, ", "))))
		case n.told.Pending == nil && n.told.RotationState != string(report.RotationActive):
			names = append(names, fmt.Sprintf("%s (rotation state %s)", n.name, quoted(n.told.RotationState)))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s not ready. Run `bao-kms-provider doctor` there.", list(names), verb(names, "is", "are"))
}

func sayPending(f *facts) string {
	var names []string
	for _, n := range f.nodes {
		if p := n.told.Pending; n.counts() && p != nil {
			names = append(names, fmt.Sprintf("%s (version %d, seen %d of %d times)", n.name, p.Version, p.Observations, p.Required))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s to promote a new version. Wait: each node does so by itself.", list(names), verb(names, "waits", "wait"))
}

func sayKeysDiffer(f *facts) string {
	by := map[report.Key][]string{}
	for _, n := range f.nodes {
		if k, ok := n.key(); ok && n.counts() {
			by[k] = append(by[k], n.name)
		}
	}
	if len(by) < 2 {
		return ""
	}
	var parts []string
	for _, k := range slices.SortedFunc(maps.Keys(by), func(a, b report.Key) int {
		return cmp.Or(cmp.Compare(a.TransitVersion, b.TransitVersion), cmp.Compare(a.KeyIDHash, b.KeyIDHash))
	}) {
		parts = append(parts, list(by[k])+" with "+keyName(k))
	}
	return fmt.Sprintf("The nodes encrypt with different keys: %s. Wait until the older ones have promoted; if one stays behind, run `bao-kms-provider rotation-plan` there.", list(parts))
}

func sayNotTarget(f *facts) string {
	k, target := f.agreement.key, f.plan.Spec.TargetTransitVersion
	switch {
	case k == nil || target == nil || k.TransitVersion == int(*target):
		return ""
	case k.TransitVersion < int(*target):
		return fmt.Sprintf("%s: %s; the plan wants version %d. Rotate the Transit key in OpenBao and wait until every node has promoted it.", f.all(), keyName(*k), *target)
	}
	return fmt.Sprintf("%s: %s; the plan wants version %d, and a node never goes back. Correct spec.targetTransitVersion.", f.all(), keyName(*k), *target)
}
