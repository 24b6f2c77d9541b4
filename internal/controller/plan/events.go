package plan

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

// longestNote is how many bytes the note of an Event may have.
const longestNote = 1024

// transition is a condition whose status changed.
type transition struct {
	condition metav1.Condition
	// warns is set when somebody should look.
	warns bool
}

// transitions are the conditions whose status changed, in the order of the status.
// A condition that is there for the first time and is not True is none: a new plan
// says of everything that it is not so yet.
func transitions(old, now []metav1.Condition) []transition {
	var all []transition
	for _, c := range now {
		was := metav1.ConditionUnknown
		known := false
		if o := meta.FindStatusCondition(old, c.Type); o != nil {
			was, known = o.Status, true
		}
		if was == c.Status || !known && c.Status != metav1.ConditionTrue {
			continue
		}
		all = append(all, transition{c, warns(c.Type, was, c.Status)})
	}
	return all
}

// warns: what was so no longer is, or the plan is contradicted.
func warns(condition string, was, is metav1.ConditionStatus) bool {
	if condition == v1alpha1.ConditionDegraded {
		return is == metav1.ConditionTrue
	}
	return was == metav1.ConditionTrue
}

// tell records a transition. Its reason is the condition, so that Events can be
// searched for it: Converged, ConvergedFalse or ConvergedUnknown. Its action is the
// reason of the condition, and the note begins with it.
func (r *Reconciler) tell(plan *v1alpha1.KMSRotationPlan, t transition) {
	kind := corev1.EventTypeNormal
	if t.warns {
		kind = corev1.EventTypeWarning
	}
	r.recorder.Eventf(regarding(plan, t.condition.Type), nil, kind, eventReason(t.condition), t.condition.Reason, "%s", note(t.condition))
}

// regarding is the plan as an Event refers to it. Events that agree in all but
// their notes become a series, which keeps the first one's note. A fleet that
// flaps tells of each of its states once that way; what was approved, and what an
// approval no longer counts for, is told each time: the version of the plan sets
// those apart.
func regarding(plan *v1alpha1.KMSRotationPlan, condition string) *v1alpha1.KMSRotationPlan {
	about := &v1alpha1.KMSRotationPlan{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "KMSRotationPlan"},
		ObjectMeta: metav1.ObjectMeta{Name: plan.Name, UID: plan.UID},
	}
	if condition == v1alpha1.ConditionRetirementApproved {
		about.ResourceVersion = plan.ResourceVersion
	}
	return about
}

func eventReason(c metav1.Condition) string {
	if c.Status == metav1.ConditionTrue {
		return c.Type
	}
	return c.Type + string(c.Status)
}

// note is the condition's reason and message within the bound of an Event.
func note(c metav1.Condition) string {
	s := c.Reason + ": " + c.Message
	if len(s) <= longestNote {
		return s
	}
	const rest = " ... (see the condition)"
	return strings.ToValidUTF8(s[:longestNote-len(rest)], "") + rest
}
