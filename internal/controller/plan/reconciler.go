package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
)

const (
	// conflictRetry is after what time a plan is judged again whose status was
	// written by somebody else, or by this manager, since the cache saw it.
	conflictRetry = 200 * time.Millisecond
	// nodesRetry is after what time a selector is resolved again while the first
	// list of Nodes is awaited.
	nodesRetry = 200 * time.Millisecond
	// firstRetry and lastRetry are the shortest and the longest time after which a
	// plan is judged again that failed: each failure doubles it.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Minute
	// soonest is the shortest time to assess's next moment.
	soonest = 10 * time.Millisecond
	// reconcileTimeout bounds the judgement of one plan, its write included.
	reconcileTimeout = 30 * time.Second
)

// Reconciler keeps the status of plans. Its fields are set by add and not changed
// afterwards; what changes guards itself.
type Reconciler struct {
	client   client.Client // reads from the cache
	recorder events.EventRecorder
	index    *index
	pace     *pace
	nodes    *nodeWatch
	now      func() time.Time
}

// add puts a Reconciler into a manager. concurrency is how many
// plans are judged at once, from 1.
func add(m manager.Manager, concurrency int) error {
	r := &Reconciler{client: m.GetClient(), recorder: m.GetEventRecorder(FieldOwner), index: newIndex(), pace: newPace(), now: time.Now}
	c, err := builder.ControllerManagedBy(m).
		Named("plan").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency, ReconciliationTimeout: reconcileTimeout,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Watches(&v1alpha1.KMSRotationPlan{}, &handler.EnqueueRequestForObject{}).
		Watches(&v1alpha1.KMSRotationPlan{}, r.peerEvents()).
		Watches(&v1alpha1.KMSNodeReport{}, r.reportEvents()).
		Build(r)
	if err != nil {
		return fmt.Errorf("making the controller of plans: %w", err)
	}
	r.nodes = &nodeWatch{cache: m.GetCache(), controller: c, handler: r.nodeEvents()}
	return nil
}

// Reconcile judges one plan and writes its status if that changed.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	plan := &v1alpha1.KMSRotationPlan{}
	if err := r.client.Get(ctx, req.NamespacedName, plan); err != nil {
		if apierrors.IsNotFound(err) {
			r.index.remove(req.Name)
			r.pace.forget(req.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading the plan from the cache: %w", err)
	}
	if rest := r.pace.rest(plan.Name, r.now()); rest > 0 {
		return reconcile.Result{RequeueAfter: rest}, nil
	}
	in, err := r.input(ctx, plan)
	var invalid *selectorError
	switch {
	case errors.Is(err, errNodesAwaited):
		return reconcile.Result{RequeueAfter: nodesRetry}, nil
	case errors.Is(err, errNodesUnreadable):
		// A status from before would go on telling of nodes that nobody looks at.
		_, unwritten := r.write(ctx, plan, assess.NodesUnreadable(in).Status)
		return reconcile.Result{}, errors.Join(err, unwritten)
	case errors.As(err, &invalid):
		// The change of its spec is when it is judged again.
		moved, err := r.write(ctx, plan, assess.SelectorInvalid(in, invalid).Status)
		return again(moved, 0), err
	case err != nil:
		return reconcile.Result{}, err
	}
	out := assess.Assess(in)
	moved, err := r.write(ctx, plan, out.Status)
	if tooLarge(err) {
		r.pace.wrote(plan.Name, len(in.Nodes), r.now())
		log.FromContext(ctx).Error(err, "the status does not fit into one object; the plan's conditions say so and what to do", "nodes", len(in.Nodes))
		out = assess.TooLarge(in)
		moved, err = r.write(ctx, plan, out.Status)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return again(moved, r.until(out.Next)), nil
}

// again is when a plan is judged again: after a time, or soon when it is no longer
// what was judged.
func again(moved bool, after time.Duration) reconcile.Result {
	if moved {
		after = conflictRetry
	}
	return reconcile.Result{RequeueAfter: after}
}

// input is everything that the judgement rests on.
func (r *Reconciler) input(ctx context.Context, plan *v1alpha1.KMSRotationPlan) (assess.Input, error) {
	in := assess.Input{Plan: plan, Reports: map[string]*v1alpha1.KMSNodeReport{}, Now: r.now()}
	var err error
	if in.Nodes, err = r.resolve(ctx, plan); err != nil {
		r.index.set(plan.Name, membership{})
		return in, err
	}
	if len(in.Nodes) > assess.MaxNodes {
		// What they report changes nothing.
		r.index.set(plan.Name, membership{})
		return in, nil
	}
	// Before the reports are read: see index.
	r.index.set(plan.Name, membership{nodes: in.Nodes, maxAge: plan.Spec.ReportMaxAge.Duration})
	for _, name := range in.Nodes {
		// The cache's own objects: assess changes nothing of its input.
		report := &v1alpha1.KMSNodeReport{}
		switch err := r.client.Get(ctx, client.ObjectKey{Name: name}, report, client.UnsafeDisableDeepCopy); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return in, fmt.Errorf("reading the KMSNodeReport %s from the cache: %w", name, err)
		default:
			in.Reports[name] = report
		}
	}
	if in.Others, err = peers(ctx, r.client, plan); err != nil {
		return in, fmt.Errorf("reading the other plans of the provider from the cache: %w", err)
	}
	in.Now = r.now()
	return in, nil
}

// until is the time to assess's next moment; zero without one.
func (r *Reconciler) until(next time.Time) time.Duration {
	if next.IsZero() {
		return 0
	}
	return max(soonest, next.Sub(r.now()))
}
