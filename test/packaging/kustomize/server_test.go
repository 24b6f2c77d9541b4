package kustomize

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// patience bounds every condition that a test waits for.
const patience = 90 * time.Second

// cluster is an API server and its administrator's kubectl.
type cluster struct {
	t   *testing.T
	api *stack.APIServer
	*stack.Kubectl
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, api: stacktest.APIServer(t, stack.APIServerOptions{})}
	c.Kubectl = c.as(stack.User{})
	return c
}

// as is kubectl of a user.
func (c *cluster) as(u stack.User) *stack.Kubectl {
	c.t.Helper()
	k, err := stack.NewKubectl(c.api, stacktest.Dir(c.t), "", u)
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

// must runs kubectl as the administrator.
func (c *cluster) must(args ...string) string {
	c.t.Helper()
	out, err := c.Run(c.t.Context(), args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// eventually waits until check has nothing to say against it.
func (c *cluster) eventually(check func() error) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal(err)
		}
		select {
		case <-c.t.Context().Done():
			c.t.Fatal(err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// token is a token of a service account, as kubectl gives it out.
func (c *cluster) token(namespace, account string) string {
	c.t.Helper()
	return c.must("create", "token", account, "--namespace="+namespace)
}

// applied applies a folder of config/ and checks that nothing of it was refused, and that the same again changes nothing.
func (c *cluster) applied(folder string) {
	c.t.Helper()
	dir := filepath.Join(root, "config", folder)
	apply := []string{"apply", "--server-side", "-k", dir}
	// The administrator of this test is one field owner: what another folder said before gives way.
	if out, want := c.must(append(apply, "--force-conflicts")...), len(config(c.t, folder)); strings.Count(out, "serverside-applied") != want {
		c.t.Errorf("kubectl says %q, want %d objects applied", out, want)
	}
	const versions = `-o=jsonpath={range .items[*]}{.kind}{" "}{.metadata.name}{" "}{.metadata.generation}{"\n"}{end}`
	before := c.must("get", "-k", dir, versions)
	c.must(apply...)
	c.must(append(apply, "--dry-run=server")...)
	if after := c.must("get", "-k", dir, versions); after != before {
		c.t.Errorf("the same again changes objects: %q, were %q", after, before)
	}
}

// TestOnAnAPIServer applies config/default, then config/manager-only, to a real API server.
func TestOnAnAPIServer(t *testing.T) {
	c := newCluster(t)
	c.applied("default")
	t.Run("the manager has all rights that it needs", func(t *testing.T) { c.at(t).manages() })
	t.Run("pods with reporters", func(t *testing.T) { c.at(t).admits(true) })
	c.applied("manager-only")
	t.Run("pods without reporters", func(t *testing.T) { c.at(t).admits(false) })
	t.Run("remote reporters", func(t *testing.T) { c.at(t).remoteReporters() })
}

// at is the cluster for a subtest.
func (c *cluster) at(t *testing.T) *cluster { return &cluster{t: t, api: c.api, Kubectl: c.Kubectl} }

// manages runs the built manager with the arguments of the Deployment as its service account.
func (c *cluster) manages() {
	pod := podOf(c.t, find(c.t, config(c.t, "default"), manager)).Spec
	kubectl := c.as(stack.User{Token: c.token("baokms-system", pod.ServiceAccountName), Namespace: "baokms-system"})
	m, err := stack.StartManager(c.t.Context(), stack.ManagerOptions{
		Binary: binary(c.t), Kubeconfig: kubectl.Kubeconfig(), Dir: stacktest.Dir(c.t), Args: pod.Containers[0].Args[1:],
	})
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := m.Stop(); err != nil {
			c.t.Error(err)
		}
	}()
	c.must("apply", "-f", filepath.Join(root, "config", "samples", "plan-by-names.yaml"))
	c.must("apply", "-f", filepath.Join(root, "config", "samples", "plan-by-selector.yaml"))
	c.eventually(func() error {
		const phases = "-o=jsonpath={range .items[*]}{.metadata.name} {.status.phase} {.status.observedGeneration};{end}"
		if got, want := c.must("get", "krp", phases), "workload-a-2026q4 Observing 1;workload-a-2026q4-retire Observing 1;"; got != want {
			return fmt.Errorf("the plans are %q, want %q; the manager's log:\n%s", got, want, m.Logs())
		}
		return nil
	})
	if holder := c.must("get", "lease", "bao-kms-manager", "--namespace=baokms-system", "-o=jsonpath={.spec.holderIdentity}"); holder == "" {
		c.t.Error("nobody has the lease")
	}
	if log := m.Logs(); strings.Contains(log, "forbidden") {
		c.t.Errorf("something is forbidden to it:\n%s", log)
	}
}

func find(t *testing.T, all []object, wanted string) object {
	t.Helper()
	for _, o := range all {
		if name(o) == wanted {
			return o
		}
	}
	t.Fatalf("there is no %s", wanted)
	return nil
}

// warnings collects what the API server warns of.
type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// admits makes both pods in the namespace, as their controllers would.
func (c *cluster) admits(reporters bool) {
	var warned warnings
	access := c.api.RESTConfig()
	access.WarningHandler = rest.WarningHandler(&warned)
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		c.t.Fatal(err)
	}
	make := func(spec corev1.PodSpec) ([]string, error) {
		warned = nil
		_, err := client.CoreV1().Pods("baokms-system").Create(c.t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Spec: spec}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return warned, err
	}
	all := config(c.t, "default")
	if said, err := make(get[appsv1.Deployment](c.t, all, manager).Spec.Template.Spec); err != nil || len(said) != 0 {
		c.t.Errorf("the manager's pod: %v, warnings %q", err, said)
	}
	const volume = `restricted volume types (volume "report" uses restricted volume type "hostPath")`
	said, err := make(get[appsv1.DaemonSet](c.t, all, reporter).Spec.Template.Spec)
	switch {
	case reporters && (err != nil || len(said) != 1 || !strings.HasSuffix(said[0], `"restricted:latest": `+volume)):
		c.t.Errorf("the reporter's pod: %v, warnings %q, want one of the volume alone", err, said)
	case !reporters && (err == nil || !strings.HasSuffix(err.Error(), `"restricted:latest": `+volume)):
		c.t.Errorf("the reporter's pod where none should run: %v", err)
	}
}

// remoteReporters: the service account of a node's name writes that node's report and no other.
func (c *cluster) remoteReporters() {
	const namespace = "baokms-reporters"
	c.must("create", "serviceaccount", "cp-1", "--namespace="+namespace)
	cp1 := c.as(stack.User{Token: c.token(namespace, "cp-1")})
	report := func(node string, args ...string) error {
		_, err := cp1.RunWith(c.t.Context(), "{apiVersion: kms.baokms.io/v1alpha1, kind: KMSNodeReport, metadata: {name: "+node+"}, spec: {providerName: p}}", args...)
		return err
	}
	// The policy needs a moment to be in force. A dry run asks it, too.
	c.eventually(func() error {
		err := report("cp-2", "create", "--dry-run=server", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "the remote reporter of node cp-1 may write the KMSNodeReport of that name only, not cp-2") {
			return fmt.Errorf("it may create the report of another node: %v", err)
		}
		return nil
	})
	if err := report("cp-1", "create", "-f", "-"); err != nil {
		c.t.Errorf("it may not create its own report: %v", err)
	}
	c.must("create", "serviceaccount", "cp-2", "--namespace="+namespace)
	if err := c.report(c.token(namespace, "cp-2"), "cp-1"); err == nil || !strings.Contains(err.Error(), "the remote reporter of node cp-2") {
		c.t.Errorf("another node's reporter may write its status: %v", err)
	}
	if err := c.report(c.token(namespace, "cp-1"), "cp-1"); err != nil {
		c.t.Errorf("it may not write its own status: %v", err)
	}
	if _, err := cp1.Run(c.t.Context(), "get", "krp"); err != nil {
		c.t.Errorf("it may not list the plans that ask it for a retirement: %v", err)
	}
	if _, err := cp1.Run(c.t.Context(), "delete", "kmsnodereport", "cp-1"); err == nil {
		c.t.Error("it may delete a report")
	}
	if got := c.must("get", "knr", "-o=jsonpath={range .items[*]}{.metadata.name} {.status.observedAt}{end}"); got != "cp-1 2026-11-30T06:15:00Z" {
		c.t.Errorf("the reports are %q", got)
	}
}

// report writes the status of a node's report as a reporter does, by server-side apply.
func (c *cluster) report(token, node string) error {
	c.t.Helper()
	access := c.api.RESTConfig()
	access.CertFile, access.KeyFile, access.BearerToken = "", "", token
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		c.t.Fatal(err)
	}
	const status = `{"apiVersion":"kms.baokms.io/v1alpha1","kind":"KMSNodeReport","metadata":{"name":%q},"status":{"observedAt":"2026-11-30T06:15:00Z"}}`
	return client.RESTClient().Patch(types.ApplyPatchType).AbsPath("/apis/kms.baokms.io/v1alpha1/kmsnodereports", node, "status").
		Param("fieldManager", "test").Body(fmt.Appendf(nil, status, node)).Do(c.t.Context()).Error()
}
