package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/test/envelope"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// Names that config/ has.
const (
	managerNamespace = "baokms-system"
	managerAccount   = "bao-kms-manager"
	reporterAccount  = "bao-kms-node-reporter"
)

// fleet is a control plane that is watched: three nodes with a provider each, one
// API server, which encrypts with the first of them, and what the manager's
// manifests bring, applied with kubectl as people do. Somebody writes and reads
// Secrets through the API server all the time.
type fleet struct {
	*cluster
	// api is the API server, and the first node's provider.
	api *node
	// kubectl is an administrator's, client too.
	kubectl *stack.Kubectl
	client  client.WithWatch
	load    *load
	// reporters are by node name; those that run.
	reporters map[string]*stack.Reporter
	manager   *stack.Manager
}

// fleetOptions are what a fleet differs in.
type fleetOptions struct {
	// rotated brings the nodes to version 2 before the API server writes anything.
	rotated bool
	// flags are added to the API server's.
	flags []string
}

// nodeName is the name of the i-th node, from 0.
func nodeName(i int) string { return fmt.Sprintf("cp-%d", i+1) }

// newFleet starts the servers and the load and installs config/; no manager and no
// reporter runs yet. The third node promotes later than the others.
func newFleet(t *testing.T, o fleetOptions) *fleet {
	t.Helper()
	f := &fleet{cluster: newCluster(t), reporters: map[string]*stack.Reporter{}}
	for _, delay := range []string{"1s", "1s", "4s"} {
		p := stacktest.Provider(t, binary(t), f.transit, stack.ProviderConfig{Fields: quick(delay)})
		f.nodes = append(f.nodes, &node{c: f.cluster, provider: p})
	}
	f.api = f.nodes[0]
	if o.rotated {
		if _, err := f.transit.Rotate(t.Context(), f.transit.Key()); err != nil {
			t.Fatal(err)
		}
		eventuallyActive(t, f.api.provider, 2)
	}
	f.startAPIServer(o.flags)
	f.kubectl = stacktest.Kubectl(t, f.api.api, stack.User{})
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.client, err = client.NewWithWatch(f.api.api.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	f.load = f.startLoad()
	f.install()
	if o.rotated {
		for _, n := range f.nodes {
			eventuallyActive(t, n.provider, 2)
		}
	}
	return f
}

// startAPIServer starts the API server with the first node's provider.
func (f *fleet) startAPIServer(flags []string) {
	f.t.Helper()
	files := f.api.provider.Files
	file := filepath.Join(files.Dir, "encryption.yaml")
	config := stack.EncryptionConfig{Provider: stack.ProviderName, Socket: files.Socket, Resources: []string{"secrets", "configmaps"}}
	if err := config.Write(file); err != nil {
		f.t.Fatal(err)
	}
	f.api.api = stacktest.APIServer(f.t, stack.APIServerOptions{
		Etcd: f.etcd, CA: f.ca, EncryptionConfig: file,
		// Without it a server that stops waits a minute for its watches to end.
		Flags: append(flags, "--shutdown-watch-termination-grace-period=1s"),
	})
}

// quick is a provider's timing: it sees a rotation soon, and promotes after delay.
func quick(delay string) map[string]any {
	return map[string]any{"status.probeInterval": "300ms", "rotation.requireStableObservationCount": 2, "rotation.activationDelay": delay}
}

// run runs kubectl, which must succeed.
func (f *fleet) run(args ...string) string { f.t.Helper(); return f.runWith("", args...) }

func (f *fleet) runWith(input string, args ...string) string {
	f.t.Helper()
	out, err := f.kubectl.RunWith(f.t.Context(), input, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// manifests is a directory of config/.
func (f *fleet) manifests(name string) string {
	f.t.Helper()
	bins, err := stack.Find()
	if err != nil {
		f.t.Fatal(err)
	}
	return filepath.Join(bins.Root, "config", name)
}

// install applies config/default, and waits until the admission policy holds.
func (f *fleet) install() {
	f.t.Helper()
	f.run("apply", "--server-side", "-k", f.manifests("default"))
	f.kindsServed()
	for i := range f.nodes {
		f.runWith("{apiVersion: v1, kind: Node, metadata: {name: "+nodeName(i)+", labels: {node-role.kubernetes.io/control-plane: ''}}}", "apply", "-f", "-")
	}
	nobody := stacktest.Kubectl(f.t, f.api.api, stack.User{Token: f.token(reporterAccount)})
	eventually(f.t, "the admission policy holds", func() error {
		_, err := nobody.RunWith(f.t.Context(), reportManifest("cp-1"), "create", "--dry-run=server", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "is not bound to a node") {
			return fmt.Errorf("a reporter without a node: %w", err)
		}
		return nil
	})
}

// kindsServed waits until the API server serves what config/crd defines.
func (f *fleet) kindsServed() {
	f.t.Helper()
	f.run("wait", "--for=condition=Established", "--timeout=60s", "crd/kmsnodereports.kms.baokms.io", "crd/kmsrotationplans.kms.baokms.io")
}

// reportManifest is an empty KMSNodeReport.
func reportManifest(node string) string {
	return fmt.Sprintf("{apiVersion: kms.baokms.io/v1alpha1, kind: KMSNodeReport, metadata: {name: %s}, spec: {providerName: %s}}", node, stack.ProviderName)
}

// token is a token of a service account, with what else kubectl is told of it.
func (f *fleet) token(account string, more ...string) string {
	f.t.Helper()
	return strings.TrimSpace(f.run(append([]string{"create", "token", account, "--namespace", managerNamespace}, more...)...))
}

// kubeconfig is the kubeconfig of somebody with a token.
func (f *fleet) kubeconfig(token string) string {
	f.t.Helper()
	return stacktest.Kubectl(f.t, f.api.api, stack.User{Token: token, Namespace: managerNamespace}).Kubeconfig()
}

// managerBinary is the manager as `make build` built it.
func managerBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(binary(t)), "bao-kms-manager")
	if _, err := os.Stat(path); err != nil {
		t.Fatal("bin/bao-kms-manager is not built: run make build")
	}
	return path
}

// startManager starts a manager with the rights of its service account.
func (f *fleet) startManager() {
	f.t.Helper()
	f.manager = stacktest.Manager(f.t, stack.ManagerOptions{Binary: managerBinary(f.t), Kubeconfig: f.kubeconfig(f.token(managerAccount))})
}

// startReporters starts every node's reporter, with a token that is bound to its
// Node, as the one that kubelet gives a pod names it. interval is between two looks,
// 0 the shortest.
func (f *fleet) startReporters(interval time.Duration) {
	f.t.Helper()
	for i, n := range f.nodes {
		name := nodeName(i)
		uid := f.run("get", "node", name, "-o", "jsonpath={.metadata.uid}")
		token := f.token(reporterAccount, "--bound-object-kind=Node", "--bound-object-name="+name, "--bound-object-uid="+uid)
		f.reporters[name] = stacktest.Reporter(f.t, stack.ReporterOptions{
			Binary: managerBinary(f.t), Kubeconfig: f.kubeconfig(token), Node: name, Socket: n.provider.Files.ReportSocket,
			Interval: interval, Heartbeat: 2 * interval,
		})
	}
}

// restartAPIServer starts the API server again, which makes it take the active key
// at once instead of within a minute. The load waits meanwhile. What kubelet would
// do for a manager that lost its lease over it is done here.
func (f *fleet) restartAPIServer() {
	f.t.Helper()
	began := time.Now()
	f.load.waits(func() { f.restarts(f.api) })
	f.t.Logf("the API server was started again in %v", time.Since(began).Round(time.Millisecond))
	if code, ended := f.manager.ExitCode(); ended {
		f.t.Logf("the manager ended with code %d while the API server was away; it is started again", code)
		if err := f.manager.Start(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
}

// rewriteAll stores every encrypted object again, as Kubernetes' manual says, and
// proves in etcd that none is left under another key.
func (f *fleet) rewriteAll() {
	f.t.Helper()
	began := time.Now()
	defer func() { f.t.Logf("everything was rewritten in %v", time.Since(began).Round(time.Millisecond)) }()
	for _, kind := range []string{"secrets", "configmaps"} {
		all := f.run("get", kind, "--all-namespaces", "-o", "json")
		f.runWith(all, "replace", "-f", "-")
	}
	active := registryOf(f.t, f.api.provider).active().KeyID
	for _, prefix := range []string{"/registry/secrets/", "/registry/configmaps/"} {
		keys, err := f.etcd.Keys(f.t.Context(), prefix)
		if err != nil || len(keys) == 0 {
			f.t.Fatalf("%d objects under %s: %v", len(keys), prefix, err)
		}
		for _, key := range keys {
			value, err := f.etcd.Get(f.t.Context(), key)
			if err != nil {
				f.t.Fatal(err)
			}
			e, err := envelope.Parse(value)
			if err != nil || e.KeyID != active {
				f.t.Errorf("%s has key_id %q after the rewrite, want %q: %v", key, e.KeyID, active, err)
			}
		}
	}
}

// report is a node's KMSNodeReport.
func (f *fleet) report(node string) (*v1alpha1.KMSNodeReport, error) {
	o := &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: node}}
	return o, f.client.Get(f.t.Context(), client.ObjectKeyFromObject(o), o)
}

// eventuallyReachable waits until a node's report says whether its provider answers.
func (f *fleet) eventuallyReachable(node string, want metav1.ConditionStatus) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("the report of %s says that its provider is reachable: %s", node, want), func() error {
		o, err := f.report(node)
		if err != nil {
			return err
		}
		for _, c := range o.Status.Conditions {
			if c.Type == v1alpha1.ConditionProviderReachable && c.Status == want {
				return nil
			}
		}
		return errors.New("it does not")
	})
}
