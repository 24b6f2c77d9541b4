package reporter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// TestIdle: one write per heartbeat, never two heartbeats apart by more than its
// length, and no other call; every look moves the report's times.
func TestIdle(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		w.run()
		o := w.reachable(metav1.ConditionTrue, "Answering")
		if o.Spec.ProviderName != "openbao-kms-workload-a" || o.Status.Report.Registry.Generation != 7 {
			t.Errorf("report %+v", o)
		}
		if c, a := w.count("create"), w.count("apply"); c != 1 || a != 1 {
			t.Errorf("%d creations and %d writes at the start, want one each", c, a)
		}
		w.count("get")
		w.count("list")
		looks := w.p.count("/v1/report")
		for range 60 * 60 {
			w.pass(time.Second)
			if age := time.Since(w.object().Status.ObservedAt.Time); age > DefaultHeartbeat+time.Second {
				t.Fatalf("the report is %s old", age)
			}
		}
		// A heartbeat is 108 to 120 seconds, an interval 24 to 30 or what is left of a
		// heartbeat.
		if n := w.count("apply"); n < 30 || n > 33 {
			t.Errorf("%d writes in an idle hour", n)
		}
		if n := w.p.count("/v1/report") - looks; n < 120 || n > 180 {
			t.Errorf("%d looks in an hour", n)
		}
		if n := w.count("get"); n != 60*60 {
			t.Errorf("the reporter read its object %d times", n-60*60)
		}
		if n := w.count("create") + w.count("list"); n != 0 {
			t.Errorf("%d other calls", n)
		}
		if err := w.running.Ready(); err != nil {
			t.Error(err)
		}
	})
}

// TestChange: a change is written at the next look, once.
func TestChange(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		w.run()
		w.count("apply")
		for generation := uint64(8); generation < 20; generation++ {
			w.p.change(func(r *report.NodeReport) { r.Registry.Generation = generation })
			w.pass(DefaultInterval)
			if got := w.object().Status.Report.Registry.Generation; got != generation {
				t.Fatalf("generation %d, want %d", got, generation)
			}
		}
		if n := w.count("apply"); n != 12 {
			t.Errorf("%d writes of 12 changes", n)
		}
	})
}

// TestProviderDownAndBack: the last report and its time stay while the provider is
// down, the fall is written at once and once, and so is its return.
func TestProviderDownAndBack(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		w.run()
		w.pass(time.Minute)
		up := w.object()
		w.count("apply")
		w.p.stop()
		w.pass(DefaultInterval)
		down := w.reachable(metav1.ConditionFalse, "SocketMissing")
		fell := down.Status.Conditions[0].LastTransitionTime
		w.pass(time.Hour)
		later := w.reachable(metav1.ConditionFalse, "SocketMissing")
		for _, o := range []*v1alpha1.KMSNodeReport{down, later} {
			if !o.Status.ObservedAt.Equal(up.Status.ObservedAt) || o.Status.Report.GeneratedAt != up.Status.Report.GeneratedAt {
				t.Errorf("down, it is told as seen at %s, was %s", o.Status.ObservedAt, up.Status.ObservedAt)
			}
			if !o.Status.Conditions[0].LastTransitionTime.Equal(&fell) {
				t.Error("the condition's transition moves while nothing changes")
			}
		}
		if n := w.count("apply"); n < 31 || n > 35 {
			t.Errorf("%d writes in an hour without a provider", n)
		}
		if err := w.running.Ready(); err != nil {
			t.Errorf("a reporter that says that its provider is down is not ready: %v", err)
		}
		w.p.start(t)
		w.pass(DefaultInterval)
		back := w.reachable(metav1.ConditionTrue, "Answering")
		if age := time.Since(back.Status.ObservedAt.Time); age > DefaultInterval+time.Second {
			t.Errorf("back, the report is %s old", age)
		}
		w.logged("msg=provider.unreachable", 1)
		w.logged("msg=provider.reachable", 1)
	})
}

// TestNoProviderYet: without a provider's name there is no report to make; it is
// made as soon as one answers.
func TestNoProviderYet(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		w.p.stop()
		w.run()
		w.pass(10 * time.Minute)
		if o := w.object(); o != nil {
			t.Fatalf("a report of nobody: %+v", o)
		}
		if err := w.running.Ready(); err == nil || !strings.Contains(err.Error(), "no report socket at") {
			t.Errorf("ready: %v", err)
		}
		w.p.start(t)
		w.pass(DefaultInterval)
		w.reachable(metav1.ConditionTrue, "Answering")
		if err := w.running.Ready(); err != nil {
			t.Error(err)
		}
		w.logged("msg=report.unwritten", 1)
	})
}

// TestOtherProvider: the report of one provider never becomes another's, until
// somebody removes it.
func TestOtherProvider(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		for _, p := range []*v1alpha1.KMSRotationPlan{planFor("a", "openbao-kms-workload-a", 3, node), planFor("b", "openbao-kms-b", 5, node)} {
			if err := w.client.Create(context.Background(), p); err != nil {
				t.Fatal(err)
			}
		}
		w.run()
		first := w.object()
		if p := first.Status.RetirementPlans; len(p) != 1 || p[0].BeforeVersion != 3 {
			t.Errorf("plans %+v", p)
		}
		w.p.change(func(r *report.NodeReport) { r.Provider.Name, r.Registry.Generation = "openbao-kms-b", 99 })
		w.pass(DefaultInterval)
		o := w.reachable(metav1.ConditionFalse, "OtherProvider")
		if o.Spec.ProviderName != "openbao-kms-workload-a" || o.Status.Report.Registry.Generation != 7 || !o.Status.ObservedAt.Equal(first.Status.ObservedAt) {
			t.Errorf("overwritten: %+v", o)
		}
		if err := w.client.Delete(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		w.pass(DefaultHeartbeat + DefaultInterval)
		o = w.reachable(metav1.ConditionTrue, "Answering")
		if o.Spec.ProviderName != "openbao-kms-b" || o.Status.Report.Registry.Generation != 99 || o.UID == first.UID {
			t.Errorf("made anew: %+v", o)
		}
		// The plans of the new one are followed, and of the old one no more.
		if p := o.Status.RetirementPlans; len(p) != 1 || p[0].BeforeVersion != 5 {
			t.Errorf("plans %+v", p)
		}
	})
}

// TestPlansAreAnswered: a plan is answered at once and its entry goes with it; a
// plan's status is no reason to look.
func TestPlansAreAnswered(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		w.run()
		ctx := context.Background()
		versions := func() (all []int32) {
			t.Helper()
			for _, p := range w.object().Status.RetirementPlans {
				if p.Problem != nil || p.Plan.BeforeVersion != int(p.BeforeVersion) {
					t.Errorf("entry %+v", p)
				}
				all = append(all, p.BeforeVersion)
			}
			return all
		}
		step := func(what string, do error, want ...int32) {
			t.Helper()
			if do != nil {
				t.Fatalf("%s: %v", what, do)
			}
			w.pass(time.Second)
			if got := versions(); !slices.Equal(got, want) {
				t.Errorf("%s: %v answered, want %v", what, got, want)
			}
		}
		mine := planFor("a", "openbao-kms-workload-a", 3, node)
		step("a plan", w.client.Create(ctx, mine), 3)
		step("another's", w.client.Create(ctx, planFor("b", "openbao-kms-b", 4, node)), 3)
		step("a selector", w.client.Create(ctx, planFor("c", "openbao-kms-workload-a", 2)), 2, 3)
		mine.Spec.Retirement.BeforeVersion, mine.Generation = 5, 2
		step("changed", w.client.Update(ctx, mine), 2, 5)
		looks := w.p.count("/v1/report")
		mine.Status.Phase = v1alpha1.Settling
		step("its status", w.client.Status().Update(ctx, mine), 2, 5)
		if n := w.p.count("/v1/report") - looks; n != 0 {
			t.Errorf("a plan's status made %d looks", n)
		}
		step("removed", w.client.Delete(ctx, mine), 2)
		w.p.stop()
		w.pass(DefaultInterval)
		if err := w.client.Create(ctx, planFor("d", "openbao-kms-workload-a", 7, node)); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		o := w.reachable(metav1.ConditionFalse, "SocketMissing")
		if p := o.Status.RetirementPlans; len(p) != 2 || p[0].Plan == nil || p[1].BeforeVersion != 7 || p[1].Problem.Reason != "provider_unreachable" {
			t.Errorf("without a provider: %+v", p)
		}
	})
}

// TestPlansUnknown: while plans cannot be read, the report goes on and answers
// what it answered before; the log says it once.
func TestPlansUnknown(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		if err := w.client.Create(context.Background(), planFor("a", "openbao-kms-workload-a", 3, node)); err != nil {
			t.Fatal(err)
		}
		w.run()
		w.stop()
		w.misbehave(func(verb string) error {
			if verb == "list" {
				return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("kmsrotationplans").GroupResource(), "", errors.New("no"))
			}
			return nil
		}, nil)
		w.run()
		w.p.change(func(r *report.NodeReport) { r.Registry.Generation = 8 })
		w.pass(10 * time.Minute)
		o := w.reachable(metav1.ConditionTrue, "Answering")
		if p := o.Status.RetirementPlans; len(p) != 1 || p[0].BeforeVersion != 3 || p[0].Plan.NextGeneration != 8 {
			t.Errorf("plans %+v", p)
		}
		w.logged("msg=plans.unavailable", 1)
		w.misbehave(nil, nil)
		w.pass(2 * time.Minute)
		w.logged("msg=plans.available", 1)
	})
}
