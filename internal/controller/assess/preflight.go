package assess

import (
	"fmt"
	"strings"

	"github.com/baokms/baokms/internal/report"
)

// preflightPassed: no node has a failed preflight check. A check that could not be
// judged, and a node that does not report, is no pass either.
func preflightPassed(f *facts) verdict {
	if len(f.nodes) == 0 {
		return unknown(ReasonNoNodes, "There are no nodes to check. Correct spec.nodes.")
	}
	failed, unclear, warned := f.checks(report.Fail), f.checks(report.Unknown), f.checks(report.Warn)
	const next = "Run `bao-kms-provider verify-rotation` there."
	switch silent := sayNotReporting(f); {
	case len(failed) > 0:
		return no(ReasonChecksFailed, fmt.Sprintf("Preflight checks failed on %s. %s", list(failed), next))
	case silent != "":
		return unknown(ReasonNodesNotReporting, silent)
	case len(unclear) > 0:
		return unknown(ReasonChecksUnknown, fmt.Sprintf("Preflight checks could not be judged on %s. Wait for the provider's next probes; if they stay unknown: %s", list(unclear), next))
	case len(warned) > 0:
		return yes(ReasonPassedWithWarnings, fmt.Sprintf("No preflight check failed; there are warnings on %s. %s", list(warned), next))
	}
	return yes(ReasonAllPassed, fmt.Sprintf("%s passed every preflight check that a node can make.", f.all()))
}

// checks names the nodes that have a check with the result, with the checks. A
// result that v1 does not know is unknown.
func (f *facts) checks(result report.Result) []string {
	var nodes []string
	for _, n := range f.nodes {
		if !n.counts() {
			continue
		}
		var ids []string
		for _, c := range n.report.Preflight.Checks {
			if known(c.Result) == result {
				ids = append(ids, quoted(c.ID))
			}
		}
		switch {
		case len(ids) > 0:
			nodes = append(nodes, fmt.Sprintf("%s (%s)", n.name, strings.Join(ids, ", ")))
		case len(n.report.Preflight.Checks) == 0 && result == report.Unknown:
			nodes = append(nodes, n.name+" (no check was made)")
		}
	}
	return nodes
}

func known(r report.Result) report.Result {
	switch r {
	case report.Pass, report.Warn, report.Fail:
		return r
	}
	return report.Unknown
}
