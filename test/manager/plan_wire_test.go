//go:build manager

package manager

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/plan"
)

// wire sees every request that a manager sends.
type wire struct {
	// meddle may answer a request in the server's place, or return nil.
	meddle func(*http.Request) *http.Response

	mu       sync.Mutex
	requests []exchange
}

// exchange is one request about an object, in the words of RBAC, and the answer.
type exchange struct {
	namespace, group, resource, verb string
	status                           int
	metadataOnly                     bool
}

func (e exchange) String() string {
	return strings.Trim(e.namespace+" "+e.group+"/"+e.resource+" "+e.verb, " ")
}

// tap is a client configuration whose requests w sees.
func (w *wire) tap(c *rest.Config) *rest.Config {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &tapped{w, next} })
	return c
}

// tapped is one client's transport.
type tapped struct {
	*wire
	next http.RoundTripper
}

var requestInfo = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

func (t *tapped) RoundTrip(r *http.Request) (*http.Response, error) {
	var answer *http.Response
	var err error
	if t.meddle != nil {
		answer = t.meddle(r)
	}
	if answer == nil {
		if answer, err = t.next.RoundTrip(r); err != nil {
			return nil, err
		}
	}
	info, err := requestInfo.NewRequestInfo(r)
	if err != nil {
		return nil, err
	}
	if info.IsResourceRequest {
		resource := info.Resource
		if info.Subresource != "" {
			resource += "/" + info.Subresource
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.requests = append(t.requests, exchange{info.Namespace, info.APIGroup, resource, info.Verb, answer.StatusCode,
			strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")})
	}
	return answer, nil
}

func (w *wire) seen() []exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requests)
}

// writesStatusOf reports whether a request writes a plan's status.
func writesStatusOf(r *http.Request, plan string) bool {
	return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/kmsrotationplans/"+plan+"/status")
}

// TestConflictIsJudgedAgain: a status is never written over a plan that was not
// its input.
func TestConflictIsJudgedAgain(t *testing.T) {
	f := newFleet(t)
	p := f.plan("plan", 1, nil)
	f.report(f.node(1), f.healthy(3, 7))
	w, target := &wire{}, p.Name
	var once sync.Once
	w.meddle = func(r *http.Request) *http.Response {
		if writesStatusOf(r, target) {
			once.Do(func() {
				// The spec changes after it was read and before the status is written.
				change := []byte(`{"spec":{"targetTransitVersion":4}}`)
				o := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: target}}
				if err := env.client.Patch(context.Background(), o, client.RawPatch("application/merge-patch+json", change)); err != nil {
					t.Error(err)
				}
			})
		}
		return nil
	}
	runManager(t, w.tap(env.api.RESTConfig()), nil)
	s := f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
		g.Expect(says(s, v1alpha1.ConditionConverged)).To(gomega.Equal("False NotTargetVersion"))
	})
	if len(s.KeyHistory) != 1 {
		t.Errorf("key history %v", s.KeyHistory)
	}
	var answers []int
	for _, e := range w.seen() {
		if e.resource == "kmsrotationplans/status" {
			answers = append(answers, e.status)
		}
	}
	if len(answers) < 2 || answers[0] != http.StatusConflict || slices.Contains(answers[1:], http.StatusConflict) {
		t.Errorf("the status was written with the answers %v, want a conflict and then none", answers)
	}
	for _, e := range eventsAbout(t, p) {
		if e == "Normal Converged" {
			t.Error("a judgement that was not written has an Event")
		}
	}
}

// TestOnePlansErrorIsItsOwn: a plan whose status cannot be written is tried again,
// and keeps no other from being judged, by the one worker there is.
func TestOnePlansErrorIsItsOwn(t *testing.T) {
	f := newFleet(t)
	broken, sound := f.plan("broken", 1, nil), f.plan("sound", 1, nil)
	var mu sync.Mutex
	failing, failures, target := true, 0, broken.Name
	w := &wire{meddle: func(r *http.Request) *http.Response {
		mu.Lock()
		defer mu.Unlock()
		if !failing || !writesStatusOf(r, target) {
			return nil
		}
		failures++
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Request: r, Body: io.NopCloser(bytes.NewReader(nil))}
	}}
	runManager(t, w.tap(env.api.RESTConfig()), func(o *plan.Options) { o.Concurrency = 1 })
	f.phase(sound, v1alpha1.Observing)
	f.report(f.node(1), f.healthy(3, 7))
	f.phase(sound, v1alpha1.RewriteSafe)
	eventually(t, func(g gomega.Gomega) {
		mu.Lock()
		defer mu.Unlock()
		g.Expect(failures).To(gomega.BeNumerically(">", 1))
	})
	if got := read(t, broken).Status.Phase; got != "" {
		t.Errorf("the broken plan is %s", got)
	}
	mu.Lock()
	failing = false
	mu.Unlock()
	f.phase(broken, v1alpha1.RewriteSafe)
}

// TestNodesBySelector: Nodes are watched from the first plan with a selector on, by
// their metadata alone; nodes join and leave.
func TestNodesBySelector(t *testing.T) {
	f := newFleet(t)
	w := &wire{}
	runManager(t, w.tap(env.api.RESTConfig()), nil)
	named := f.plan("named", 1, nil)
	f.phase(named, v1alpha1.Observing)
	for _, e := range w.seen() {
		if e.resource == "nodes" {
			t.Fatalf("without any selector there was %s", e)
		}
	}

	role := map[string]string{f.provider: "yes"}
	p := f.plan("selected", 0, func(s *v1alpha1.KMSRotationPlanSpec) {
		s.Nodes = v1alpha1.NodeSet{Selector: &metav1.LabelSelector{MatchLabels: role}}
	})
	members := func(want ...string) {
		t.Helper()
		f.until(p, func(g gomega.Gomega, s v1alpha1.KMSRotationPlanStatus) {
			names := []string{}
			for _, n := range s.Nodes {
				names = append(names, n.Name)
			}
			g.Expect(names).To(gomega.Equal(append([]string{}, want...)))
			g.Expect(s.Phase).NotTo(gomega.BeEmpty())
		})
	}
	members()
	if got := says(p.Status, v1alpha1.ConditionNodesReporting); got != "Unknown NoNodes" {
		t.Errorf("NodesReporting is %s", got)
	}
	node := func(n int, labels map[string]string) *corev1.Node {
		return create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node(n), Labels: labels}})
	}
	two := node(2, role)
	members(two.Name)
	one := node(1, nil)
	f.report(two.Name, f.healthy(3, 7))
	f.phase(p, v1alpha1.RewriteSafe)

	label := func(o *corev1.Node, labels map[string]string) {
		t.Helper()
		before := read(t, o).DeepCopy()
		o.Labels = labels
		if err := env.client.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	label(one, role)
	members(one.Name, two.Name)
	if p.Status.RewriteSafeAfter != nil {
		t.Error("with a node that joined and does not report, the clock runs")
	}
	// The report of a node that joined finds the plan.
	f.report(one.Name, f.healthy(3, 7))
	f.phase(p, v1alpha1.RewriteSafe)
	label(two, map[string]string{f.provider: "no"})
	members(one.Name)
	if err := env.client.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	members()
	for _, e := range w.seen() {
		if e.resource == "nodes" && (!e.metadataOnly || e.verb != "list" && e.verb != "watch") {
			t.Errorf("%s asks for more than metadata", e)
		}
	}
}

// TestNodesThatCannotBeListed: a manager that may not see Nodes judges the plans
// that name theirs; of the others it says why not, and takes them up once it may.
func TestNodesThatCannotBeListed(t *testing.T) {
	f := newFleet(t)
	var mu sync.Mutex
	hidden := true
	w := &wire{meddle: func(r *http.Request) *http.Response {
		mu.Lock()
		defer mu.Unlock()
		if !hidden || r.URL.Path != "/api/v1/nodes" {
			return nil
		}
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Request: r, Body: io.NopCloser(bytes.NewReader(nil))}
	}}
	log := &process{t: t}
	runManager(t, w.tap(env.api.RESTConfig()), func(o *plan.Options) { o.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	role := map[string]string{f.provider: "yes"}
	create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node(1), Labels: role}})
	selected := f.plan("selected", 0, func(s *v1alpha1.KMSRotationPlanSpec) {
		s.Nodes = v1alpha1.NodeSet{Selector: &metav1.LabelSelector{MatchLabels: role}}
	})
	named := f.plan("named", 1, nil)
	f.report(f.node(1), f.healthy(3, 7))
	f.phase(named, v1alpha1.RewriteSafe)
	eventually(t, func(g gomega.Gomega) {
		g.Expect(log.logs()).To(gomega.ContainSubstring("the nodes cannot be listed, and spec.nodes.selector cannot be resolved"))
	})
	if got := read(t, selected).Status.Phase; got != "" {
		t.Errorf("the plan whose nodes are not known is %s", got)
	}
	mu.Lock()
	hidden = false
	mu.Unlock()
	f.phase(selected, v1alpha1.RewriteSafe)
}
