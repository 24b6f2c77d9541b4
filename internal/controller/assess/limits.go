package assess

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// MaxNodes is how many nodes a plan can have: the bound of spec.nodes.names, and the
// same for a selector. A status that tells of more would not fit into one object.
const MaxNodes = 1000

// TooLarge is the judgement of a plan whose status the API server refused for its
// size, which only it can find out.
func TooLarge(in Input) Output {
	return unjudged(in, ReasonStatusTooLarge, fmt.Sprintf(
		"Nothing is judged: what there is to tell of %d nodes does not fit into one object of the API server. Make several plans that name fewer nodes each.", len(in.Nodes)))
}

func tooMany(in Input) Output {
	return unjudged(in, ReasonTooManyNodes, fmt.Sprintf(
		"Nothing is judged: the plan's selector matches %d nodes, and a plan has room for %d. Narrow spec.nodes.selector, or make several plans.", len(in.Nodes), MaxNodes))
}

// NodesUnreadable is the judgement of a plan with a selector while the manager may
// not, or cannot, list Nodes. In.Nodes is not known.
func NodesUnreadable(in Input) Output {
	return unjudged(in, ReasonNodesUnreadable,
		"Nothing is judged: the manager cannot list the nodes that spec.nodes.selector chooses from. Let it list and watch nodes in the cluster that it runs against, or name them in spec.nodes.names.")
}

// SelectorInvalid is the judgement of a plan whose selector the API took and
// Kubernetes does not.
func SelectorInvalid(in Input, why error) Output {
	return unjudged(in, ReasonSelectorInvalid, fmt.Sprintf("Nothing is judged: spec.nodes.selector cannot be used: %s. Correct it.", quoted(why.Error())))
}

// unjudged is a status that says why it says nothing. Of the past it keeps what a
// node that goes back, a return to an earlier key and a lapsed approval are noticed
// by, and what was planned, approved and applied. That has room: it was in the status
// before. The settle clock is not watched and has to start again.
func unjudged(in Input, reason, message string) Output {
	f := &facts{plan: in.Plan, prev: &in.Plan.Status, now: in.Now, verdicts: map[string]verdict{}}
	past := f.prev.DeepCopy()
	s := v1alpha1.KMSRotationPlanStatus{
		ObservedGeneration: in.Plan.Generation,
		Phase:              v1alpha1.Observing,
		KeyHistory:         past.KeyHistory,
	}
	if len(in.Nodes) > 0 {
		s.Summary = &v1alpha1.PlanSummary{Nodes: fmt.Sprintf("0/%d", len(in.Nodes))}
	}
	if r, asked := past.Retirement, in.Plan.Spec.Retirement; r != nil && asked != nil && r.BeforeVersion == asked.BeforeVersion {
		s.Retirement = r
		if asked.ApprovedDigest == "" {
			r.ApprovedDigest, r.ChangedNodes, r.Evidence = "", nil, nil
		}
	}
	for _, n := range past.Nodes {
		s.Nodes = append(s.Nodes, memory(n, s.Retirement != nil))
	}
	for _, p := range policies {
		v := unknown(reason, message)
		if p.condition == v1alpha1.ConditionReady {
			v.status = metav1.ConditionFalse
		}
		f.verdicts[p.condition] = v
		s.Conditions = append(s.Conditions, f.condition(p.condition))
	}
	return Output{Status: s}
}

// memory is what stays of a node while nothing is judged: what was known, with its
// part in a retirement that is still asked for, and nothing of how it is.
func memory(n v1alpha1.NodeStatus, retires bool) v1alpha1.NodeStatus {
	m := v1alpha1.NodeStatus{Name: n.Name, RotationState: string(report.RotationUnknown),
		KeyIDHash: n.KeyIDHash, TransitVersion: n.TransitVersion, Generation: n.Generation, StateHash: n.StateHash,
		ProviderVersion: n.ProviderVersion, LastSeen: n.LastSeen, WentBackFrom: n.WentBackFrom}
	if retires && n.Retirement != nil {
		m.Retirement = n.Retirement
		m.Retirement.Problem, m.Retirement.Command = "", ""
	}
	return m
}
