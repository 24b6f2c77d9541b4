package manager

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
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
	fieldSelector                    string
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
			strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"), r.URL.Query().Get("fieldSelector")})
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
	t.Parallel()
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
	f.run(w.tap(env.api.RESTConfig()), nil)
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
	// A cache that has not seen the manager's own write is a reason for another one.
	if len(answers) < 2 || answers[0] != http.StatusConflict || !slices.Contains(answers[1:], http.StatusOK) {
		t.Errorf("the status was written with the answers %v, want a conflict first and then none", answers)
	}
	for _, e := range eventsAbout(t, p) {
		if e == "Normal Converged" {
			t.Error("a judgement that was not written has an Event")
		}
	}
}

// TestManagerAwaitsItsKinds: a manager that starts before the CRDs are there takes
// the plans up once they are.
func TestManagerAwaitsItsKinds(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.plan("plan", 1, nil)
	f.report(f.node(1), f.healthy(3, 7))
	var mu sync.Mutex
	hidden, refused := true, 0
	w := &wire{meddle: func(r *http.Request) *http.Response {
		mu.Lock()
		defer mu.Unlock()
		if !hidden || !strings.HasPrefix(r.URL.Path, "/apis/"+v1alpha1.GroupVersion.Group) {
			return nil
		}
		refused++
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader("404 page not found"))}
	}}
	f.run(w.tap(env.api.RESTConfig()), nil)
	eventually(t, func(g gomega.Gomega) {
		mu.Lock()
		defer mu.Unlock()
		g.Expect(refused).To(gomega.BeNumerically(">", 0))
		hidden = false
	})
	f.phase(p, v1alpha1.RewriteSafe)
}

// TestOnePlansErrorIsItsOwn: a plan whose status cannot be written is tried again,
// and keeps no other from being judged, by the one worker there is.
func TestOnePlansErrorIsItsOwn(t *testing.T) {
	t.Parallel()
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
	f.run(w.tap(env.api.RESTConfig()), func(o *plan.Options) { o.Concurrency = 1 })
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
