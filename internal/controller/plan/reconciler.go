package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
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
	nodes    *nodeWatch
	now      func() time.Time
}

// add puts a Reconciler and its metrics into a manager. concurrency is how many
// plans are judged at once, from 1.
func add(ctx context.Context, m manager.Manager, concurrency int) error {
	r := &Reconciler{client: m.GetClient(), recorder: m.GetEventRecorder(FieldOwner), index: newIndex(), now: time.Now}
	if err := m.GetFieldIndexer().IndexField(ctx, &v1alpha1.KMSRotationPlan{}, byProvider, providerOf); err != nil {
		return fmt.Errorf("indexing plans: %w", err)
	}
	c, err := builder.ControllerManagedBy(m).
		Named("plan").
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, ReconciliationTimeout: reconcileTimeout}).
		Watches(&v1alpha1.KMSRotationPlan{}, &handler.EnqueueRequestForObject{}).
		Watches(&v1alpha1.KMSRotationPlan{}, r.peerEvents()).
		Watches(&v1alpha1.KMSNodeReport{}, r.reportEvents()).
		Build(r)
	if err != nil {
		return fmt.Errorf("making the controller of plans: %w", err)
	}
	r.nodes = &nodeWatch{cache: m.GetCache(), controller: c, handler: r.nodeEvents()}
	return m.Add(&exporter{collector{client: m.GetClient(), now: time.Now}})
}

// Reconcile judges one plan and writes its status if that changed.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	plan := &v1alpha1.KMSRotationPlan{}
	if err := r.client.Get(ctx, req.NamespacedName, plan); err != nil {
		if apierrors.IsNotFound(err) {
			r.index.remove(req.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading the plan from the cache: %w", err)
	}
	in, err := r.input(ctx, plan)
	if errors.Is(err, errNodesAwaited) {
		return reconcile.Result{RequeueAfter: nodesRetry}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	out := assess.Assess(in)
	moved, err := r.write(ctx, plan, out.Status)
	if err != nil {
		return reconcile.Result{}, err
	}
	if moved {
		log.FromContext(ctx).V(1).Info("the plan was changed meanwhile; it is judged again")
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	return reconcile.Result{RequeueAfter: r.until(out.Next)}, nil
}

// input is everything that the judgement rests on.
func (r *Reconciler) input(ctx context.Context, plan *v1alpha1.KMSRotationPlan) (assess.Input, error) {
	in := assess.Input{Plan: plan, Reports: map[string]*v1alpha1.KMSNodeReport{}}
	var err error
	if in.Nodes, err = r.resolve(ctx, plan); err != nil {
		return in, err
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
