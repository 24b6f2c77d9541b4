package manager

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/plan"
	"github.com/baokms/baokms/internal/report"
)

// TestPlanFollowsItsReports is a plan's ordinary life, without a retirement.
func TestPlanFollowsItsReports(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.plan("plan", 2, nil)
	f.run(env.api.RESTConfig(), nil)

	s := f.phase(p, v1alpha1.Observing)
	if got := says(s, v1alpha1.ConditionNodesReporting); got != "False ReportsMissing" {
		t.Errorf("NodesReporting is %s", got)
	}
	if len(s.Nodes) != 2 || s.Nodes[0].Name != f.node(1) || s.Nodes[1].Name != f.node(2) {
		t.Errorf("nodes %v", s.Nodes)
	}

	f.report(f.node(1), f.healthy(3, 7))
	s = f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
		g.Expect(s.Nodes[0].Ready).To(gomega.BeTrue())
	})
	if s.Phase != v1alpha1.Observing || s.Nodes[1].Ready {
		t.Errorf("with one report of two: %s, %v", s.Phase, s.Nodes)
	}
	f.report(f.node(2), f.healthy(3, 9))
	// Nothing happens then but the passing of time.
	s = f.phase(p, v1alpha1.RewriteSafe)
	if s.ActiveTransitVersion != 3 || s.ActiveKeyIDHash != f.keyHash(3) || s.Summary.Nodes != "2/2" {
		t.Errorf("key version %d %s, %s", s.ActiveTransitVersion, s.ActiveKeyIDHash, s.Summary.Nodes)
	}
	if got := s.RewriteSafeAfter.Sub(s.ConvergedSince.Time); got != time.Second {
		t.Errorf("settled for %s", got)
	}

	pending := f.healthy(3, 9)
	pending.Report.Rotation = report.Rotation{State: report.RotationPending, Pending: &report.Pending{
		Key: report.Key{KeyIDHash: f.keyHash(4), TransitVersion: 4}, Observations: 1, Required: 3}}
	f.report(f.node(2), pending)
	s = f.phase(p, v1alpha1.Rotating)
	if got := says(s, v1alpha1.ConditionConverged); got != "False RotationPending" {
		t.Errorf("Converged is %s", got)
	}
	if s.ConvergedSince != nil || s.RewriteSafeAfter != nil {
		t.Errorf("the settle clock still runs: %v, %v", s.ConvergedSince, s.RewriteSafeAfter)
	}

	if err := env.client.Delete(t.Context(), &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: f.node(1)}}); err != nil {
		t.Fatal(err)
	}
	f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
		g.Expect(says(s, v1alpha1.ConditionNodesReporting)).To(gomega.Equal("False ReportsMissing"))
	})

	var events []string
	eventually(t, func(g gomega.Gomega) {
		events = eventsAbout(t, p)
		g.Expect(events).To(gomega.ContainElement("Warning NodesReportingFalse"))
	})
	want := []string{
		"Normal Converged", "Normal NodesReporting", "Normal PreflightPassed", "Normal Ready", "Normal RewriteSafe",
		"Warning ConvergedFalse", "Warning NodesReportingFalse", "Warning ReadyFalse", "Warning RewriteSafeFalse",
	}
	for _, e := range want {
		if !slices.Contains(events, e) {
			t.Errorf("there is no Event %q; Events are %q", e, events)
		}
	}
	for i, e := range events {
		if i > 0 && e == events[i-1] {
			t.Errorf("Event %q is there twice", e)
		}
	}
}

// eventsAbout are the type and reason of the Events about a plan, sorted.
func eventsAbout(t *testing.T, p *v1alpha1.KMSRotationPlan) []string {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := env.client.List(t.Context(), list, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list.Items {
		if e.Regarding.UID != p.UID {
			continue
		}
		if e.ReportingController != plan.FieldOwner || e.Regarding.Kind != "KMSRotationPlan" || e.Regarding.Name != p.Name || e.Note == "" {
			t.Errorf("Event %+v", e)
		}
		all = append(all, e.Type+" "+e.Reason)
	}
	slices.Sort(all)
	return all
}

// TestPlanIsJudgedWhenReportsAge: a fleet that falls silent changes nothing at the
// API server; only the moment that assess names does.
func TestPlanIsJudgedWhenReportsAge(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.plan("plan", 1, func(s *v1alpha1.KMSRotationPlanSpec) {
		s.ReportMaxAge.Duration = 4 * time.Second
		s.SettleTime.Duration = time.Hour
	})
	f.run(env.api.RESTConfig(), nil)
	// On a busy machine a report may be too old before it is judged: there is
	// another one until one counts.
	counts := func() *metav1.Time {
		t.Helper()
		var last *metav1.Time
		f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
			if s.Phase != v1alpha1.Settling && (last == nil || time.Since(last.Time) > time.Second) {
				told := f.healthy(3, 7)
				f.report(f.node(1), told)
				last = told.ObservedAt
			}
			g.Expect(s.Phase).To(gomega.Equal(v1alpha1.Settling))
		})
		return last
	}
	last := counts()
	s := f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
		g.Expect(says(s, v1alpha1.ConditionNodesReporting)).To(gomega.Equal("False ReportsTooOld"))
	})
	if s.ConvergedSince != nil || !s.Nodes[0].LastSeen.Equal(last) {
		t.Errorf("the settle clock says %v, the node was seen at %v and not at %v", s.ConvergedSince, s.Nodes[0].LastSeen, last)
	}
	if age := time.Since(last.Time); age < p.Spec.ReportMaxAge.Duration {
		t.Errorf("the report is too old after %s", age)
	}
	// One that comes back counts.
	counts()
}

// TestHeartbeatsWriteNothing: a healthy fleet keeps its plan as it is, for longer
// than a report counts.
func TestHeartbeatsWriteNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const maxAge = 6 * time.Second
	p := f.plan("plan", 1, func(s *v1alpha1.KMSRotationPlanSpec) { s.ReportMaxAge.Duration = maxAge })
	f.run(env.api.RESTConfig(), nil)
	// A healthy fleet is one whose heartbeats do not stop: where this busy machine
	// lets one come late, it begins again.
	var begun, beat time.Time
	version := ""
	eventually(t, func(g gomega.Gomega) {
		late := time.Since(beat) > maxAge/2
		beat = time.Now()
		f.report(f.node(1), f.healthy(3, 7))
		if read(t, p); late || version == "" {
			begun, version = beat, ""
			g.Expect(p.Status.Phase).To(gomega.Equal(v1alpha1.RewriteSafe))
			version = p.ResourceVersion
		}
		if p.ResourceVersion != version {
			t.Fatalf("heartbeats changed the plan: %+v", p.Status)
		}
		g.Expect(beat.Sub(begun)).To(gomega.BeNumerically(">", maxAge+time.Second))
	})
	if got := says(p.Status, v1alpha1.ConditionNodesReporting); got != "True AllReporting" {
		t.Errorf("NodesReporting is %s", got)
	}
}

// TestSettlingSurvivesARestart: the clock is in the status; a manager that starts
// again neither restarts nor shortens it.
func TestSettlingSurvivesARestart(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.settling()
	f.report(f.node(1), f.healthy(3, 7))
	stop := f.run(env.api.RESTConfig(), nil)
	before := f.phase(p, v1alpha1.Settling)
	stop()
	f.run(env.api.RESTConfig(), nil)
	after := f.settled(p, before)
	if now := time.Now(); now.Before(after.RewriteSafeAfter.Time) {
		t.Errorf("at %s it is safe from %s on", now, after.RewriteSafeAfter)
	}
}

// writeStatus changes a plan's status as a restore, or somebody with an editor, does.
func (f *fleet) writeStatus(p *v1alpha1.KMSRotationPlan, change func(*v1alpha1.KMSRotationPlanStatus)) {
	f.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		change(&read(f.t, p).Status)
		return env.client.Status().Update(f.t.Context(), p, client.FieldOwner("somebody"))
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestStatusOfAnotherWriterIsPutRight: whoever writes into the status, the manager
// takes back what it says itself, removes what it does not say, and is then at rest.
func TestStatusOfAnotherWriterIsPutRight(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.plan("plan", 1, nil)
	f.report(f.node(1), f.healthy(3, 7))
	f.run(env.api.RESTConfig(), nil)
	f.phase(p, v1alpha1.RewriteSafe)
	want := p.Status.DeepCopy()
	f.writeStatus(p, func(s *v1alpha1.KMSRotationPlanStatus) {
		s.Phase, s.ActiveTransitVersion, s.Summary = v1alpha1.Retired, 9, nil
		s.Nodes = append(s.Nodes, v1alpha1.NodeStatus{Name: "ghost", Ready: true})
		s.Retirement = &v1alpha1.RetirementStatus{BeforeVersion: 3, Digest: "sha256:" + strings.Repeat("0", 64)}
		s.Conditions = append(s.Conditions, metav1.Condition{Type: "Blessed", Status: metav1.ConditionTrue, Reason: "ByHand", LastTransitionTime: metav1.Now()})
	})
	f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
		g.Expect(equality.Semantic.DeepEqual(s, *want)).To(gomega.BeTrue(), "%+v", s)
	})
	for _, m := range p.ManagedFields {
		if m.Subresource == "status" && (m.Manager != plan.FieldOwner || m.Operation != metav1.ManagedFieldsOperationApply) && strings.Contains(m.FieldsV1.GetRawString(), "ghost") {
			t.Errorf("%s still owns what it wrote by %s", m.Manager, m.Operation)
		}
	}
	f.rests(p)
}

// rests waits until a plan is as it was a second before.
func (f *fleet) rests(p *v1alpha1.KMSRotationPlan) {
	f.t.Helper()
	version, since := read(f.t, p).ResourceVersion, time.Now()
	eventually(f.t, func(g gomega.Gomega) {
		if v := read(f.t, p).ResourceVersion; v != version {
			version, since = v, time.Now()
		}
		g.Expect(time.Since(since)).To(gomega.BeNumerically(">", time.Second))
	})
}

// TestClockOfAnotherWriterEndsWithABreak: a settle clock that somebody else owns as
// well, because the plan was restored with its status or edited by hand, goes with the
// next break all the same.
func TestClockOfAnotherWriterEndsWithABreak(t *testing.T) {
	t.Parallel()
	sick := func(f *fleet) v1alpha1.KMSNodeReportStatus {
		told := f.healthy(3, 8)
		told.Report.Readiness.Ready, told.Report.Readiness.Reasons = false, []string{"status_stale"}
		return told
	}
	cases := map[string]struct {
		write func(f *fleet, p *v1alpha1.KMSRotationPlan, own *v1alpha1.KMSRotationPlanStatus)
		upset func(f *fleet) v1alpha1.KMSNodeReportStatus
	}{
		"restored, the older key": {restored, func(f *fleet) v1alpha1.KMSNodeReportStatus { return f.healthy(2, 8) }},
		"restored, not ready":     {restored, sick},
		"edited, not ready": {func(f *fleet, p *v1alpha1.KMSRotationPlan, own *v1alpha1.KMSRotationPlanStatus) {
			f.writeStatus(p, func(s *v1alpha1.KMSRotationPlanStatus) {
				s.ConvergedSince = &metav1.Time{Time: own.ConvergedSince.Add(-time.Hour)}
			})
		}, sick},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			const settle = 2 * time.Second
			p := f.plan("plan", 2, func(s *v1alpha1.KMSRotationPlanSpec) { s.SettleTime.Duration = settle })
			f.report(f.node(1), f.healthy(3, 7))
			f.report(f.node(2), f.healthy(3, 9))
			stop := f.run(env.api.RESTConfig(), nil)
			f.phase(p, v1alpha1.RewriteSafe)
			stop()
			own := read(t, p).Status.DeepCopy()
			c.write(f, p, own)
			f.run(env.api.RESTConfig(), nil)
			f.phase(p, v1alpha1.RewriteSafe)
			// From now on a clock that starts anew does not end.
			f.edit(p, func(s *v1alpha1.KMSRotationPlanSpec) { s.SettleTime.Duration = time.Minute })
			f.until(p, func(gomega.Gomega, v1alpha1.KMSRotationPlanStatus) {})

			f.report(f.node(1), c.upset(f))
			s := f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
				g.Expect(says(s, v1alpha1.ConditionConverged)).To(gomega.HavePrefix("False"))
				g.Expect(s.ConvergedSince).To(gomega.BeNil())
			})
			if s.RewriteSafeAfter != nil || says(s, v1alpha1.ConditionRewriteSafe) != "False NotConverged" {
				t.Errorf("after a break it is safe from %v on, %s", s.RewriteSafeAfter, says(s, v1alpha1.ConditionRewriteSafe))
			}
			broke := time.Now().Truncate(time.Second)
			f.report(f.node(1), f.healthy(3, 10))
			s = f.phase(p, v1alpha1.Settling)
			if s.ConvergedSince.Time.Before(broke) {
				t.Errorf("converged since %s, and it broke at %s", s.ConvergedSince, broke)
			}
			f.rests(p)
		})
	}
}

// restored makes a plan anew, with the status that it had, as a backup does.
func restored(f *fleet, p *v1alpha1.KMSRotationPlan, own *v1alpha1.KMSRotationPlanStatus) {
	f.t.Helper()
	if err := env.client.Delete(f.t.Context(), p); err != nil {
		f.t.Fatal(err)
	}
	p.ObjectMeta = metav1.ObjectMeta{Name: p.Name, Labels: p.Labels}
	create(f.t, p)
	f.writeStatus(p, func(s *v1alpha1.KMSRotationPlanStatus) { *s = *own.DeepCopy() })
}

// TestPlansAtOdds: two plans of one provider that would retire below different
// versions on one node.
func TestPlansAtOdds(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	retire := func(before int32) func(*v1alpha1.KMSRotationPlanSpec) {
		return func(s *v1alpha1.KMSRotationPlanSpec) { s.Retirement = &v1alpha1.Retirement{BeforeVersion: before} }
	}
	one, two := f.plan("one", 2, retire(2)), f.plan("two", 1, retire(3))
	bystander := f.plan("bystander", 1, nil)
	for _, n := range f.nodes(2) {
		f.report(n, f.retiring(f.retiring(f.healthy(3, 7), 2), 3))
	}
	f.run(env.api.RESTConfig(), nil)
	for _, p := range []*v1alpha1.KMSRotationPlan{one, two} {
		if got := says(f.phase(p, v1alpha1.Degraded), v1alpha1.ConditionDegraded); got != "True RetirementsOverlap" {
			t.Errorf("%s: Degraded is %s", p.Name, got)
		}
	}
	f.phase(bystander, v1alpha1.RewriteSafe)
	// Each edit of one frees, or binds, the other.
	f.edit(two, func(s *v1alpha1.KMSRotationPlanSpec) { s.Retirement = nil })
	f.phase(one, v1alpha1.AwaitingReview)
	f.phase(two, v1alpha1.RewriteSafe)
	f.edit(two, retire(3))
	f.phase(one, v1alpha1.Degraded)
	if err := env.client.Delete(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	f.phase(one, v1alpha1.AwaitingReview)
}

// TestRetirementIsTracked: review, approval and application, as the reports tell.
func TestRetirementIsTracked(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.plan("plan", 2, func(s *v1alpha1.KMSRotationPlanSpec) { s.Retirement = &v1alpha1.Retirement{BeforeVersion: 3} })
	for i, n := range f.nodes(2) {
		f.report(n, f.retiring(f.healthy(3, 10*(i+1)), 3))
	}
	f.run(env.api.RESTConfig(), nil)
	digest := f.phase(p, v1alpha1.AwaitingReview).Retirement.Digest
	f.edit(p, func(s *v1alpha1.KMSRotationPlanSpec) {
		s.Retirement.Evidence = &v1alpha1.Evidence{Rewrite: "CHG-1", Backups: "CHG-2"}
		s.Retirement.ApprovedDigest = digest
	})
	s := f.phase(p, v1alpha1.Approved)
	if s.Nodes[1].Retirement.Command == "" {
		t.Error("an approved node has no command")
	}
	for i, n := range f.nodes(2) {
		applied := f.healthy(3, 10*(i+1)+1)
		for j := range applied.Report.Snapshots[:2] {
			applied.Report.Snapshots[j].State = report.SnapshotRemoved
		}
		f.report(n, applied)
		s = f.phase(p, []v1alpha1.Phase{v1alpha1.Applying, v1alpha1.Retired}[i])
		if got := s.Retirement.NodesApplied; got != int32(i+1) {
			t.Errorf("%d nodes applied, want %d", got, i+1)
		}
	}
	if s.Retirement.Digest != digest || says(s, v1alpha1.ConditionReady) != "True Retired" {
		t.Errorf("digest %s was approved as %s; Ready is %s", s.Retirement.Digest, digest, says(s, v1alpha1.ConditionReady))
	}
}
