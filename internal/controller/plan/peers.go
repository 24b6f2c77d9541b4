package plan

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
)

// peers are the other plans of a plan's provider, as the cache has them. They must
// not be changed. Plans are few: an index of the cache would save nothing, and would
// have to know the kind before the API server does.
func peers(ctx context.Context, c client.Reader, plan *v1alpha1.KMSRotationPlan) ([]*v1alpha1.KMSRotationPlan, error) {
	list := &v1alpha1.KMSRotationPlanList{}
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var others []*v1alpha1.KMSRotationPlan
	for i := range list.Items {
		if list.Items[i].Name != plan.Name && list.Items[i].Spec.ProviderName == plan.Spec.ProviderName {
			others = append(others, &list.Items[i])
		}
	}
	return others, nil
}

// appearance is what assess looks at in another plan: its retirement, the nodes
// that this is for, and whether it is over.
type appearance struct {
	Provider string
	Before   int32 // 0: it asks for no retirement, and is of no concern
	Nodes    []string
	Over     bool
}

func appearanceOf(plan *v1alpha1.KMSRotationPlan) appearance {
	if plan.Spec.Retirement == nil || plan.DeletionTimestamp != nil {
		return appearance{}
	}
	a := appearance{Provider: plan.Spec.ProviderName, Before: plan.Spec.Retirement.BeforeVersion, Nodes: slices.Clone(plan.Spec.Nodes.Names)}
	if plan.Spec.Nodes.Selector != nil {
		for _, n := range plan.Status.Nodes {
			a.Nodes = append(a.Nodes, n.Name)
		}
	}
	slices.Sort(a.Nodes)
	a.Over = assess.Finished(plan)
	return a
}

// peerEvents asks for the other plans that a changed plan concerns.
func (r *Reconciler) peerEvents() handler.EventHandler {
	ask := func(ctx context.Context, q queue, o client.Object) {
		plan := o.(*v1alpha1.KMSRotationPlan)
		others, err := peers(ctx, r.client, plan)
		if err != nil { // of a cache: only while it stops
			log.FromContext(ctx).Error(err, "plans of the same provider cannot be read from the cache", "plan", plan.Name)
			return
		}
		for _, o := range others {
			if o.Spec.Retirement != nil {
				enqueue(q, o.Name)
			}
		}
	}
	seen := func(o client.Object) bool { return appearanceOf(o.(*v1alpha1.KMSRotationPlan)).Before != 0 }
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			// At the start every plan is judged anyway.
			if seen(e.Object) && !e.IsInInitialList {
				ask(ctx, q, e.Object)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			ask(ctx, q, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			old, changed := e.ObjectOld.(*v1alpha1.KMSRotationPlan), e.ObjectNew.(*v1alpha1.KMSRotationPlan)
			if !equality.Semantic.DeepEqual(appearanceOf(old), appearanceOf(changed)) {
				ask(ctx, q, changed)
			}
		},
	}
}
