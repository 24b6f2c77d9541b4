package chart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// patience bounds every condition that a test waits for: it is met in a second or
// two, and the machine may be busy.
const patience = 90 * time.Second

// serverVersion is the API server's.
const serverVersion = "v1.37.2"

// cluster is the real API server, with Helm before it and a namespace of a test's own.
type cluster struct {
	api *stack.APIServer
	// admin reads from the server and may do everything.
	admin     client.WithWatch
	namespace string
}

// server is the API server of all tests; the first that needs it starts it, and
// TestMain stops it. Tests do not run at once: names in a cluster are fixed.
var server struct {
	dir  string
	etcd *stack.Etcd
	api  *stack.APIServer
}

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	code := m.Run()
	if err := stopServer(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "test/packaging/chart:", err)
		code = 1
	}
	os.Exit(code)
}

func startServer(ctx context.Context) (err error) {
	if server.dir, err = os.MkdirTemp("", "bk"); err != nil {
		return err
	}
	if server.etcd, err = stack.StartEtcd(ctx, stack.EtcdOptions{Dir: filepath.Join(server.dir, "etcd")}); err != nil {
		return err
	}
	server.api, err = stack.StartAPIServer(ctx, stack.APIServerOptions{Etcd: server.etcd, Dir: filepath.Join(server.dir, "api")})
	return err
}

func stopServer(tell bool) error {
	var errs []error
	if server.api != nil {
		if tell {
			fmt.Fprintln(os.Stderr, "the end of the API server's log:\n"+end(server.api.Logs(), 40))
		}
		errs = append(errs, server.api.Stop())
	}
	if server.etcd != nil {
		errs = append(errs, server.etcd.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(server.dir))...)
}

func end(log string, lines int) string {
	all := strings.Split(strings.TrimRight(log, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// start gives a test a namespace of its own name, in a cluster without kinds or rights
// of the product.
func start(t *testing.T) *cluster {
	t.Helper()
	if server.api == nil {
		// It outlives the test.
		if err := startServer(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{api: server.api, namespace: strings.ToLower(t.Name())}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if c.admin, err = client.NewWithWatch(c.api.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	// Without a namespace controller one is never quite deleted; another run has it again.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	if err := c.admin.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.clean(t) })
	return c
}

// clean removes what releases of the namespace left.
func (c *cluster) clean(t *testing.T) {
	t.Helper()
	list := action.NewList(c.helm(t))
	list.StateMask = action.ListAll
	left, err := list.Run()
	if err != nil {
		t.Error(err)
	}
	for _, r := range left {
		c.uninstall(t, r.(*release.Release).Name)
	}
	ctx := context.Background()
	// The API server does not reliably do this itself when kinds come and go this fast.
	for _, o := range []client.Object{&v1alpha1.KMSRotationPlan{}, &v1alpha1.KMSNodeReport{}} {
		if err := c.admin.DeleteAllOf(ctx, o); err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			t.Error(err)
		}
	}
	if err := c.admin.DeleteAllOf(ctx, &apiextensionsv1.CustomResourceDefinition{}); err != nil {
		t.Error(err)
	}
	c.noKinds(t)
	if keys, err := server.etcd.Keys(ctx, "/registry/kms.baokms.io/"); err != nil || len(keys) != 0 {
		t.Errorf("the test leaves %v to the next one (%v)", keys, err)
	}
}

// noKinds waits until the cluster has no kinds of the product.
func (c *cluster) noKinds(t *testing.T) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		var left apiextensionsv1.CustomResourceDefinitionList
		if err := c.admin.List(ctx, &left); err != nil {
			return err
		}
		if len(left.Items) != 0 {
			return fmt.Errorf("%d kinds are left", len(left.Items))
		}
		return nil
	})
}

// kubeconfig writes a kubeconfig for the administrator, acting as user when that is
// not empty, whose context is the cluster's namespace.
func (c *cluster) kubeconfig(t *testing.T, user clientcmdapi.AuthInfo) string {
	t.Helper()
	r := c.api.RESTConfig()
	user.ClientCertificate, user.ClientKey = r.CertFile, r.KeyFile
	path := filepath.Join(stacktest.Dir(t), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: r.Host, CertificateAuthority: r.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": &user},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u", Namespace: c.namespace}},
		CurrentContext: "c",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// helm is Helm's configuration for the cluster: its releases are Secrets in the
// namespace, as with the command.
func (c *cluster) helm(t *testing.T) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(true)
	path := c.kubeconfig(t, clientcmdapi.AuthInfo{})
	flags.KubeConfig, flags.Namespace = &path, &c.namespace
	flags.CacheDir = new(filepath.Join(stacktest.Dir(t), "cache"))
	configuration := action.NewConfiguration(action.ConfigurationSetLogger(slog.NewTextHandler(io.Discard, nil)))
	if err := configuration.Init(flags, c.namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	// The server of the tests is built without its version.
	version, err := common.ParseKubeVersion(serverVersion)
	if err != nil {
		t.Fatal(err)
	}
	configuration.Capabilities = common.DefaultCapabilities.Copy()
	configuration.Capabilities.KubeVersion = *version
	return configuration
}

// install is helm install. Nothing runs pods here, so it waits for none.
func (c *cluster) install(t *testing.T, name string, chart *chartv2.Chart, values string) (*release.Release, error) {
	t.Helper()
	install := action.NewInstall(c.helm(t))
	install.ReleaseName, install.Namespace, install.WaitStrategy = name, c.namespace, kube.HookOnlyStrategy
	made, err := install.Run(chart, parse(t, values))
	if err != nil {
		return nil, err
	}
	return made.(*release.Release), nil
}

// upgrade is helm upgrade.
func (c *cluster) upgrade(t *testing.T, name string, chart *chartv2.Chart, values string) {
	t.Helper()
	upgrade := action.NewUpgrade(c.helm(t))
	upgrade.Namespace, upgrade.WaitStrategy = c.namespace, kube.HookOnlyStrategy
	if _, err := upgrade.Run(name, chart, parse(t, values)); err != nil {
		t.Fatal(err)
	}
}

// uninstall is helm uninstall.
func (c *cluster) uninstall(t *testing.T, name string) {
	t.Helper()
	uninstall := action.NewUninstall(c.helm(t))
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	if _, err := uninstall.Run(name); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until check has nothing to say against it.
func eventually(t *testing.T, check func(ctx context.Context) error) {
	t.Helper()
	// The test's own context has ended when it cleans up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting: %v", err)
		case <-tick.C:
		}
	}
}

// serves waits until the API server serves plans and reports.
func (c *cluster) serves(t *testing.T) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := c.admin.List(ctx, &v1alpha1.KMSNodeReportList{}); err != nil {
			return err
		}
		return c.admin.List(ctx, &v1alpha1.KMSRotationPlanList{})
	})
}

// plan makes the plan that NOTES tells of.
func (c *cluster) plan(t *testing.T, notes string) *v1alpha1.KMSRotationPlan {
	t.Helper()
	_, text, begins := strings.Cut(notes, "<<EOF\n")
	text, _, ends := strings.Cut(text, "EOF\n")
	if !begins || !ends {
		t.Fatalf("the notes have no plan:\n%s", notes)
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimPrefix(line, "       "))
	}
	made := documents(t, strings.Replace(strings.Join(lines, ""), "PROVIDER-NAME", provider, 1))
	if len(made) != 1 {
		t.Fatalf("the notes have %d plans", len(made))
	}
	if err := c.admin.Create(t.Context(), made[0]); err != nil {
		t.Fatal(err)
	}
	plan := &v1alpha1.KMSRotationPlan{}
	if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(made[0]), plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

// lacks says that an object is not in the cluster.
func (c *cluster) lacks(t *testing.T, o client.Object) {
	t.Helper()
	if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
		t.Errorf("%T %s: %v, want that it is not found", o, o.GetName(), err)
	}
}
