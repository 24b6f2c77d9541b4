package dashboards

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
	"github.com/baokms/baokms/test/deploy/deploytest"
	"github.com/baokms/baokms/test/packaging/argocd/lifetest"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// world is an API server with a plan in each stage of its life.
type world struct {
	t       *testing.T
	api     *stack.APIServer
	kubectl *stack.Kubectl
	client  client.Client
	stages  []lifetest.Stage
	start   time.Time
}

// newWorld writes the plans and the reports of the last stage, as the manager and the reporters would have.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, api: stacktest.APIServer(t, stack.APIServerOptions{}), start: time.Now().Add(-time.Hour).Truncate(time.Second)}
	w.stages = lifetest.Stages(t, w.start)
	var err error
	w.kubectl, err = stack.NewKubectl(w.api, stacktest.Dir(t), "", stack.User{})
	w.must(err)
	w.run("apply", "--server-side", "-k", deploytest.Path(t, "config", "default"))
	w.run("apply", "--server-side", "-f", deploytest.Path(t, "deploy", "kube-state-metrics", "cluster-role.yaml"))
	w.run("wait", "--for=condition=Established", "crd", "--all")
	// The API server makes the namespace of its own soon after it has started.
	deploytest.Eventually(t, func() error {
		_, err := w.kubectl.Run(t.Context(), "create", "serviceaccount", "kube-state-metrics", "--namespace=kube-system")
		return err
	})
	ctrllog.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	w.must(v1alpha1.AddToScheme(scheme))
	w.client, err = client.New(w.api.RESTConfig(), client.Options{Scheme: scheme})
	w.must(err)
	for i := range w.stages {
		plan := w.stages[i].Plan
		plan.Name = planName(i)
		w.write(plan)
	}
	w.write(&v1alpha1.KMSRotationPlan{ObjectMeta: w.stages[0].Plan.ObjectMeta, Spec: w.stages[0].Plan.Spec}, "not-judged")
	for _, r := range w.stages[len(w.stages)-1].Reports {
		w.write(r)
	}
	return w
}

// troubled is the report of a node whose provider could not log in, and does not answer since.
func (w *world) troubled() *v1alpha1.KMSNodeReport {
	r := w.stages[len(w.stages)-1].Reports[0].DeepCopy()
	r.Name = "cp-9"
	r.Status.Report.Readiness.Ready, r.Status.Report.Readiness.Reasons = false, []string{"auth_failed", "status_stale"}
	r.Status.Report.Preflight.Result = report.Fail
	r.Status.Conditions[0].Status = metav1.ConditionFalse
	return r
}

// planName is that of the plan of a stage.
func planName(stage int) string { return fmt.Sprintf("plan-%02d", stage) }

// write creates an object, then its status. The generation begins with 1 here.
func (w *world) write(o client.Object, name ...string) {
	w.t.Helper()
	fresh := o.DeepCopyObject().(client.Object)
	fresh.SetGeneration(0)
	if len(name) > 0 {
		fresh.SetName(name[0])
	}
	status := fresh.DeepCopyObject().(client.Object)
	w.must(w.client.Create(w.t.Context(), fresh))
	if len(name) > 0 {
		return
	}
	status.SetResourceVersion(fresh.GetResourceVersion())
	w.must(w.client.Status().Update(w.t.Context(), status))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) run(args ...string) string {
	w.t.Helper()
	out, err := w.kubectl.Run(w.t.Context(), args...)
	w.must(err)
	return strings.TrimSpace(out)
}

// as is a kubeconfig of a service account.
func (w *world) as(namespace, account string) string {
	w.t.Helper()
	file := filepath.Join(stacktest.Dir(w.t), "kubeconfig")
	w.must(w.api.WriteKubeconfig(file, stack.User{Token: w.run("create", "token", account, "--namespace="+namespace), Namespace: namespace}))
	return file
}

// exporter starts kube-state-metrics with what deploy/ has, as the service account that has its rights, and returns its URL.
func (w *world) exporter() string {
	w.t.Helper()
	port, telemetry := deploytest.FreePort(w.t), deploytest.FreePort(w.t)
	refused := func(log string) {
		if strings.Contains(log, "forbidden") {
			w.t.Error("something is forbidden to it")
		}
	}
	deploytest.Start(w.t, refused, deploytest.Built(w.t, "servers", "kube-state-metrics"),
		"--kubeconfig="+w.as("kube-system", "kube-state-metrics"), "--custom-resource-state-only=true",
		"--custom-resource-state-config-file="+deploytest.Path(w.t, "deploy", "kube-state-metrics", "custom-resource-state.yaml"),
		"--host=127.0.0.1", fmt.Sprintf("--port=%d", port), "--telemetry-host=127.0.0.1", fmt.Sprintf("--telemetry-port=%d", telemetry))
	return fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
}

// manager starts the manager as its service account, with plain metrics on loopback, and returns their URL.
func (w *world) manager() string {
	w.t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", deploytest.FreePort(w.t))
	m, err := stack.StartManager(w.t.Context(), stack.ManagerOptions{
		Binary: deploytest.Built(w.t, "bao-kms-manager"), Kubeconfig: w.as("baokms-system", "bao-kms-manager"), Dir: stacktest.Dir(w.t),
		Args: []string{"--metrics-address=" + address, "--metrics-plain"},
	})
	w.must(err)
	w.t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			w.t.Error(err)
		}
		if w.t.Failed() {
			w.t.Logf("the manager's log:\n%s", m.Logs())
		}
	})
	return "http://" + address + "/metrics"
}

// checkMetrics runs promtool's own checks over a scrape.
func checkMetrics(t *testing.T, scrape string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, deploytest.Tool(t, "promtool"), "check", "metrics")
	cmd.Stdin = strings.NewReader(scrape)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
