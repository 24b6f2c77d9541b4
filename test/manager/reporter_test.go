package manager

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// TestReporterReportsItsNode: a reporter with the rights of config/ and the token
// of its pod, from the first report over a plan to the provider's fall and return.
func TestReporterReportsItsNode(t *testing.T) {
	t.Parallel()
	applyReporterRights(t)
	provider, node := name(t, "provider"), name(t, "cp-1")
	s := newReportSocket(t, provider)
	r := runReporter(t, node, s, reporterOn(t, node))
	o := reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
		reachable(g, o, metav1.ConditionTrue, "Answering")
	})
	want := decoded[report.NodeReport](t, "node-healthy.json")
	if o.Spec.ProviderName != provider || o.Status.Report.Registry.StateHash != want.Registry.StateHash || *o.Status.Report.ActiveKey != *want.ActiveKey ||
		len(o.Status.Report.Snapshots) != len(want.Snapshots) || len(o.Status.RetirementPlans) != 0 {
		t.Errorf("report %+v", o)
	}
	owned := false
	for _, m := range o.ManagedFields {
		if m.Manager != "bao-kms-node-reporter" {
			t.Errorf("%s owns fields, too", m.Manager)
		}
		owned = owned || m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "status"
	}
	if !owned {
		t.Errorf("the status is not applied: %+v", o.ManagedFields)
	}

	plan := create(t, &v1alpha1.KMSRotationPlan{
		ObjectMeta: metav1.ObjectMeta{Name: name(t, "plan")},
		Spec: v1alpha1.KMSRotationPlanSpec{ProviderName: provider, Nodes: v1alpha1.NodeSet{Names: []string{node}},
			Retirement: &v1alpha1.Retirement{BeforeVersion: 2}},
	})
	answers := func(before int32) {
		t.Helper()
		reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
			g.Expect(o.Status.RetirementPlans).To(gomega.HaveLen(1))
			p := o.Status.RetirementPlans[0]
			g.Expect(p.BeforeVersion).To(gomega.Equal(before))
			g.Expect(p.Plan.StateHash).To(gomega.Equal(o.Status.Report.Registry.StateHash))
		})
	}
	answers(2)
	read(t, plan).Spec.Retirement.BeforeVersion = 3
	if err := env.client.Update(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	answers(3)
	if err := env.client.Delete(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
		g.Expect(o.Status.RetirementPlans).To(gomega.BeEmpty())
	})

	s.stop()
	down := reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
		reachable(g, o, metav1.ConditionFalse, "SocketMissing")
	})
	if down.Status.Report == nil || down.Status.ObservedAt == nil || !strings.Contains(down.Status.Conditions[0].Message, s.path) {
		t.Errorf("without a provider: %+v", down.Status)
	}
	s.change(func(r *report.NodeReport) { r.Registry.Generation = 8 })
	s.start(t)
	reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
		reachable(g, o, metav1.ConditionTrue, "Answering")
		g.Expect(o.Status.Report.Registry.Generation).To(gomega.Equal(uint64(8)))
	})
	for _, line := range r.log.warnings() {
		if !strings.Contains(line, "msg=provider.unreachable") {
			t.Errorf("it warns: %s", line)
		}
	}
	if err := r.Ready(); err != nil {
		t.Error(err)
	}
}

// TestReporterIsQuiet: of an idle node the API server stores one version per
// heartbeat, although the times in the report move at every look; while the
// provider is down it stores none.
func TestReporterIsQuiet(t *testing.T) {
	t.Parallel()
	applyReporterRights(t)
	node := name(t, "cp-1")
	s := newReportSocket(t, name(t, "provider"))
	w := &wire{}
	runReporter(t, node, s, w.tap(reporterOn(t, node)))
	first := reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
		reachable(g, o, metav1.ConditionTrue, "Answering")
	})
	events, err := env.client.Watch(t.Context(), &v1alpha1.KMSNodeReportList{}, &client.ListOptions{
		Raw: &metav1.ListOptions{FieldSelector: "metadata.name=" + node, ResourceVersion: first.ResourceVersion}})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	begin, requests := time.Now(), len(w.seen())
	const beats = 3
	for range beats {
		if e := <-events.ResultChan(); e.Type != watch.Modified {
			t.Fatalf("event %+v", e)
		}
	}
	// Each is at least nine tenths of a second after the one before.
	if d := time.Since(begin); d < (beats-1)*900*time.Millisecond {
		t.Errorf("%d versions within %s", beats, d)
	}
	for _, e := range w.seen()[requests:] {
		if e.verb != "patch" || e.status != http.StatusOK {
			t.Errorf("an idle reporter sends %s, answered with %d", e, e.status)
		}
	}
	s.stop()
	down := reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
		reachable(g, o, metav1.ConditionFalse, "SocketMissing")
	})
	patches := len(w.seen())
	eventually(t, func(g gomega.Gomega) { g.Expect(len(w.seen())).To(gomega.BeNumerically(">=", patches+3)) })
	if o := read(t, emptyReport(node, "")); o.ResourceVersion != down.ResourceVersion {
		t.Error("heartbeats without a provider change the object")
	}
}

// TestReporterMeetsOthers: what somebody does to the object between a reporter's
// read and its write is seen before anything is written.
func TestReporterMeetsOthers(t *testing.T) {
	t.Parallel()
	applyReporterRights(t)
	ctx := context.Background()
	cases := []struct {
		name, verb string
		before     func(node string) error
		refusal    int
		status     metav1.ConditionStatus
		reason     string
	}{
		{"changed", http.MethodPatch, func(node string) error {
			return env.client.Patch(ctx, emptyReport(node, ""), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"who":"somebody"}}}`)))
		}, http.StatusConflict, metav1.ConditionTrue, "Answering"},
		{"its status written by hand", http.MethodPatch, func(node string) error {
			return env.client.Status().Patch(ctx, emptyReport(node, ""), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"observedAt":"2020-01-01T00:00:00Z"}}`)))
		}, http.StatusConflict, metav1.ConditionTrue, "Answering"},
		{"removed", http.MethodPatch, func(node string) error {
			return env.client.Delete(ctx, emptyReport(node, ""))
		}, http.StatusNotFound, metav1.ConditionTrue, "Answering"},
		{"replaced", http.MethodPatch, func(node string) error {
			if err := env.client.Delete(ctx, emptyReport(node, "")); err != nil {
				return err
			}
			return env.client.Create(ctx, emptyReport(node, "other"))
		}, http.StatusConflict, metav1.ConditionFalse, "OtherProvider"},
		{"made at the same time", http.MethodPost, func(node string) error {
			return env.client.Create(ctx, emptyReport(node, "other"))
		}, http.StatusConflict, metav1.ConditionFalse, "OtherProvider"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			provider, node := name(t, "provider"), name(t, "cp-1")
			var once sync.Once
			var failed error
			w := &wire{meddle: func(r *http.Request) *http.Response {
				if r.Method == c.verb {
					once.Do(func() { failed = c.before(node) })
				}
				return nil
			}}
			runReporter(t, node, newReportSocket(t, provider), w.tap(reporterOn(t, node)))
			o := reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) { reachable(g, o, c.status, c.reason) })
			if failed != nil {
				t.Fatal(failed)
			}
			var refusals []int
			for _, e := range w.seen() {
				if e.status >= http.StatusBadRequest && (e.verb == "create" || e.verb == "patch") {
					refusals = append(refusals, e.status)
				}
			}
			if !slices.Equal(refusals, []int{c.refusal}) {
				t.Errorf("its writes were refused with %v, want %d once", refusals, c.refusal)
			}
			switch {
			case c.reason == "OtherProvider" && (o.Spec.ProviderName != "other" || o.Status.Report != nil):
				t.Errorf("another's object is filled: %+v", o)
			case c.reason == "Answering" && o.Spec.ProviderName != provider:
				t.Errorf("report %+v", o)
			case c.reason == "Answering" && time.Since(o.Status.ObservedAt.Time) > patience:
				t.Errorf("it is told as seen at %s", o.Status.ObservedAt)
			case c.name == "changed" && o.Labels["who"] != "somebody":
				t.Errorf("the other change is lost: %v", o.Labels)
			}
		})
	}
}

// TestReporterRestartedAtEveryStep: a reporter that ends in front of any of its
// requests, or when one was served and its answer is lost, leaves what the next one
// goes on from.
func TestReporterRestartedAtEveryStep(t *testing.T) {
	t.Parallel()
	applyReporterRights(t)
	for _, step := range []string{"get kmsnodereports", "create kmsnodereports", "patch kmsnodereports/status", "list kmsrotationplans", "watch kmsrotationplans"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+step, func(t *testing.T) {
				t.Parallel()
				provider, node := name(t, "provider"), name(t, "cp-1")
				s, pod := newReportSocket(t, provider), reporterOn(t, node)
				reached := make(chan struct{})
				cut := &cutter{step: step, after: when == "after", reached: sync.OnceFunc(func() { close(reached) })}
				first := runReporter(t, node, s, cut.tap(rest.CopyConfig(pod)))
				select {
				case <-reached:
				case <-time.After(patience):
					t.Fatalf("there was no %s", step)
				}
				first.stop()
				s.change(func(r *report.NodeReport) { r.Registry.Generation = 8 })
				second := runReporter(t, node, s, pod)
				o := reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
					reachable(g, o, metav1.ConditionTrue, "Answering")
					g.Expect(o.Status.Report.Registry.Generation).To(gomega.Equal(uint64(8)))
				})
				if o.Spec.ProviderName != provider {
					t.Errorf("report of %q", o.Spec.ProviderName)
				}
				if w := second.log.warnings(); len(w) > 0 {
					t.Errorf("the second one warns: %q", w)
				}
			})
		}
	}
}

// cutter is a connection that breaks at one step and stays broken.
type cutter struct {
	step    string
	after   bool
	reached func()

	mu  sync.Mutex
	cut bool
}

func (c *cutter) tap(config *rest.Config) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &cutting{c, next} })
	return config
}

type cutting struct {
	*cutter
	next http.RoundTripper
}

func (c *cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	info, err := requestInfo.NewRequestInfo(r)
	if err != nil {
		return nil, err
	}
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	c.mu.Lock()
	here := !c.cut && info.Verb+" "+resource == c.step
	c.cut = c.cut || here
	broken := c.cut
	c.mu.Unlock()
	var answer *http.Response
	if !broken || here && c.after {
		answer, err = c.next.RoundTrip(r)
	}
	if here {
		c.reached()
	}
	if !broken || err != nil {
		return answer, err
	}
	if answer != nil {
		_ = answer.Body.Close()
	}
	return nil, context.Canceled
}
