package reporter

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
)

// mostAsked is how many versions a report may answer, the bound of
// status.retirementPlans.
const mostAsked = 256

// question is what one plan wants of this node.
type question struct {
	provider string
	before   int32
	// named is false for a plan with a selector.
	named bool
	// generation tells one spec of the plan from the next.
	generation int64
}

// plans are the questions of all plans of a provider, kept by the one reflector that
// writes them. Of a plan nothing else is kept: its status may be large and changes often.
type plans struct {
	node string
	// changed has a token after a change that concerns the node.
	changed chan struct{}

	mu sync.Mutex
	// synced is set once all plans have been read.
	synced    bool
	questions map[types.UID]question
}

func newPlans(node string) *plans {
	return &plans{node: node, changed: make(chan struct{}, 1), questions: map[types.UID]question{}}
}

// asked are the versions that plans of a provider ask of the node, ascending, and
// how many more there are than a report can answer: those that name the node come
// first. known is false until the plans have been read.
func (p *plans) asked(provider string) (versions []int32, left int, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	named, selected := []int32{}, []int32{}
	for _, q := range p.questions {
		switch {
		case q.provider != provider:
		case q.named:
			named = append(named, q.before)
		default:
			selected = append(selected, q.before)
		}
	}
	slices.Sort(named)
	slices.Sort(selected)
	for _, v := range append(named, selected...) {
		switch {
		case slices.Contains(versions, v):
		case len(versions) == mostAsked:
			left++
		default:
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	return versions, left, p.synced
}

// questionOf is what a plan wants of the node; false when nothing.
func (p *plans) questionOf(plan *v1alpha1.KMSRotationPlan) (question, bool) {
	named := slices.Contains(plan.Spec.Nodes.Names, p.node)
	if plan.Spec.Retirement == nil || !named && plan.Spec.Nodes.Selector == nil {
		return question{}, false
	}
	return question{plan.Spec.ProviderName, plan.Spec.Retirement.BeforeVersion, named, plan.Generation}, true
}

// keep takes a plan over and reports whether that changed anything for the node.
// The caller holds mu.
func (p *plans) keep(plan *v1alpha1.KMSRotationPlan) bool {
	old, had := p.questions[plan.UID]
	q, has := p.questionOf(plan)
	if has {
		p.questions[plan.UID] = q
	} else {
		delete(p.questions, plan.UID)
	}
	return had != has || old != q
}

func (p *plans) wake(changed bool) {
	if !changed {
		return
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Add takes a new plan over, for the reflector.
func (p *plans) Add(obj any) error { return p.Update(obj) }

// Update takes a changed plan over, for the reflector.
func (p *plans) Update(obj any) error {
	plan, ok := obj.(*v1alpha1.KMSRotationPlan)
	if !ok {
		return fmt.Errorf("node reporter: the watch of plans told of a %T", obj)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake(p.keep(plan))
	return nil
}

// Delete forgets a plan, for the reflector.
func (p *plans) Delete(obj any) error {
	plan, ok := obj.(*v1alpha1.KMSRotationPlan)
	if !ok {
		return fmt.Errorf("node reporter: the watch of plans told of a %T", obj)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, had := p.questions[plan.UID]
	delete(p.questions, plan.UID)
	p.wake(had)
	return nil
}

// Replace takes the list of all plans over, for the reflector.
func (p *plans) Replace(all []any, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := !p.synced
	gone := p.questions
	p.questions = map[types.UID]question{}
	for _, obj := range all {
		plan, ok := obj.(*v1alpha1.KMSRotationPlan)
		if !ok {
			return fmt.Errorf("node reporter: the list of plans has a %T", obj)
		}
		if old, had := gone[plan.UID]; had {
			p.questions[plan.UID] = old
			delete(gone, plan.UID)
		}
		changed = p.keep(plan) || changed
	}
	p.synced = true
	p.wake(changed || len(gone) > 0)
	return nil
}

// forget forgets all plans, between two reflectors.
func (p *plans) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced, p.questions = false, map[types.UID]question{}
}

// Resync has nothing to do, for the reflector.
func (p *plans) Resync() error { return nil }

// watch keeps the plans of a provider until ctx ends. Failures are logged and retried with a
// growing delay; the questions known until then stay.
func (p *plans) watch(ctx context.Context, c client.WithWatch, provider string, logger *slog.Logger) {
	// What the reflector meets is logged by the source, once each.
	quiet := klog.Logger(logr.Discard())
	source := &planSource{client: c, logger: logger, selector: fields.OneTermEqualSelector(providerField, provider)}
	r := cache.NewReflectorWithOptions(source, &v1alpha1.KMSRotationPlan{}, p, cache.ReflectorOptions{Name: "plans", Logger: &quiet})
	r.RunWithContext(klog.NewContext(ctx, quiet))
}

// providerField is the field of a plan that the API server selects by.
const providerField = "spec.providerName"

// planSource lists and watches the plans that the selector chooses, for the one
// goroutine of a reflector.
type planSource struct {
	client client.WithWatch
	logger *slog.Logger

	selector fields.Selector
	// failure is what was last logged, empty while nothing fails.
	failure string
}

// IsWatchListSemanticsUnSupported chooses a list and then a watch over a watch
// that begins with all objects: older API servers know only that, and plans are few.
func (*planSource) IsWatchListSemanticsUnSupported() bool { return true }

// List is ListWithContext without one; the reflector does not call it.
func (s *planSource) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext without one; the reflector does not call it.
func (s *planSource) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

func (s *planSource) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list := &v1alpha1.KMSRotationPlanList{}
	err := s.client.List(bounded, list, &client.ListOptions{Raw: &o, Limit: o.Limit, Continue: o.Continue, FieldSelector: s.selector})
	if err != nil {
		s.failed(ctx, err)
	}
	return list, err
}

func (s *planSource) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := s.client.Watch(ctx, &v1alpha1.KMSRotationPlanList{}, &client.ListOptions{Raw: &o, FieldSelector: s.selector})
	if err != nil {
		s.failed(ctx, err)
		return nil, err
	}
	if s.failure != "" {
		s.failure = ""
		s.logger.Info("plans.available")
	}
	return w, nil
}

// failed logs a failure when it starts and when it changes.
func (s *planSource) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || s.failure == err.Error() {
		return
	}
	s.failure = err.Error()
	s.logger.Warn("plans.unavailable", "error", s.failure,
		"next_step", "the plans that were last read go on being answered; check the API server, that config/crd of this release is applied, and the reporter's rights on kmsrotationplans")
}
