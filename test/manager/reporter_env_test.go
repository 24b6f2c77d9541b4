package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/reporter"
	"github.com/baokms/baokms/internal/report"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// reporterAccount is the service account that config/ has.
const reporterAccount = "bao-kms-node-reporter"

// reportSocket serves package report's documents as a provider does.
type reportSocket struct {
	path string

	mu     sync.Mutex
	told   *report.NodeReport
	server *http.Server
}

// newReportSocket serves the healthy report under a provider's name.
func newReportSocket(t *testing.T, provider string) *reportSocket {
	t.Helper()
	s := &reportSocket{path: filepath.Join(stacktest.Dir(t), "report.sock"), told: decoded[report.NodeReport](t, "node-healthy.json")}
	s.told.Provider.Name = provider
	s.start(t)
	t.Cleanup(s.stop)
	return s
}

func (s *reportSocket) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s}
	s.mu.Lock()
	s.server = server
	s.mu.Unlock()
	go func() { _ = server.Serve(l) }()
}

func (s *reportSocket) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.server.Close()
}

// change changes what is told.
func (s *reportSocket) change(edit func(*report.NodeReport)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = s.told.DeepCopy()
	edit(s.told)
}

func (s *reportSocket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	told := s.told.DeepCopy()
	s.mu.Unlock()
	now := report.At(time.Now())
	told.GeneratedAt, told.Observations.Metadata.ProbedAt, told.Observations.Metadata.ValidatedAt = now, now, now
	var answer any = told
	if r.URL.Path == "/v1/retirement-plan" {
		before, _ := strconv.Atoi(r.URL.Query().Get("before-version"))
		answer = &report.RetirementPlan{
			APIVersion: report.APIVersion, Kind: report.KindRetirementPlan, BeforeVersion: before, RemovedVersions: []int{},
			ActiveKeyIDHash: told.ActiveKey.KeyIDHash, StateHash: told.Registry.StateHash,
			NextGeneration: told.Registry.Generation, NextStateHash: told.Registry.StateHash,
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// reporterRights applies config's rights of the reporters and the policy.
var reporterRights = sync.OnceValue(func() error {
	return applyManifests("rbac/reporter-role.yaml", "rbac/reporter-binding.yaml", "admission/reporter-policy.yaml")
})

// applyReporterRights sees to the reporters' rights and the policy, and waits until
// the API server follows it.
func applyReporterRights(t *testing.T) {
	t.Helper()
	if err := reporterRights(); err != nil {
		t.Fatal(err)
	}
	unbound := env.as(t, rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + managerNamespace + ":" + reporterAccount, Groups: []string{"system:authenticated"}})
	eventually(t, func(g gomega.Gomega) {
		err := unbound.Create(t.Context(), emptyReport(name(t, "policy"), "p"), client.DryRunAll)
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("is not bound to a node")))
	})
}

func emptyReport(node, provider string) *v1alpha1.KMSNodeReport {
	return &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: v1alpha1.KMSNodeReportSpec{ProviderName: provider}}
}

// reporterOn is the configuration that a reporter's pod on a node has: the token
// of its service account, bound to the pod, as kubelet gets it.
func reporterOn(t *testing.T, node string) *rest.Config {
	t.Helper()
	create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: managerNamespace}}
	pod.Spec = corev1.PodSpec{
		NodeName: node, ServiceAccountName: reporterAccount,
		Containers: []corev1.Container{{Name: "node-reporter", Image: "reporter"}},
	}
	if err := env.client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Errorf("removing the pod: %v", err)
		}
	})
	return tokenOf(t, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
}

// tokenOf is a configuration with a token of the reporters' service account that is
// bound to an object, or to none.
func tokenOf(t *testing.T, bound *authenticationv1.BoundObjectReference) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: reporterAccount, Namespace: managerNamespace}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}
	if err := env.client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	c := rest.AnonymousClientConfig(env.api.RESTConfig())
	c.BearerToken = request.Status.Token
	c.QPS, c.Burst = 1000, 2000
	return c
}

// connected is a client with a configuration.
func connected(t *testing.T, c *rest.Config) client.WithWatch {
	t.Helper()
	made, err := client.NewWithWatch(c, client.Options{Scheme: env.scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// runningReporter is a reporter that runs until the test, or stop, ends it.
type runningReporter struct {
	*reporter.Reporter
	log  *logBuffer
	stop func()
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// warnings are the lines at level WARN.
func (l *logBuffer) warnings() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, "level=WARN") {
			all = append(all, line)
		}
	}
	return all
}

// runReporter runs the reporter of a node with short intervals: a look each 100 ms,
// a heartbeat each second.
func runReporter(t *testing.T, node string, s *reportSocket, c *rest.Config) *runningReporter {
	t.Helper()
	log := &logBuffer{}
	r, err := reporter.New(reporter.Options{
		Node: node, Socket: s.path, Client: connected(t, c),
		Interval: 100 * time.Millisecond, Heartbeat: time.Second, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	running := &runningReporter{Reporter: r, log: log, stop: sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the reporter ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the reporter does not end")
		}
	})}
	t.Cleanup(running.stop)
	// The object outlives the reporter; a test removes it.
	t.Cleanup(func() {
		running.stop()
		if err := env.client.Delete(context.Background(), emptyReport(node, "")); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("removing the report: %v", err)
		}
	})
	return running
}

// reportOf waits until a node's report fits.
func reportOf(t *testing.T, node string, fits func(g gomega.Gomega, o *v1alpha1.KMSNodeReport)) *v1alpha1.KMSNodeReport {
	t.Helper()
	o := emptyReport(node, "")
	eventually(t, func(g gomega.Gomega) {
		*o = *emptyReport(node, "")
		g.Expect(env.client.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(gomega.Succeed())
		fits(g, o)
	})
	return o
}

// reachable checks the one condition of a report.
func reachable(g gomega.Gomega, o *v1alpha1.KMSNodeReport, status metav1.ConditionStatus, reason string) {
	g.Expect(o.Status.Conditions).To(gomega.HaveLen(1))
	g.Expect(o.Status.Conditions[0].Type).To(gomega.Equal(v1alpha1.ConditionProviderReachable))
	g.Expect(o.Status.Conditions[0].Status).To(gomega.Equal(status))
	g.Expect(o.Status.Conditions[0].Reason).To(gomega.Equal(reason))
}
