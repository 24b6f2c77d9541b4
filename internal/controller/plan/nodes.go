package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/baokms/baokms/api/v1alpha1"
)

// nodesPatience is for how long the first list of Nodes is awaited in silence.
const nodesPatience = 5 * time.Second

var (
	// errNodesAwaited: the first list of Nodes is under way.
	errNodesAwaited = errors.New("the nodes have not been listed yet")
	// errNodesUnreadable: it does not come.
	errNodesUnreadable = errors.New("the nodes cannot be listed, and spec.nodes.selector cannot be resolved: let the manager list and watch nodes in the cluster that it runs against, or name them in spec.nodes.names")
)

// selectorError is what is wrong with a plan's selector.
type selectorError struct{ cause error }

func (e *selectorError) Error() string { return e.cause.Error() }
func (e *selectorError) Unwrap() error { return e.cause }

func nodeMetadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Node"})
	return m
}

// onlyLabels is what a selector needs of a Node's metadata.
func onlyLabels(m *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	m.ObjectMeta = metav1.ObjectMeta{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels}
	return m
}

// nodeWatch is the watch of Nodes, which begins with the first plan that needs it.
type nodeWatch struct {
	cache      cache.Cache
	controller controller.Controller
	handler    handler.EventHandler

	mu    sync.Mutex
	since time.Time // zero: it has not begun
}

// ready begins the watch. errNodesAwaited or errNodesUnreadable while the cache
// holds no Nodes.
func (w *nodeWatch) ready(ctx context.Context) error {
	since, err := w.begin()
	if err != nil {
		return err
	}
	informer, err := w.cache.GetInformer(ctx, nodeMetadata(), cache.BlockUntilSynced(false))
	switch {
	case err != nil:
		return fmt.Errorf("watching nodes: %w", err)
	case informer.HasSynced():
		return nil
	case time.Since(since) < nodesPatience:
		return errNodesAwaited
	}
	return errNodesUnreadable
}

func (w *nodeWatch) begin() (time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		if err := w.controller.Watch(source.Kind[client.Object](w.cache, nodeMetadata(), w.handler)); err != nil {
			return time.Time{}, fmt.Errorf("watching nodes: %w", err)
		}
		w.since = time.Now()
	}
	return w.since, nil
}

// resolve is the plan's set of node names, sorted, each once.
func (r *Reconciler) resolve(ctx context.Context, plan *v1alpha1.KMSRotationPlan) ([]string, error) {
	if plan.Spec.Nodes.Selector == nil {
		return slices.Compact(slices.Sorted(slices.Values(plan.Spec.Nodes.Names))), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(plan.Spec.Nodes.Selector)
	if err != nil {
		return nil, &selectorError{err}
	}
	if err := r.nodes.ready(ctx); err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NodeList"})
	if err := r.client.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading nodes from the cache: %w", err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}

// nodeEvents asks for the plans whose selector a Node begins or ceases to match.
func (r *Reconciler) nodeEvents() handler.EventHandler {
	ask := func(ctx context.Context, q queue, was, is labels.Set) {
		plans := &v1alpha1.KMSRotationPlanList{}
		if err := r.client.List(ctx, plans, client.UnsafeDisableDeepCopy); err != nil { // of a cache: only while it stops
			log.FromContext(ctx).Error(err, "plans cannot be read from the cache")
			return
		}
		for i := range plans.Items {
			if selects(&plans.Items[i], was) != selects(&plans.Items[i], is) {
				enqueue(q, plans.Items[i].Name)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			ask(ctx, q, nil, labelsOf(e.Object))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			ask(ctx, q, labelsOf(e.Object), nil)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			was, is := labelsOf(e.ObjectOld), labelsOf(e.ObjectNew)
			if !maps.Equal(was, is) {
				ask(ctx, q, was, is)
			}
		},
	}
}

// labelsOf is never nil, which stands for a Node that is not there.
func labelsOf(o client.Object) labels.Set {
	if set := o.GetLabels(); set != nil {
		return set
	}
	return labels.Set{}
}

func selects(plan *v1alpha1.KMSRotationPlan, node labels.Set) bool {
	if plan.Spec.Nodes.Selector == nil || node == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(plan.Spec.Nodes.Selector)
	return err == nil && selector.Matches(node)
}
