package manager

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	selection "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/plan"
	"github.com/baokms/baokms/internal/report"
)

// run runs a manager on the package's API server until the test, or stop, ends it.
// It is shown the plans of the fleet's provider only, so that tests can run at the
// same time. change may be nil.
func (f *fleet) run(cluster *rest.Config, change func(*plan.Options)) (stop func()) {
	t := f.t
	t.Helper()
	cluster.Wrap(func(next http.RoundTripper) http.RoundTripper { return &blinkers{f.provider, next} })
	o := plan.Options{Concurrency: 2}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- plan.Run(ctx, cluster, o) }()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the manager ended with %v", err)
			}
		case <-time.After(patience):
			t.Fatal("the manager does not end")
		}
	}
	t.Cleanup(stop)
	return stop
}

// blinkers hide the plans and reports of other fleets: they select by a field and by
// a label in what lists and watches all of them.
type blinkers struct {
	provider string
	next     http.RoundTripper
}

func (b *blinkers) RoundTrip(r *http.Request) (*http.Response, error) {
	parameter, value := "", ""
	switch {
	case r.Method != http.MethodGet:
	case strings.HasSuffix(r.URL.Path, "/kmsrotationplans"):
		parameter, value = "fieldSelector", selection.OneTermEqualSelector("spec.providerName", b.provider).String()
	case strings.HasSuffix(r.URL.Path, "/kmsnodereports"):
		parameter, value = "labelSelector", labels.SelectorFromSet(label(b.provider)).String()
	}
	if parameter != "" {
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Set(parameter, value)
		r.URL.RawQuery = query.Encode()
	}
	return b.next.RoundTrip(r)
}

// label is on every report of a fleet.
func label(provider string) map[string]string {
	sum := sha256.Sum256([]byte(provider))
	return map[string]string{"fleet": hex.EncodeToString(sum[:16])}
}

// fleet are the reports of a test's nodes, as reporters would write them.
type fleet struct {
	t        testing.TB
	provider string
}

func newFleet(t *testing.T) *fleet { return &fleet{t, name(t, "provider")} }

// node is the name of one of the test's nodes.
func (f *fleet) node(n int) string { return name(f.t, fmt.Sprintf("cp-%d", n)) }

func (f *fleet) nodes(n int) []string {
	var names []string
	for i := range n {
		names = append(names, f.node(i+1))
	}
	return names
}

// keyHash is a key_id hash that only versions of the fleet's key share.
func (f *fleet) keyHash(version int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", f.provider, version))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func stateHash(generation int) string { return fmt.Sprintf("sha256:%064x", generation) }

// healthy is a status that tells of a node on a version, seen now, in a registry
// of that generation.
func (f *fleet) healthy(version, generation int) v1alpha1.KMSNodeReportStatus {
	now := time.Now().UTC().Truncate(time.Second)
	r := decoded[report.NodeReport](f.t, "node-healthy.json")
	r.Provider.Name = f.provider
	r.ActiveKey = &report.Key{KeyIDHash: f.keyHash(version), TransitVersion: version}
	r.Registry.Generation, r.Registry.StateHash = uint64(generation), stateHash(generation)
	r.Snapshots = nil
	for v := 1; v <= version; v++ {
		state := report.SnapshotRetired
		if v == version {
			state = report.SnapshotActive
		}
		r.Snapshots = append(r.Snapshots, report.Snapshot{Key: report.Key{KeyIDHash: f.keyHash(v), TransitVersion: v}, State: state})
	}
	return v1alpha1.KMSNodeReportStatus{ObservedAt: &metav1.Time{Time: now}, Report: r}
}

// retiring adds the plan for a retirement below a version.
func (f *fleet) retiring(s v1alpha1.KMSNodeReportStatus, before int) v1alpha1.KMSNodeReportStatus {
	generation := int(s.Report.Registry.Generation)
	p := decoded[report.RetirementPlan](f.t, "plan.json")
	p.BeforeVersion, p.RemovedVersions = before, nil
	for v := 1; v < before; v++ {
		p.RemovedVersions = append(p.RemovedVersions, v)
	}
	p.ActiveKeyIDHash, p.StateHash = s.Report.ActiveKey.KeyIDHash, s.Report.Registry.StateHash
	p.NextGeneration, p.NextStateHash = uint64(generation+1), stateHash(generation+1)
	s.RetirementPlans = append(s.RetirementPlans, v1alpha1.NodeRetirement{BeforeVersion: int32(before), Plan: p})
	return s
}

// report writes a node's report, over the one that is there.
func (f *fleet) report(node string, status v1alpha1.KMSNodeReportStatus) {
	f.t.Helper()
	o := &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: label(f.provider)}, Spec: v1alpha1.KMSNodeReportSpec{ProviderName: f.provider}}
	if err := client.IgnoreNotFound(env.client.Get(f.t.Context(), client.ObjectKeyFromObject(o), o)); err != nil {
		f.t.Fatal(err)
	}
	if o.UID == "" {
		create(f.t, o)
	}
	o.Status = status
	if err := env.client.Status().Update(f.t.Context(), o); err != nil {
		f.t.Fatal(err)
	}
}

// plan creates a plan of n named nodes that settles within a second.
func (f *fleet) plan(suffix string, n int, change func(*v1alpha1.KMSRotationPlanSpec)) *v1alpha1.KMSRotationPlan {
	f.t.Helper()
	p := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: name(f.t, suffix)}}
	p.Spec = v1alpha1.KMSRotationPlanSpec{
		ProviderName: f.provider,
		Nodes:        v1alpha1.NodeSet{Names: f.nodes(n)},
		ReportMaxAge: metav1.Duration{Duration: 10 * time.Minute},
		SettleTime:   metav1.Duration{Duration: time.Second},
	}
	if change != nil {
		change(&p.Spec)
	}
	return create(f.t, p)
}

// settling creates a plan that is not settled before the test says so (settled).
func (f *fleet) settling() *v1alpha1.KMSRotationPlan {
	f.t.Helper()
	return f.plan("plan", 1, func(s *v1alpha1.KMSRotationPlanSpec) { s.SettleTime.Duration = time.Hour })
}

// settled waits until a plan that settled before settles on, for a second in all, and
// checks that its clock was not started again.
func (f *fleet) settled(p *v1alpha1.KMSRotationPlan, before v1alpha1.KMSRotationPlanStatus) v1alpha1.KMSRotationPlanStatus {
	f.t.Helper()
	const settle = time.Second
	// A clock that starts now says another second.
	eventually(f.t, func(g gomega.Gomega) {
		g.Expect(time.Since(before.ConvergedSince.Time)).To(gomega.BeNumerically(">", settle))
	})
	f.edit(p, func(s *v1alpha1.KMSRotationPlanSpec) { s.SettleTime.Duration = settle })
	after := f.phase(p, v1alpha1.RewriteSafe)
	if !after.ConvergedSince.Equal(before.ConvergedSince) || after.RewriteSafeAfter.Sub(after.ConvergedSince.Time) != settle {
		f.t.Errorf("the clock was %v to %v, and is %v to %v", before.ConvergedSince, before.RewriteSafeAfter, after.ConvergedSince, after.RewriteSafeAfter)
	}
	return after
}

// edit changes a plan's spec as somebody would.
func (f *fleet) edit(p *v1alpha1.KMSRotationPlan, change func(*v1alpha1.KMSRotationPlanSpec)) {
	f.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		read(f.t, p)
		change(&p.Spec)
		return env.client.Update(f.t.Context(), p)
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// until waits for a plan whose status fits.
func (f *fleet) until(p *v1alpha1.KMSRotationPlan, fits func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus)) v1alpha1.KMSRotationPlanStatus {
	f.t.Helper()
	eventually(f.t, func(g gomega.Gomega) {
		g.Expect(env.client.Get(f.t.Context(), client.ObjectKeyFromObject(p), p)).To(gomega.Succeed())
		g.Expect(p.Status.ObservedGeneration).To(gomega.Equal(p.Generation))
		fits(g, p.Status)
	})
	return p.Status
}

// phase waits for a phase.
func (f *fleet) phase(p *v1alpha1.KMSRotationPlan, want v1alpha1.Phase) v1alpha1.KMSRotationPlanStatus {
	f.t.Helper()
	return f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
		g.Expect(s.Phase).To(gomega.Equal(want), "%v", s.Conditions)
	})
}

// says is a condition's status and reason: "True AllAgree".
func says(s v1alpha1.KMSRotationPlanStatus, condition string) string {
	c := meta.FindStatusCondition(s.Conditions, condition)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}
