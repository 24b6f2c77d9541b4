package manager

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/internal/report"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// TestReporterOfARealProvider: what the built provider says on its own report socket
// reaches the node's object, over a rotation and with the retirement plan that a
// KMSRotationPlan asks for.
func TestReporterOfARealProvider(t *testing.T) {
	t.Parallel()
	applyReporterRights(t)
	transit := stacktest.Transit(t, stack.TransitOptions{Policy: policy.OpenBao(stack.DefaultMount, stack.DefaultKey)})
	provider := stacktest.Provider(t, built(t, "bao-kms-provider"), transit, stack.ProviderConfig{})
	node := name(t, "cp-1")
	r := runReporter(t, node, &reportSocket{path: provider.Files.ReportSocket}, reporterOn(t, node))
	onVersion := func(version int) *v1alpha1.KMSNodeReport {
		t.Helper()
		return reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
			reachable(g, o, metav1.ConditionTrue, "Answering")
			g.Expect(o.Status.Report.Readiness.Ready).To(gomega.BeTrue(), "%v", o.Status.Report.Readiness.Reasons)
			g.Expect(o.Status.Report.ActiveKey.TransitVersion).To(gomega.Equal(version))
			g.Expect(o.Status.Report.Rotation.State).To(gomega.Equal(report.RotationActive))
		})
	}
	first := onVersion(1)
	if first.Spec.ProviderName != stack.ProviderName || len(first.Status.RetirementPlans) != 0 {
		t.Errorf("report %+v", first)
	}
	if version, err := transit.Rotate(t.Context(), transit.Key()); err != nil || version != 2 {
		t.Fatalf("rotated to version %d, %v", version, err)
	}
	second := onVersion(2)
	if a, b := first.Status.Report, second.Status.Report; a.ActiveKey.KeyIDHash == b.ActiveKey.KeyIDHash || b.Registry.Generation <= a.Registry.Generation {
		t.Errorf("before the rotation %+v of %+v, after it %+v of %+v", a.ActiveKey, a.Registry, b.ActiveKey, b.Registry)
	}

	create(t, &v1alpha1.KMSRotationPlan{
		ObjectMeta: metav1.ObjectMeta{Name: name(t, "plan")},
		Spec: v1alpha1.KMSRotationPlanSpec{ProviderName: stack.ProviderName, Nodes: v1alpha1.NodeSet{Names: []string{node}},
			Retirement: &v1alpha1.Retirement{BeforeVersion: 2}},
	})
	o := reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
		g.Expect(o.Status.RetirementPlans).To(gomega.HaveLen(1))
		g.Expect(o.Status.RetirementPlans[0].Problem).To(gomega.BeNil(), "%+v", o.Status.RetirementPlans[0].Problem)
		g.Expect(o.Status.RetirementPlans[0].Plan.StateHash).To(gomega.Equal(o.Status.Report.Registry.StateHash))
	})
	entry := o.Status.RetirementPlans[0]
	if entry.BeforeVersion != 2 || !slices.Equal(entry.Plan.RemovedVersions, []int{1}) || entry.Plan.NextGeneration != o.Status.Report.Registry.Generation+1 ||
		entry.Plan.NextStateHash == entry.Plan.StateHash || entry.Plan.ActiveKeyIDHash != second.Status.Report.ActiveKey.KeyIDHash {
		t.Errorf("retirement plan %+v", entry.Plan)
	}
	sameReport(t, entry.Plan, answer[report.RetirementPlan](t, provider.Files.ReportSocket, "/v1/retirement-plan?before-version=2"))
	for _, line := range r.log.warnings() {
		t.Errorf("it warns: %s", line)
	}
}

// answer is what a provider itself says on its report socket.
func answer[D report.Document](t *testing.T, socket, path string) *D {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://node"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	doc, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%s is answered with %d, %v: %s", path, got.StatusCode, err, doc)
	}
	d, err := report.Decode[D](doc)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestReporterWatchesItsProvidersPlans: the API server chooses the plans that a
// reporter is sent, whatever the provider's name is made of.
func TestReporterWatchesItsProvidersPlans(t *testing.T) {
	t.Parallel()
	applyReporterRights(t)
	for i, provider := range []string{name(t, "plain"), `OpenBao, key=a\b (ü) ` + name(t, "odd")} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			node := name(t, "cp-1")
			plan := func(suffix, provider string, before int32) {
				create(t, &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: name(t, suffix)},
					Spec: v1alpha1.KMSRotationPlanSpec{ProviderName: provider, Nodes: v1alpha1.NodeSet{Names: []string{node}},
						Retirement: &v1alpha1.Retirement{BeforeVersion: before}}})
			}
			plan("listed", provider, 3)
			plan("another-s", provider+"x", 4)
			w := &wire{}
			runReporter(t, node, newReportSocket(t, provider), w.tap(reporterOn(t, node)))
			asks := func(want ...int32) {
				t.Helper()
				reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
					var got []int32
					for _, p := range o.Status.RetirementPlans {
						got = append(got, p.BeforeVersion)
					}
					g.Expect(got).To(gomega.Equal(want))
				})
			}
			asks(3)
			plan("watched", provider, 5)
			asks(3, 5)
			selected := 0
			for _, e := range w.seen() {
				if e.resource == "kmsrotationplans" {
					selected++
					if e.fieldSelector == "" {
						t.Errorf("%s asks for the plans of all providers", e)
					}
				}
			}
			if selected < 2 {
				t.Errorf("it listed and watched plans %d times", selected)
			}
		})
	}
}
