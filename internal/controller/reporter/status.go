package reporter

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

// statusOf is what an observation makes of the object that was read (design:
// manager, KMSNodeReport). asked are the versions that plans want to be answered.
// While the provider is silent the last report, its time and its plans stay; only
// a version that nothing answers for says so.
func statusOf(old *v1alpha1.KMSNodeReport, o observation, asked []int32) v1alpha1.KMSNodeReportStatus {
	none := o.silence
	if none == nil && o.report.Provider.Name != old.Spec.ProviderName {
		none = &silence{reasonOther, fmt.Sprintf(
			"the provider on this node is %q now, and this is the report of %q; when that is meant, delete this KMSNodeReport, and the reporter makes a new one; otherwise correct transit.keyIdScope.providerName on the node",
			o.report.Provider.Name, old.Spec.ProviderName)}
	}
	next := v1alpha1.KMSNodeReportStatus{Conditions: conditions(old, none, o.at)}
	if none != nil {
		next.ObservedAt = old.Status.ObservedAt
		next.Report = old.Status.Report
		next.RetirementPlans = keptPlans(old.Status.RetirementPlans, asked, none)
		return next
	}
	at := metav1.NewTime(o.at).Rfc3339Copy()
	next.ObservedAt = &at
	next.Report = o.report
	next.RetirementPlans = o.plans
	return next
}

// keptPlans are the last answers to the versions that are asked.
func keptPlans(old []v1alpha1.NodeRetirement, asked []int32, none *silence) []v1alpha1.NodeRetirement {
	var kept []v1alpha1.NodeRetirement
	for _, before := range asked {
		i := slices.IndexFunc(old, func(p v1alpha1.NodeRetirement) bool { return p.BeforeVersion == before })
		if i >= 0 {
			kept = append(kept, old[i])
			continue
		}
		kept = append(kept, problem(before, problemNoReport,
			"no provider answers for this report: "+none.reason, "see the condition "+v1alpha1.ConditionProviderReachable+" of the report"))
	}
	return kept
}

// conditions is ProviderReachable alone. A condition of another writer is its own.
func conditions(old *v1alpha1.KMSNodeReport, none *silence, now time.Time) []metav1.Condition {
	c := metav1.Condition{
		Type:               v1alpha1.ConditionProviderReachable,
		Status:             metav1.ConditionTrue,
		ObservedGeneration: old.Generation,
		LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
		Reason:             reasonAnswering,
		Message:            "the provider answers on its report socket",
	}
	if none != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, none.reason, none.message
	}
	var set []metav1.Condition
	if last := meta.FindStatusCondition(old.Status.Conditions, c.Type); last != nil {
		set = append(set, *last)
	}
	meta.SetStatusCondition(&set, c)
	return set
}
