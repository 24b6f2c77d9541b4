package assess

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

// summarise is the phase of what has been judged.
func (f *facts) summarise() v1alpha1.Phase {
	r := f.retirement
	switch {
	case f.is(v1alpha1.ConditionDegraded):
		return v1alpha1.Degraded
	case f.is(v1alpha1.ConditionRetirementApplied):
		return v1alpha1.Retired
	case r != nil && r.approved && f.released() && len(f.applied()) > 0:
		return v1alpha1.Applying
	case r != nil && r.approved && f.released():
		return v1alpha1.Approved
	case f.is(v1alpha1.ConditionRewriteSafe) && f.is(v1alpha1.ConditionRetirementPlanned):
		return v1alpha1.AwaitingReview
	case f.is(v1alpha1.ConditionRewriteSafe) && f.plan.Spec.SettleTime.Duration <= 0:
		return v1alpha1.Converged
	case f.is(v1alpha1.ConditionRewriteSafe):
		return v1alpha1.RewriteSafe
	case f.is(v1alpha1.ConditionConverged):
		return v1alpha1.Settling
	case f.is(v1alpha1.ConditionNodesReporting) && f.moving():
		return v1alpha1.Rotating
	}
	return v1alpha1.Observing
}

// moving reports whether a rotation is under way or awaited.
func (f *facts) moving() bool {
	return sayPending(f) != "" || sayKeysDiffer(f) != "" || sayNotTarget(f) != ""
}

// ready: the stage that the spec asks for is reached: the retirement if there is
// one, else that data may be rewritten. Its reason is the phase.
func ready(f *facts) verdict {
	stage := v1alpha1.ConditionRewriteSafe
	if f.retirement != nil {
		stage = v1alpha1.ConditionRetirementApplied
	}
	v := verdict{f.verdicts[stage].status, string(f.phase), f.holdsUp(stage)}
	if f.phase == v1alpha1.Degraded {
		v.status = metav1.ConditionFalse
	}
	return v
}

// holdsUp is the message of the condition that says what to do next.
func (f *facts) holdsUp(stage string) string {
	condition := stage
	switch f.phase {
	case v1alpha1.Degraded:
		condition = v1alpha1.ConditionDegraded
	case v1alpha1.AwaitingReview:
		condition = v1alpha1.ConditionRetirementApproved
	case v1alpha1.Observing, v1alpha1.Rotating:
		return f.andApproved(v1alpha1.ConditionConverged)
	case v1alpha1.Settling:
		return f.andApproved(v1alpha1.ConditionRewriteSafe)
	case v1alpha1.Converged, v1alpha1.RewriteSafe:
		if f.retirement != nil {
			return sentences(f.verdicts[v1alpha1.ConditionRewriteSafe].message, f.verdicts[v1alpha1.ConditionRetirementPlanned].message)
		}
	}
	return f.verdicts[condition].message
}

// andApproved is the message of a condition that an approval, if one counts, waits
// for.
func (f *facts) andApproved(condition string) string {
	said := f.verdicts[condition].message
	if f.retirement != nil && f.retirement.approved {
		said = sentences(said, f.verdicts[v1alpha1.ConditionRetirementApplied].message)
	}
	return said
}

// summary is for the columns of kubectl get.
func (f *facts) summary() *v1alpha1.PlanSummary {
	there := 0
	for _, n := range f.nodes {
		if w := f.agreement.wanted; w != nil && n.settled(*w) {
			there++
		}
	}
	return &v1alpha1.PlanSummary{Nodes: fmt.Sprintf("%d/%d", there, len(f.nodes)), Retirement: f.inShort()}
}

// inShort is the retirement in a word or two.
func (f *facts) inShort() string {
	r := f.retirement
	switch {
	case r == nil:
		return ""
	case f.is(v1alpha1.ConditionRetirementApplied):
		return "retired"
	case r.lapsed():
		return "approval lapsed"
	case len(f.applied()) > 0:
		return fmt.Sprintf("%d/%d applied", len(f.applied()), len(f.nodes))
	case r.approved:
		return "approved"
	case r.digest != "":
		return "planned"
	}
	return "not planned"
}
