package reporter

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// once makes something happen at the first call of a verb.
func once(verb string, do func() error) func(string) error {
	done := false
	return func(v string) error {
		if v != verb || done {
			return nil
		}
		done = true
		return do()
	}
}

// TestConflicts: whatever somebody else does between a read and a write, nothing
// is lost and nothing is written over unseen: the object is read again.
func TestConflicts(t *testing.T) {
	ctx := context.Background()
	foreign := func(w *world) error {
		o := w.object()
		o.Labels = map[string]string{"who": "somebody"}
		return w.client.Update(ctx, o)
	}
	otherProvider := func(w *world) error {
		return w.client.Create(ctx, &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: v1alpha1.KMSNodeReportSpec{ProviderName: "other"}})
	}
	cases := []struct {
		name string
		// before runs in front of the first call of verb.
		verb   string
		before func(w *world) error
		reason string
		check  func(t *testing.T, o *v1alpha1.KMSNodeReport)
	}{
		{"changed before the first status", "apply", foreign, "Answering", func(t *testing.T, o *v1alpha1.KMSNodeReport) {
			if o.Labels["who"] != "somebody" {
				t.Errorf("the other change is lost: %v", o.Labels)
			}
		}},
		{"removed before the first status", "apply", func(w *world) error { return w.client.Delete(ctx, w.object()) }, "Answering", nil},
		{"removed and made by another", "apply", func(w *world) error {
			if err := w.client.Delete(ctx, w.object()); err != nil {
				return err
			}
			return otherProvider(w)
		}, "OtherProvider", func(t *testing.T, o *v1alpha1.KMSNodeReport) {
			if o.Spec.ProviderName != "other" || o.Status.Report != nil {
				t.Errorf("another's object is filled: %+v", o)
			}
		}},
		{"made by another at the same time", "create", otherProvider, "OtherProvider", func(t *testing.T, o *v1alpha1.KMSNodeReport) {
			if o.Spec.ProviderName != "other" || o.Status.Report != nil {
				t.Errorf("another's object is filled: %+v", o)
			}
		}},
		{"made by this one's twin", "create", func(w *world) error {
			return w.client.Create(ctx, &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: v1alpha1.KMSNodeReportSpec{ProviderName: "openbao-kms-workload-a"}})
		}, "Answering", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, func(t *testing.T, w *world) {
				happened := false
				w.misbehave(func(verb string) error {
					if verb != c.verb || happened {
						return nil
					}
					happened = true
					return c.before(w)
				}, nil)
				w.run()
				if !happened {
					t.Fatal("nothing came between")
				}
				status := metav1.ConditionTrue
				if c.reason != "Answering" {
					status = metav1.ConditionFalse
				}
				o := w.reachable(status, c.reason)
				if c.check != nil {
					c.check(t, o)
				} else if o.Status.Report == nil || o.Spec.ProviderName != "openbao-kms-workload-a" {
					t.Errorf("report %+v", o)
				}
				if err := w.running.Ready(); err != nil {
					t.Error(err)
				}
				w.logged("msg=report.unwritten", 0)
			})
		})
	}
}

// TestKindIsNotThere: without the CRDs the reporter says what to do, once, and goes
// on when they come.
func TestKindIsNotThere(t *testing.T) {
	for name, missing := range map[string]error{
		"the server knows no such path": apierrors.NewGenericServerResponse(http.StatusNotFound, "post", schema.GroupResource{Resource: "kmsnodereports"}, "", "404 page not found", 0, true),
		"discovery knows no such kind":  &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "kms.baokms.io", Kind: "KMSNodeReport"}},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, w *world) {
				w.misbehave(func(string) error { return missing }, nil)
				w.run()
				w.pass(10 * time.Minute)
				if err := w.running.Ready(); err == nil || !strings.Contains(err.Error(), "does not know the kind KMSNodeReport: apply config/crd") {
					t.Errorf("ready: %v", err)
				}
				w.logged("apply config/crd of this release", 1)
				w.misbehave(nil, nil)
				w.pass(time.Minute)
				w.reachable(metav1.ConditionTrue, "Answering")
			})
		})
	}
}

// TestEndlessConflict: a fight is no hot loop.
func TestEndlessConflict(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		w.misbehave(func(verb string) error {
			if verb == "apply" {
				return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("kmsnodereports").GroupResource(), node, errors.New("again"))
			}
			return nil
		}, nil)
		w.run()
		w.pass(10 * time.Minute)
		if n := w.count("apply"); n > 40*tries {
			t.Errorf("%d attempts in ten minutes", n)
		}
		if err := w.running.Ready(); err == nil || !strings.Contains(err.Error(), "by somebody else meanwhile") {
			t.Errorf("ready: %v", err)
		}
	})
}

// TestAPIServerDown: attempts get rarer, the failure is logged once, and what has
// changed meanwhile is written when it is back.
func TestAPIServerDown(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		w.run()
		w.count("get")
		down := func(string) error { return errors.New("connection refused") }
		w.misbehave(down, nil)
		w.p.change(func(r *report.NodeReport) { r.Registry.Generation = 8 })
		w.pass(time.Hour)
		if n := w.count("get"); n < 100 || n > 260 {
			t.Errorf("%d attempts in an hour", n)
		}
		if err := w.running.Ready(); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("ready: %v", err)
		}
		w.misbehave(nil, nil)
		w.pass(DefaultInterval)
		if o := w.reachable(metav1.ConditionTrue, "Answering"); o.Status.Report.Registry.Generation != 8 {
			t.Errorf("generation %d", o.Status.Report.Registry.Generation)
		}
		if err := w.running.Ready(); err != nil {
			t.Error(err)
		}
	})
}

// TestAnswerLost: a write of which nothing is heard is looked at, and not made
// twice.
func TestAnswerLost(t *testing.T) {
	for _, verb := range []string{"create", "apply"} {
		t.Run(verb, func(t *testing.T) {
			simulate(t, func(t *testing.T, w *world) {
				w.misbehave(nil, once(verb, func() error { return context.DeadlineExceeded }))
				w.run()
				w.pass(DefaultInterval)
				w.reachable(metav1.ConditionTrue, "Answering")
				if c, a := w.count("create"), w.count("apply"); c != 1 || a != 1 {
					t.Errorf("%d creations and %d writes, want one each", c, a)
				}
				w.logged("msg=report.unwritten", 1)
				w.logged("msg=report.current", 1)
			})
		})
	}
}

// TestRestartAtEveryStep: a reporter that ends before or after any call leaves
// what its successor goes on from, and one that ends at rest leaves nothing to do.
func TestRestartAtEveryStep(t *testing.T) {
	for _, verb := range []string{"get", "create", "apply", "list"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+verb, func(t *testing.T) {
				simulate(t, func(t *testing.T, w *world) {
					ended := make(chan struct{})
					end := once(verb, func() error {
						close(ended)
						return context.Canceled
					})
					if when == "before" {
						w.misbehave(end, nil)
					} else {
						w.misbehave(nil, end)
					}
					go func() {
						<-ended
						w.misbehave(nil, nil)
					}()
					w.run()
					w.stop()
					w.run()
					o := w.reachable(metav1.ConditionTrue, "Answering")
					if o.Spec.ProviderName != "openbao-kms-workload-a" || o.Status.Report.Registry.Generation != 7 {
						t.Errorf("report %+v", o)
					}
					w.count("apply")
					for range 3 {
						w.stop()
						w.run()
					}
					if n := w.count("apply"); n != 0 {
						t.Errorf("%d writes of three restarts while nothing changed", n)
					}
					w.stop()
					w.p.change(func(r *report.NodeReport) { r.Registry.Generation = 8 })
					w.run()
					if o := w.object(); o.Status.Report.Registry.Generation != 8 {
						t.Errorf("generation %d after the last restart", o.Status.Report.Registry.Generation)
					}
				})
			})
		}
	}
}

// TestEndsWhileItWaits: neither a provider nor an API server that hangs holds up
// the end.
func TestEndsWhileItWaits(t *testing.T) {
	t.Run("provider", func(t *testing.T) {
		stalled := make(chan struct{})
		t.Cleanup(func() { close(stalled) })
		p := newProvider(t, healthy(t))
		asked := make(chan struct{}, 1)
		p.answers(func(http.ResponseWriter, *http.Request) {
			asked <- struct{}{}
			<-stalled
		})
		s := newSocket(p.path)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan observation, 1)
		go func() { done <- s.observe(ctx, func(*report.NodeReport) []int32 { return nil }) }()
		<-asked
		cancel()
		select {
		case o := <-done:
			if o.report != nil || o.silence == nil {
				t.Errorf("observed %+v", o)
			}
		case <-time.After(askTimeout):
			t.Error("it waits for the provider")
		}
	})
	t.Run("API server", func(t *testing.T) {
		simulate(t, func(t *testing.T, w *world) {
			w.run()
			w.stop()
			w.hang("get")
			w.run()
			begin := time.Now()
			w.stop()
			if d := time.Since(begin); d != 0 {
				t.Errorf("it ended after %s", d)
			}
			w.hang("get")
			w.run()
			w.pass(callTimeout)
			if err := w.running.Ready(); err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
				t.Errorf("ready: %v", err)
			}
		})
	})
}

// TestTwins: two reporters of one node, as in a rollout that overlaps, end with
// the writes of one.
func TestTwins(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		w.run()
		endFirst := w.end
		w.run()
		w.pass(time.Minute)
		w.count("apply")
		w.pass(time.Hour)
		// Each heartbeat is written by the one that is due first; the other finds out
		// by a conflict.
		if n := w.count("apply"); n > 2*33 {
			t.Errorf("%d attempts to write in an hour", n)
		}
		w.reachable(metav1.ConditionTrue, "Answering")
		w.logged("msg=report.unwritten", 0)
		endFirst()
	})
}
