package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
)

// history is what became of a plan's status, write by write, told by a watch of its
// own. Events are held against it.
type history struct {
	f    *fleet
	plan string

	mu sync.Mutex
	// phases are those that the plan went through; told are the changes of
	// conditions, counted by what their Events are called.
	phases []v1alpha1.Phase
	told   map[string]int
	last   []metav1.Condition
}

// follow keeps the history of a plan until the test ends.
func (f *fleet) follow(plan string) *history {
	f.t.Helper()
	h := &history{f: f, plan: plan, told: map[string]int{}}
	ctx, end := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for {
			// The watch ends when the API server does; what was missed is what the list
			// says then.
			h.watch(ctx)
			select {
			case <-ctx.Done():
				return
			case <-again.C:
			}
		}
	})
	f.t.Cleanup(func() { end(); running.Wait() })
	return h
}

func (h *history) watch(ctx context.Context) {
	only := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", h.plan)}
	list := &v1alpha1.KMSRotationPlanList{}
	if err := h.f.client.List(ctx, list, only); err != nil {
		return
	}
	for _, p := range list.Items {
		h.saw(&p)
	}
	w, err := h.f.client.Watch(ctx, list, only, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*v1alpha1.KMSRotationPlan); ok {
			h.saw(p)
		}
	}
}

// saw takes one state of the plan in. A condition that is new and not True has not
// changed: a new plan says of everything that it is not so yet.
func (h *history) saw(p *v1alpha1.KMSRotationPlan) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.phases); p.Status.Phase != "" && (n == 0 || h.phases[n-1] != p.Status.Phase) {
		h.phases = append(h.phases, p.Status.Phase)
	}
	for _, c := range p.Status.Conditions {
		was := meta.FindStatusCondition(h.last, c.Type)
		if was == nil && c.Status != metav1.ConditionTrue || was != nil && was.Status == c.Status {
			continue
		}
		event := c.Type
		if c.Status != metav1.ConditionTrue {
			event += string(c.Status)
		}
		h.told[event]++
	}
	h.last = p.Status.Conditions
}

// wentThrough holds the phases so far against those that are wanted, in order.
func (h *history) wentThrough(want ...v1alpha1.Phase) {
	h.f.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.phases, want) {
		h.f.t.Errorf("the plan went through\n%q, want\n%q", h.phases, want)
	}
}

// events are the Events about the plan.
func (h *history) events() ([]eventsv1.Event, error) {
	list, err := h.f.api.client().EventsV1().Events("default").List(h.f.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
		return e.Regarding.Kind != "KMSRotationPlan" || e.Regarding.Name != h.plan
	}), nil
}

// eventsTellEachChangeOnce: there is an Event for every change of a condition, and
// none twice. Those of one kind are a series, whose third and later ones the API
// server is told some minutes later.
func (h *history) eventsTellEachChangeOnce() {
	h.f.t.Helper()
	eventually(h.f.t, "the Events tell each change of a condition once", func() error {
		events, err := h.events()
		if err != nil {
			return err
		}
		found := map[string]int{}
		for _, e := range events {
			found[e.Reason]++
			if e.Series != nil {
				found[e.Reason] += int(e.Series.Count) - 1
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(found) != len(h.told) {
			return fmt.Errorf("Events are %v, what changed is %v", found, h.told)
		}
		for kind, changes := range h.told {
			if n := found[kind]; n > changes || n < min(changes, 2) {
				return fmt.Errorf("there are %d Events %s, and %d changes", n, kind, changes)
			}
		}
		return nil
	})
}
