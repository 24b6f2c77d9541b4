package assess

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

// Input is everything that a judgement rests on. Nothing of it is changed.
type Input struct {
	// Plan is judged; its status is what was judged before.
	Plan *v1alpha1.KMSRotationPlan
	// Nodes are the names that the plan's set resolves to now.
	Nodes []string
	// Reports are the nodes' reports by node name; a node without one has none.
	Reports map[string]*v1alpha1.KMSNodeReport
	// Others are all other plans of the same provider.
	Others []*v1alpha1.KMSRotationPlan
	// Now is the moment.
	Now time.Time
}

// Output is the judgement.
type Output struct {
	// Status is the plan's whole status. It equals the one that was there, to the
	// last field, when nothing worth a write has changed.
	Status v1alpha1.KMSRotationPlanStatus
	// Next is the next moment at which time alone could change the status; zero
	// when there is none.
	Next time.Time
}

// defaultMaxAge is the API's default of reportMaxAge, for a plan without one.
const defaultMaxAge = 3 * time.Minute

// facts are what the policies judge. They are worked out in the order of the
// fields and not changed afterwards; verdicts grow as conditions are judged.
type facts struct {
	plan   *v1alpha1.KMSRotationPlan
	prev   *v1alpha1.KMSRotationPlanStatus
	now    time.Time
	maxAge time.Duration

	nodes      []*node
	agreement  agreement
	diverged   string // how nodes went different ways, if any did
	history    history
	clock      clock
	retirement *retirement // nil when the plan asks for none

	verdicts map[string]verdict
	disputes []verdict // what contradicts the plan, but for its approval, the gravest first
	against  []verdict // all that contradicts the plan, the gravest first
	phase    v1alpha1.Phase
}

// verdict is a condition without its bookkeeping.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(reason, message string) verdict { return verdict{metav1.ConditionTrue, reason, message} }
func no(reason, message string) verdict  { return verdict{metav1.ConditionFalse, reason, message} }
func unknown(reason, message string) verdict {
	return verdict{metav1.ConditionUnknown, reason, message}
}

// policies judge one condition each, in the order of the status. A policy may ask
// for the verdicts of those before it.
var policies = []struct {
	condition string
	judge     func(*facts) verdict
}{
	{v1alpha1.ConditionNodesReporting, nodesReporting},
	{v1alpha1.ConditionConverged, converged},
	{v1alpha1.ConditionRewriteSafe, rewriteSafe},
	{v1alpha1.ConditionPreflightPassed, preflightPassed},
	{v1alpha1.ConditionRetirementPlanned, retirementPlanned},
	{v1alpha1.ConditionRetirementApproved, retirementApproved},
	{v1alpha1.ConditionRetirementApplied, retirementApplied},
	{v1alpha1.ConditionDegraded, degraded},
	{v1alpha1.ConditionReady, ready},
}

// Assess judges a plan.
func Assess(in Input) Output {
	if len(in.Nodes) > MaxNodes {
		return tooMany(in)
	}
	f := &facts{plan: in.Plan, prev: &in.Plan.Status, now: in.Now, maxAge: in.Plan.Spec.ReportMaxAge.Duration,
		verdicts: map[string]verdict{}}
	if f.maxAge <= 0 {
		f.maxAge = defaultMaxAge
	}
	f.nodes = f.look(in.Nodes, in.Reports)
	f.agreement = agree(f.nodes, in.Plan.Spec.TargetTransitVersion)
	f.diverged = f.sayDiverged()
	f.history = f.record()
	f.clock = f.settle()
	f.retirement = f.retire()
	f.disputes = f.dispute(in.Others)
	f.against = f.contradictions()
	for _, p := range policies {
		if p.condition == v1alpha1.ConditionReady {
			f.phase = f.summarise()
		}
		f.verdicts[p.condition] = p.judge(f)
	}
	status := f.steady(f.status())
	return Output{Status: status, Next: f.next(&status)}
}

// is reports whether a condition was judged True.
func (f *facts) is(condition string) bool {
	return f.verdicts[condition].status == metav1.ConditionTrue
}

// names are those of the nodes for which a question is answered with yes.
func (f *facts) names(question func(*node) bool) []string {
	var names []string
	for _, n := range f.nodes {
		if question(n) {
			names = append(names, n.name)
		}
	}
	return names
}

// look makes a node of every name, sorted, each once.
func (f *facts) look(names []string, reports map[string]*v1alpha1.KMSNodeReport) []*node {
	prev := map[string]*v1alpha1.NodeStatus{}
	for i := range f.prev.Nodes {
		prev[f.prev.Nodes[i].Name] = &f.prev.Nodes[i]
	}
	var nodes []*node
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		nodes = append(nodes, f.lookAt(name, reports[name], prev[name]))
	}
	return nodes
}
