package plan

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// enqueue asks for plans to be judged.
func enqueue(q queue, plans ...string) {
	for _, name := range plans {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
}

// reportEvents asks for the plans that a changed report concerns.
func (r *Reconciler) reportEvents() handler.EventHandler {
	all := func(q queue, report client.Object) {
		enqueue(q, r.index.plansOf(report.GetName(), func(membership) bool { return true })...)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { all(q, e.Object) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { all(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			old, changed := e.ObjectOld.(*v1alpha1.KMSNodeReport), e.ObjectNew.(*v1alpha1.KMSNodeReport)
			now := r.now()
			enqueue(q, r.index.plansOf(changed.Name, func(m membership) bool { return concerns(old, changed, m.maxAge, now) })...)
		},
	}
}

// clockSlack is how far ahead a node's clock may be before its heartbeats count as
// changes: assess has its own tolerance, which is larger.
const clockSlack = 5 * time.Second

// concerns reports whether a changed report could change the judgement of a plan
// in which reports count until maxAge. A heartbeat could not, when the report that
// it replaces still counts: the plan is judged again before that one is too old.
func concerns(old, changed *v1alpha1.KMSNodeReport, maxAge time.Duration, now time.Time) bool {
	if old.Spec != changed.Spec || !equality.Semantic.DeepEqual(timeless(old), timeless(changed)) {
		return true
	}
	was, is := old.Status.ObservedAt, changed.Status.ObservedAt
	if was == nil || is == nil {
		return was != is
	}
	latest := now.Add(clockSlack)
	counted := was.Add(maxAge).After(now) && !was.After(latest)
	return !counted || is.Before(was) || is.After(latest)
}

// timeless is what assess reads of a report, without the moments that pass while
// nothing happens. The report itself stays as it is.
func timeless(r *v1alpha1.KMSNodeReport) v1alpha1.KMSNodeReportStatus {
	s := v1alpha1.KMSNodeReportStatus{RetirementPlans: r.Status.RetirementPlans}
	if meta.IsStatusConditionFalse(r.Status.Conditions, v1alpha1.ConditionProviderReachable) {
		s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProviderReachable, Status: metav1.ConditionFalse}}
	}
	if r.Status.Report != nil {
		told := *r.Status.Report
		told.GeneratedAt, told.Observations = "", report.Observations{}
		s.Report = &told
	}
	return s
}
