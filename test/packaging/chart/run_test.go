package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// provider is the provider of the node that the tests have.
const provider = "openbao-kms-workload-a"

// free is an address of loopback that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// account is a service account of the release, with what its pod's token says.
func (c *cluster) account(name, node string) clientcmdapi.AuthInfo {
	user := clientcmdapi.AuthInfo{
		Impersonate:       "system:serviceaccount:" + c.namespace + ":" + name,
		ImpersonateGroups: []string{"system:serviceaccounts", "system:serviceaccounts:" + c.namespace, "system:authenticated"},
	}
	if node != "" {
		user.ImpersonateUserExtra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	return user
}

// TestPodsRun: what the chart renders works together on a real API server. The manager
// and a reporter run with exactly the arguments of their pods and the rights of
// their accounts, but for addresses that are the test's own; the node's report reaches
// a plan.
func TestPodsRun(t *testing.T) {
	c := start(t)
	made, err := c.install(t, "baokms", load(t), "")
	if err != nil {
		t.Fatal(err)
	}
	c.serves(t)
	all := rendered(t, input{namespace: c.namespace})

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}}
	if err := c.admin.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.admin.Delete(context.Background(), node); err != nil {
			t.Error(err)
		}
	})
	plan := c.plan(t, made.Info.Notes)

	probes, metrics := free(t), free(t)
	command(t, nil, append(managerPod(t, all, c.namespace).Spec.Containers[0].Args,
		"--kubeconfig="+c.kubeconfig(t, c.account(managerName, "")), "--probe-address="+probes, "--metrics-address="+metrics)...)
	answers(t, "http://"+probes+"/healthz")
	answers(t, "http://"+probes+"/readyz")
	eventually(t, func(ctx context.Context) error {
		return c.admin.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: managerName}, &coordinationv1.Lease{})
	})
	c.planIs(t, plan, v1alpha1.ConditionNodesReporting, metav1.ConditionFalse)

	container := reporterPod(t, all, c.namespace).Spec.Containers[0]
	probes = free(t)
	command(t, []string{container.Env[0].Name + "=" + node.Name}, append(container.Args,
		"--kubeconfig="+c.kubeconfig(t, c.account(reporterName, node.Name)), "--probe-address="+probes, "--report-socket="+reportSocket(t))...)
	answers(t, "http://"+probes+"/healthz")
	answers(t, "http://"+probes+"/readyz")
	got := &v1alpha1.KMSNodeReport{}
	if err := c.admin.Get(t.Context(), client.ObjectKey{Name: node.Name}, got); err != nil {
		t.Fatal(err)
	}
	if got.Spec.ProviderName != provider {
		t.Errorf("the report is of the provider %q", got.Spec.ProviderName)
	}
	c.planIs(t, plan, v1alpha1.ConditionNodesReporting, metav1.ConditionTrue)
}

// answers waits until an address answers 200.
func answers(t *testing.T, url string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %d", url, answer.StatusCode)
		}
		return nil
	})
}

// planIs waits until a condition of a plan has a status.
func (c *cluster) planIs(t *testing.T, plan *v1alpha1.KMSRotationPlan, condition string, status metav1.ConditionStatus) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		got := &v1alpha1.KMSRotationPlan{}
		if err := c.admin.Get(ctx, client.ObjectKeyFromObject(plan), got); err != nil {
			return err
		}
		for _, is := range got.Status.Conditions {
			if is.Type == condition && is.Status == status {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", got.Status.Conditions)
	})
}

// reportSocket serves a healthy provider's report, and returns its path.
func reportSocket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(stacktest.Dir(t), "report.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	healthy := read(t, filepath.Join(root, "internal", "report", "testdata", "node-healthy.json"))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var told report.NodeReport
		_ = json.Unmarshal([]byte(healthy), &told)
		now := report.At(time.Now())
		told.GeneratedAt, told.Observations.Metadata.ProbedAt, told.Observations.Metadata.ValidatedAt = now, now, now
		_ = json.NewEncoder(w).Encode(told)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return path
}

// TestReportersAreTied: in whatever namespace the release is, the policy lets a
// reporter write its own node's report and no other.
func TestReportersAreTied(t *testing.T) {
	c := start(t)
	if _, err := c.install(t, "r", load(t), "manager: {enabled: false}"); err != nil {
		t.Fatal(err)
	}
	c.serves(t)
	as := func(node string) client.Client {
		t.Helper()
		user := c.account(reporterName, node)
		config := c.api.RESTConfig()
		config.Impersonate = rest.ImpersonationConfig{UserName: user.Impersonate, Groups: user.ImpersonateGroups, Extra: user.ImpersonateUserExtra}
		made, err := client.New(config, client.Options{Scheme: c.admin.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	write := func(ctx context.Context, from, node string) error {
		o := &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: v1alpha1.KMSNodeReportSpec{ProviderName: provider}}
		return as(from).Create(ctx, o, client.DryRunAll)
	}
	eventually(t, func(ctx context.Context) error {
		err := write(ctx, "cp-1", "cp-2")
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may write the KMSNodeReport of that name only") {
			return fmt.Errorf("another node's report: %v", err)
		}
		return nil
	})
	if err := write(t.Context(), "cp-1", "cp-1"); err != nil {
		t.Errorf("its own report: %v", err)
	}
	if err := write(t.Context(), "", "cp-1"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is not bound to a node") {
		t.Errorf("a token without a node: %v", err)
	}
}

// TestRemoteReportersAreTied: a service account of a node of another cluster writes
// that node's report and no other.
func TestRemoteReportersAreTied(t *testing.T) {
	c := start(t)
	if _, err := c.install(t, "r", load(t), "{reporter: {enabled: false}, remoteReporters: {enabled: true}}"); err != nil {
		t.Fatal(err)
	}
	c.serves(t)
	config := c.api.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:baokms-reporters:cp-1", Groups: []string{"system:serviceaccounts:baokms-reporters", "system:authenticated"},
	}
	remote, err := client.New(config, client.Options{Scheme: c.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	write := func(ctx context.Context, node string) error {
		o := &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: v1alpha1.KMSNodeReportSpec{ProviderName: provider}}
		return remote.Create(ctx, o, client.DryRunAll)
	}
	eventually(t, func(ctx context.Context) error {
		err := write(ctx, "cp-2")
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may write the KMSNodeReport of that name only, not cp-2") {
			return fmt.Errorf("another node's report: %v", err)
		}
		return nil
	})
	if err := write(t.Context(), "cp-1"); err != nil {
		t.Errorf("its own report: %v", err)
	}
}

// TestNamespaceTakesThePods: with the labels that NOTES gives, the real API server
// admits both pods, and warns about nothing but the socket's directory.
func TestNamespaceTakesThePods(t *testing.T) {
	c := start(t)
	all := rendered(t, input{namespace: c.namespace})
	made, err := render(t, input{namespace: c.namespace})
	if err != nil {
		t.Fatal(err)
	}
	level := map[string]string{}
	for _, word := range strings.Fields(made.Info.Notes) {
		if k, v, ok := strings.Cut(word, "="); ok && strings.HasPrefix(k, "pod-security.kubernetes.io/") {
			level[k] = v
		}
	}
	if len(level) != 3 {
		t.Fatalf("the notes give the labels %v", level)
	}
	label := func(labels map[string]string) {
		t.Helper()
		space := &corev1.Namespace{}
		if err := c.admin.Get(t.Context(), client.ObjectKey{Name: c.namespace}, space); err != nil {
			t.Fatal(err)
		}
		for k, v := range labels {
			space.Labels[k] = v
		}
		if err := c.admin.Update(t.Context(), space); err != nil {
			t.Fatal(err)
		}
	}
	var warnings []string
	config := c.api.RESTConfig()
	config.WarningHandler = warningFunc(func(text string) { warnings = append(warnings, text) })
	warned, err := client.New(config, client.Options{Scheme: c.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(template corev1.PodTemplateSpec) error {
		warnings = nil
		template.Name, template.Namespace = "pod", c.namespace
		return warned.Create(t.Context(), &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}, client.DryRunAll)
	}
	label(level)
	eventually(t, func(context.Context) error { // it reads namespaces from a cache
		if err := pod(reporterPod(t, all, c.namespace)); err != nil {
			t.Fatal(err)
		}
		if len(warnings) != 1 {
			return fmt.Errorf("warnings %q", warnings)
		}
		return nil
	})
	const want = `would violate PodSecurity "restricted:latest": restricted volume types (volume "report-socket" uses restricted volume type "hostPath")`
	if warnings[0] != want {
		t.Errorf("the warning is %q, want %q", warnings[0], want)
	}
	if err := pod(managerPod(t, all, c.namespace)); err != nil || len(warnings) != 0 {
		t.Errorf("the manager: %v, %q", err, warnings)
	}
	label(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	eventually(t, func(context.Context) error {
		if err := pod(reporterPod(t, all, c.namespace)); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a restricted namespace takes the reporter: %v", err)
		}
		return nil
	})
	if err := pod(managerPod(t, all, c.namespace)); err != nil {
		t.Errorf("a restricted namespace does not take the manager: %v", err)
	}
}

// warningFunc is what to do with a warning of the API server.
type warningFunc func(string)

func (f warningFunc) HandleWarningHeader(_ int, _ string, text string) { f(text) }
