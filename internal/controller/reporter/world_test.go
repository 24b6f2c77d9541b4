package reporter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/baokms/baokms/api/v1alpha1"
)

const node = "cp-1"

// world is a reporter under test inside a synctest bubble: a fake API server that
// counts and can misbehave, and a provider outside the bubble.
type world struct {
	t      *testing.T
	p      *provider
	client client.WithWatch
	log    *safeBuffer

	mu sync.Mutex
	// calls are the calls of the API server, by verb.
	calls map[string]int
	// before runs before a call of a verb and may fail it; after replaces what the
	// caller hears of it.
	before, after func(verb string) error
	// hanging is a verb that is never answered.
	hanging string
	running *Reporter
	end     func()
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func init() {
	// The handlers of errors in client-go space them by a clock that all bubbles
	// and the world outside would share.
	utilruntime.ErrorHandlers = nil
}

// simulate runs a story in synthetic time. The provider answers from outside.
func simulate(t *testing.T, story func(t *testing.T, w *world)) {
	t.Helper()
	p := newProvider(t, healthy(t))
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, p: p, log: &safeBuffer{}, calls: map[string]int{}}
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		// Managed fields cannot hold a uint64 of a Go type, which a CRD's can: this
		// tracker has none.
		tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
		base := fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithStatusSubresource(&v1alpha1.KMSNodeReport{}, &v1alpha1.KMSRotationPlan{}).
			WithIndex(&v1alpha1.KMSRotationPlan{}, providerField, func(o client.Object) []string {
				return []string{o.(*v1alpha1.KMSRotationPlan).Spec.ProviderName}
			}).Build()
		w.client = interceptor.NewClient(base, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				return w.call(ctx, "get", func() error { return c.Get(ctx, key, obj, opts...) })
			},
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				return w.call(ctx, "create", func() error {
					if obj.GetUID() == "" {
						obj.SetUID(uuid.NewUUID())
					}
					return c.Create(ctx, obj, opts...)
				})
			},
			SubResourceApply: func(ctx context.Context, _ client.Client, _ string, obj runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
				return w.call(ctx, "apply", func() error { return apply(ctx, base, obj) })
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				return w.call(ctx, "list", func() error { return c.List(ctx, l, opts...) })
			},
		})
		story(t, w)
		w.stop()
	})
}

// apply is server-side apply for a status that has one owner. The real
// one is in test/manager.
func apply(ctx context.Context, c client.Client, obj runtime.ApplyConfiguration) error {
	doc, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	sent, now := &v1alpha1.KMSNodeReport{}, &v1alpha1.KMSNodeReport{}
	if err := json.Unmarshal(doc, sent); err != nil {
		return err
	}
	resource := v1alpha1.GroupVersion.WithResource("kmsnodereports").GroupResource()
	if err := c.Get(ctx, client.ObjectKeyFromObject(sent), now); err != nil {
		return err
	}
	if sent.ResourceVersion != now.ResourceVersion || sent.UID != now.UID || sent.ResourceVersion == "" {
		return apierrors.NewConflict(resource, sent.Name, errors.New("it was modified"))
	}
	now.Status = sent.Status
	if err := c.Status().Update(ctx, now); err != nil {
		return err
	}
	now.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("KMSNodeReport"))
	if doc, err = json.Marshal(now); err != nil {
		return err
	}
	return json.Unmarshal(doc, obj)
}

func (w *world) call(ctx context.Context, verb string, do func() error) error {
	w.mu.Lock()
	w.calls[verb]++
	before, after, hanging := w.before, w.after, w.hanging
	w.mu.Unlock()
	if verb == hanging {
		<-ctx.Done()
		return ctx.Err()
	}
	if before != nil {
		if err := before(verb); err != nil {
			return err
		}
	}
	err := do()
	if after != nil && err == nil {
		err = after(verb)
	}
	return err
}

// misbehave sets what happens before and after each call.
func (w *world) misbehave(before, after func(verb string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

// hang makes the API server answer no call of a verb any more.
func (w *world) hang(verb string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hanging = verb
}

// count is how often a verb was called since the last time.
func (w *world) count(verb string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.calls[verb]
	w.calls[verb] = 0
	return n
}

// run starts a reporter that ends with stop, and lets it come to rest.
func (w *world) run() {
	w.t.Helper()
	r, err := New(Options{Node: node, Socket: w.p.path, Client: w.client,
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	w.running = r
	w.end = func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				w.t.Errorf("it ended with %v", err)
			}
		case <-time.After(time.Minute):
			w.t.Error("it does not end")
		}
	}
	w.pass(time.Second)
}

func (w *world) stop() {
	if w.end != nil {
		w.end()
		w.end = nil
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// object is the report as the API server has it; nil for none.
func (w *world) object() *v1alpha1.KMSNodeReport {
	w.t.Helper()
	o, err := object{w.client, node}.read(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// reachable fails the test unless the condition is as given, and returns the object.
func (w *world) reachable(status metav1.ConditionStatus, reason string) *v1alpha1.KMSNodeReport {
	w.t.Helper()
	o := w.object()
	if o == nil || len(o.Status.Conditions) != 1 {
		w.t.Fatalf("report %+v\n%s", o, w.log)
	}
	if c := o.Status.Conditions[0]; c.Type != v1alpha1.ConditionProviderReachable || c.Status != status || c.Reason != reason {
		w.t.Fatalf("condition %+v, want %s %s\n%s", c, status, reason, w.log)
	}
	return o
}

func (w *world) logged(words string, want int) {
	w.t.Helper()
	if n := strings.Count(w.log.String(), words); n != want {
		w.t.Errorf("the log has %q %d times, want %d:\n%s", words, n, want, w.log)
	}
}
