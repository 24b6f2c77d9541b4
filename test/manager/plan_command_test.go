package manager

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/plan"
	"github.com/baokms/baokms/internal/report"
)

// program is the built bao-kms-manager with a kubeconfig.
type program struct {
	t          testing.TB
	path       string
	kubeconfig string
}

// builtManager is the manager as `make build` built it, with a kubeconfig for a user.
func builtManager(t testing.TB, asManager bool) *program {
	t.Helper()
	p := &program{t, built(t, "bao-kms-manager"), filepath.Join(t.TempDir(), "kubeconfig")}
	c := env.api.RESTConfig()
	user := &clientcmdapi.AuthInfo{
		ClientCertificate: c.CertFile, ClientCertificateData: c.CertData, ClientKey: c.KeyFile, ClientKeyData: c.KeyData,
	}
	if asManager {
		user.Impersonate, user.ImpersonateGroups = managerUser().UserName, managerUser().Groups
	}
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: c.Host, CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": user},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u", Namespace: managerNamespace}},
		CurrentContext: "c",
	}
	if err := clientcmd.WriteToFile(config, p.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return p
}

// built is one of the product's programs as `make build` built it.
func built(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(env.root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("bin/%s is not built: run make build", name)
	}
	return path
}

// process is a running program.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan error

	mu  sync.Mutex
	log bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) logs() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// start runs the program until end, or until the test ends.
func (p *program) start(args ...string) *process {
	p.t.Helper()
	r := &process{t: p.t, cmd: exec.Command(p.path, append(args, "--kubeconfig", p.kubeconfig)...), done: make(chan error, 1)}
	r.cmd.Stderr = r
	if err := r.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() { r.done <- r.cmd.Wait() }()
	p.t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it may have ended
		if p.t.Failed() {
			p.t.Logf("the log of bao-kms-manager %s:\n%s", args, end(r.logs(), 30))
		}
	})
	return r
}

// end signals the program and returns its exit code, -1 for a signal's.
func (p *process) end(s os.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatal("the program does not end")
		return 0
	}
}

// probe is what a probe answers.
func probe(g gomega.Gomega, address, path string) int {
	answer, err := http.Get("http://" + address + path)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer answer.Body.Close()
	return answer.StatusCode
}

// holder is who holds the manager's lease.
func holder(t *testing.T) string {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: plan.LeaseName}}
	if err := client.IgnoreNotFound(env.client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease)); err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// TestManagerProgram: the built program with config/rbac's rights, restarted in good
// order and killed while a plan settles, and the second replica that takes over.
func TestManagerProgram(t *testing.T) {
	applyManagerRights(t)
	p := builtManager(t, true)
	f := newFleet(t)
	settling := f.settling()
	f.report(f.node(1), f.healthy(3, 7))

	var probes []string
	run := func() *process {
		address := freeAddress(t)
		probes = append(probes, address)
		return p.start("run", "--probe-address", address, "--metrics-address", "0",
			"--leader-elect-lease-duration", "5s", "--leader-elect-renew-deadline", "4s", "--leader-elect-retry-period", "200ms")
	}
	first := run()
	clock := f.phase(settling, v1alpha1.Settling)
	leader := holder(t)
	if leader == "" {
		t.Error("nobody holds the lease")
	}
	second := run()
	for _, address := range probes {
		eventually(t, func(g gomega.Gomega) {
			g.Expect(probe(g, address, "/healthz")).To(gomega.Equal(http.StatusOK))
			g.Expect(probe(g, address, "/readyz")).To(gomega.Equal(http.StatusOK))
		})
	}
	if got := holder(t); got != leader {
		t.Errorf("a second replica took the lease: %s, it was %s", got, leader)
	}
	// It gives the lease back, and the other one goes on.
	if code := first.end(syscall.SIGTERM); code != 0 || !strings.Contains(first.logs(), "manager.shutdown") {
		t.Errorf("after SIGTERM the exit code is %d", code)
	}
	eventually(t, func(g gomega.Gomega) { g.Expect(holder(t)).NotTo(gomega.Or(gomega.BeEmpty(), gomega.Equal(leader))) })
	if code := second.end(syscall.SIGKILL); code != -1 {
		t.Errorf("after SIGKILL the exit code is %d", code)
	}
	// The lease of a manager that was killed runs out; the clock goes on meanwhile.
	run()
	f.settled(settling, clock)
	if got := holder(t); got == leader || got == "" {
		t.Errorf("after the kill %q holds the lease", got)
	}
}

// TestPlanShowProgram: what a person and a script are shown of a plan that a manager
// judged.
func TestPlanShowProgram(t *testing.T) {
	t.Parallel()
	p := builtManager(t, false)
	f := newFleet(t)
	rotation := f.plan("plan", 2, nil)
	for _, n := range f.nodes(2) {
		f.report(n, f.healthy(3, 7))
	}
	show := func(args ...string) (stdout, stderr string, code int) {
		t.Helper()
		cmd := exec.Command(p.path, append([]string{"plan", "show", "--kubeconfig", p.kubeconfig}, args...)...)
		var out, problem bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &problem
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), problem.String(), cmd.ProcessState.ExitCode()
	}
	if page, _, code := show(rotation.Name); code != 0 || !strings.Contains(page, "The manager has not judged this spec yet.") {
		t.Errorf("before any manager: exit code %d\n%s", code, page)
	}
	f.run(env.api.RESTConfig(), nil)
	f.phase(rotation, v1alpha1.RewriteSafe)
	page, _, code := show(rotation.Name)
	for _, want := range []string{
		"Plan " + rotation.Name + "\n", "phase       RewriteSafe\n", "key         version 3, key_id hash " + f.keyHash(3) + "\n",
		"  yes RewriteSafe (Settled)\n", f.node(1), f.node(2), "Encrypted objects",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if code != 0 || t.Failed() {
		t.Errorf("exit code %d\n%s", code, page)
	}
	var view struct {
		Judged bool
		Status v1alpha1.KMSRotationPlanStatus
	}
	document, _, _ := show(rotation.Name, "--output", "json")
	if err := json.Unmarshal([]byte(document), &view); err != nil {
		t.Fatal(err)
	}
	if !view.Judged || view.Status.ActiveKeyIDHash != f.keyHash(3) || len(view.Status.Nodes) != 2 {
		t.Errorf("JSON %+v", view)
	}
	if _, problem, code := show("not-there"); code != 5 || !strings.Contains(problem, `there is no KMSRotationPlan "not-there"`) {
		t.Errorf("a plan that is not there: exit code %d, %s", code, problem)
	}
}

// TestNodeReporterProgram: the command wires the reporter: a provider's report
// reaches its object, and the program ends in good order.
func TestNodeReporterProgram(t *testing.T) {
	t.Parallel()
	p := builtManager(t, false)
	f := newFleet(t)
	dir, err := os.MkdirTemp("", "bk") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "report.sock")
	address := freeAddress(t)
	r := p.start("node-reporter", "--node-name", f.node(1), "--report-socket", socket, "--interval", "1s", "--heartbeat", "5s", "--probe-address", address)
	// Without a provider there is nothing to report, and no readiness.
	eventually(t, func(g gomega.Gomega) {
		g.Expect(probe(g, address, "/healthz")).To(gomega.Equal(http.StatusOK))
		g.Expect(probe(g, address, "/readyz")).To(gomega.Equal(http.StatusInternalServerError))
	})
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	document, err := report.Encode(f.healthy(3, 7).Report)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/report" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })

	o := &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: f.node(1)}}
	remove(t, o)
	eventually(t, func(g gomega.Gomega) {
		g.Expect(env.client.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(gomega.Succeed())
		g.Expect(o.Status.Report).NotTo(gomega.BeNil())
		g.Expect(probe(g, address, "/readyz")).To(gomega.Equal(http.StatusOK))
	})
	if o.Spec.ProviderName != f.provider || o.Status.Report.ActiveKey.KeyIDHash != f.keyHash(3) {
		t.Errorf("it reports %q on %v", o.Spec.ProviderName, o.Status.Report.ActiveKey)
	}
	if code := r.end(syscall.SIGTERM); code != 0 || !strings.Contains(r.logs(), "reporter.shutdown") {
		t.Errorf("after SIGTERM the exit code is %d", code)
	}
	// What a pod's specification says counts.
	cmd := exec.Command(p.path, "node-reporter", "--kubeconfig", p.kubeconfig, "--report-socket", "relative")
	cmd.Env = append(os.Environ(), fmt.Sprintf("NODE_NAME=%s", f.node(1)))
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "not absolute") || strings.Contains(string(out), "node name") {
		t.Errorf("with NODE_NAME and a bad socket: %v, %s", err, out)
	}
}
