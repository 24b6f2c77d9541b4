package manager

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/test/stack"
)

// patience bounds every condition that a test waits for. Conditions are met in
// a second or two; the machine may be busy.
const patience = 90 * time.Second

// together is how many tests run at once unless -parallel says otherwise: most of
// them wait for whole seconds to pass, which the API's times are in.
const together = "12"

// env is the package's API server. TestMain sets it and nobody changes it.
var env *environment

// environment is a kube-apiserver with the product's CRDs.
type environment struct {
	api *stack.APIServer
	// root is the module's.
	root string
	// scheme knows Kubernetes' own kinds and the product's.
	scheme *runtime.Scheme
	// client is an administrator's and reads from the server, not from a cache.
	client client.WithWatch
}

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", together); err != nil {
			panic(err)
		}
	}
	// The process's own; what a manager or reporter logs is in its options.
	ctrllog.SetLogger(logr.Discard())
	os.Exit(run(m))
}

// run is TestMain with a place for deferred calls.
func run(m *testing.M) (code int) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, "test/manager:", err)
		code = 1
	}
	dir, err := os.MkdirTemp("", "bk")
	if err != nil {
		fail(err)
		return code
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			fail(err)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	etcd, err := stack.StartEtcd(ctx, stack.EtcdOptions{Dir: filepath.Join(dir, "etcd")})
	if err != nil {
		fail(err)
		return code
	}
	defer func() {
		if err := etcd.Stop(); err != nil {
			fail(err)
		}
	}()
	api, err := stack.StartAPIServer(ctx, stack.APIServerOptions{Etcd: etcd, Dir: filepath.Join(dir, "api")})
	if err != nil {
		fail(err)
		return code
	}
	defer func() {
		if code != 0 { // before it tells of its own end at length
			fmt.Fprintln(os.Stderr, "the end of the API server's log:\n"+end(api.Logs(), 60))
		}
		if err := api.Stop(); err != nil {
			fail(err)
		}
	}()
	if env, err = prepare(api); err != nil {
		fail(err)
		return code
	}
	return m.Run()
}

// prepare installs the CRDs and makes the clients.
func prepare(api *stack.APIServer) (*environment, error) {
	bins, err := stack.Find()
	if bins.Root == "" {
		return nil, err
	}
	e := &environment{api: api, root: bins.Root, scheme: runtime.NewScheme()}
	if err := errors.Join(clientgoscheme.AddToScheme(e.scheme), v1alpha1.AddToScheme(e.scheme)); err != nil {
		return nil, err
	}
	// It waits until the server serves them, and fails when there is none.
	crds, err := envtest.InstallCRDs(api.RESTConfig(), envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(e.root, "config", "crd")}, ErrorIfPathMissing: true,
	})
	if err != nil {
		return nil, fmt.Errorf("installing config/crd: %w", err)
	}
	if len(crds) != 2 {
		return nil, fmt.Errorf("config/crd holds %d CRDs, want 2", len(crds))
	}
	e.client, err = client.NewWithWatch(api.RESTConfig(), client.Options{Scheme: e.scheme})
	return e, err
}

func end(log string, lines int) string {
	all := strings.Split(strings.TrimRight(log, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// config is a client configuration for a user, as if it had signed in. Groups
// and extra are those of the user; system:authenticated comes with every user.
func (e *environment) config(user rest.ImpersonationConfig) *rest.Config {
	c := e.api.RESTConfig()
	c.Impersonate = user
	return c
}

// as is a client of a user, with that user's rights only.
func (e *environment) as(t *testing.T, user rest.ImpersonationConfig) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(e.config(user), client.Options{Scheme: e.scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// name is a name for a cluster-scoped object of a test: the test's own and a
// suffix.
func name(t testing.TB, suffix string) string {
	t.Helper()
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name()))
	return strings.Trim(clean, "-") + "-" + suffix
}

// create writes an object and removes it when the test ends.
func create[O client.Object](t testing.TB, obj O) O {
	t.Helper()
	if err := env.client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	remove(t, obj)
	return obj
}

// remove removes an object when the test ends; it may be gone by then.
func remove(t testing.TB, obj client.Object) {
	t.Helper()
	obj = obj.DeepCopyObject().(client.Object)
	t.Cleanup(func() {
		if err := env.client.Delete(context.Background(), obj); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("removing %s: %v", obj.GetName(), err)
		}
	})
}

// read reads an object again.
func read[O client.Object](t testing.TB, obj O) O {
	t.Helper()
	if err := env.client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// eventually waits until check has nothing to say against it.
func eventually(t testing.TB, check func(g gomega.Gomega)) {
	t.Helper()
	gomega.NewWithT(t).Eventually(check).WithTimeout(patience).WithPolling(50 * time.Millisecond).Should(gomega.Succeed())
}
