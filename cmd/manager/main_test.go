package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/cli/clitest"
	"github.com/baokms/baokms/internal/controller/plan"
)

// outcome is what a command line ended with.
type outcome struct {
	code           int
	stdout, stderr string
	options        *plan.Options // of run, when it got so far
	host           string
}

// execute runs a command line in a surrounding without a cluster; reconcile is what
// running the manager ends with.
func execute(t *testing.T, reconcile error, args ...string) outcome {
	t.Helper()
	var o outcome
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" },
		reconcile: func(_ context.Context, c *rest.Config, p plan.Options) error {
			o.options, o.host = &p, c.Host
			return reconcile
		}}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	o.code = a.run(t.Context(), args)
	o.stdout, o.stderr = stdout.String(), stderr.String()
	return o
}

// kubeconfig is a file with one cluster and the namespace keys.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}],
users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u, namespace: keys}}]}`, server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExitCodes(t *testing.T) {
	config := kubeconfig(t, "https://127.0.0.1:1")
	cases := []struct {
		name      string
		args      []string
		reconcile error
		code      int
		stderr    string
	}{
		{"nothing", nil, nil, cli.ExitUsage, "name a command"},
		{"no command", []string{"dance"}, nil, cli.ExitUsage, `unknown command "dance"`},
		{"no flag", []string{"run", "--dance"}, nil, cli.ExitUsage, "unknown flag: --dance"},
		{"an argument too many", []string{"run", "now"}, nil, cli.ExitUsage, `unknown command "now"`},
		{"a bad level", []string{"run", "--log-level", "loud"}, nil, cli.ExitUsage, "write info or debug or warn or error"},
		{"plain metrics for all", []string{"run", "--metrics-plain"}, nil, cli.ExitUsage, "loopback IP address only"},
		{"a lease that never ends", []string{"run", "--leader-elect-lease-duration", "0s"}, nil, cli.ExitUsage, "the times of leader election must be positive"},
		{"a lease that ends too soon", []string{"run", "--leader-elect-lease-duration", "9s"}, nil, cli.ExitUsage, "a lease of 9s, renewed within 10s by a try each 2s, cannot be held"},
		{"a negative concurrency", []string{"run", "--concurrency=-1"}, nil, cli.ExitUsage, "concurrency is negative"},
		{"no kubeconfig", []string{"run", "--kubeconfig", "/does/not/exist"}, nil, cli.ExitRuntime, "finding the cluster"},
		{"run fails", []string{"run", "--kubeconfig", config}, errors.New("leader election lost"), cli.ExitRuntime, "bao-kms-manager: leader election lost"},
		{"run ends", []string{"run", "--kubeconfig", config}, nil, cli.ExitOK, "manager.shutdown"},
		{"plan alone", []string{"plan"}, nil, cli.ExitUsage, "name a command: show"},
		{"no name", []string{"plan", "show"}, nil, cli.ExitUsage, "accepts 1 arg(s), received 0"},
		{"no server", []string{"plan", "show", "p", "--kubeconfig", config}, nil, cli.ExitRuntime, `reading the KMSRotationPlan "p"`},
		{"no node", []string{"node-reporter", "--report-socket", "/s"}, nil, cli.ExitUsage, "name the node with --node-name or $NODE_NAME"},
		{"no socket", []string{"node-reporter", "--node-name", "n"}, nil, cli.ExitUsage, "--report-socket"},
		{"no interval", []string{"node-reporter", "--node-name", "n", "--report-socket", "/s", "--interval", "0s"}, nil, cli.ExitUsage, "must be positive"},
		{"a relative socket", []string{"node-reporter", "--node-name", "n", "--report-socket", "s", "--kubeconfig", config}, nil, cli.ExitUsage, "not absolute"},
		{"a shell that is none", []string{"completion", "cmd"}, nil, cli.ExitUsage, `unknown command "cmd"`},
		{"no shell", []string{"completion"}, nil, cli.ExitUsage, "name a shell"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := execute(t, c.reconcile, c.args...)
			if o.code != c.code || !strings.Contains(o.stderr, c.stderr) {
				t.Errorf("exit code %d, want %d; it says %q, want %q", o.code, c.code, o.stderr, c.stderr)
			}
			if hint := strings.Contains(o.stderr, "--help' for what it takes."); hint != (c.code == cli.ExitUsage) {
				t.Errorf("the hint to --help: %t", hint)
			}
			if o.stdout != "" {
				t.Errorf("standard output has %q", o.stdout)
			}
		})
	}
}

// TestRunOptions: what the flags say is what runs.
func TestRunOptions(t *testing.T) {
	config := kubeconfig(t, "https://api.example:6443")
	byDefault := execute(t, nil, "run", "--kubeconfig", config)
	if byDefault.code != cli.ExitOK {
		t.Fatal(byDefault.stderr)
	}
	byDefault.options.Logger = nil
	if want := (plan.Options{LeaderElection: true, LeaseNamespace: "keys", Probes: ":8081", Metrics: ":8443", Concurrency: 4,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}); *byDefault.options != want {
		t.Errorf("by default %+v, want %+v", *byDefault.options, want)
	}
	if byDefault.host != "https://api.example:6443" {
		t.Errorf("it talks to %s", byDefault.host)
	}
	chosen := execute(t, nil, "run", "--kubeconfig", config, "--leader-elect=false", "--leader-elect-namespace", "other",
		"--leader-elect-lease-duration", "8s", "--leader-elect-renew-deadline", "6s", "--leader-elect-retry-period", "1s", "--probe-address", "0",
		"--metrics-address", "127.0.0.1:8080", "--metrics-plain", "--metrics-cert-dir", "/certs", "--concurrency", "9", "--log-format", "text", "--log-level", "warn")
	if chosen.code != cli.ExitOK {
		t.Fatal(chosen.stderr)
	}
	chosen.options.Logger = nil
	if want := (plan.Options{LeaseNamespace: "other", Metrics: "127.0.0.1:8080", PlainMetrics: true, MetricsCertificates: "/certs", Concurrency: 9,
		LeaseDuration: 8 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: time.Second}); *chosen.options != want {
		t.Errorf("chosen %+v, want %+v", *chosen.options, want)
	}
	if chosen.stderr != "" {
		t.Errorf("at the level warn it logs %q", chosen.stderr)
	}
}

// TestLog: a line has the provider's names for what every line has.
func TestLog(t *testing.T) {
	o := execute(t, nil, "run", "--kubeconfig", kubeconfig(t, "https://127.0.0.1:1"))
	first, _, _ := strings.Cut(o.stderr, "\n")
	var line map[string]any
	if err := json.Unmarshal([]byte(first), &line); err != nil {
		t.Fatalf("%v in %q", err, first)
	}
	if line["message"] != "manager.start" || line["level"] != "INFO" || line["ts"] == nil || line["lease_namespace"] != "keys" {
		t.Errorf("line %v", line)
	}
}

// TestProbesAreNotLogged: of a library's log, what it says of each probe is left out,
// and nothing else.
func TestProbesAreNotLogged(t *testing.T) {
	var out bytes.Buffer
	root := logr.New(probesUnlogged{LogSink: logr.FromSlogHandler(slog.NewTextHandler(&out, nil)).GetSink()})
	library := root.WithName("controller-runtime")
	for _, l := range []logr.Logger{library.WithName("healthz"), library.WithName("healthz").WithValues("a", 1).WithName("more")} {
		l.Info("healthz check failed", "statuses", 1)
		l.Error(errors.New("no"), "cannot say")
	}
	if out.Len() > 0 {
		t.Errorf("it logs %s", out.String())
	}
	library.WithName("leader").WithValues("key", "value").Info("elected")
	library.Error(errors.New("broken"), "stopping")
	for _, want := range []string{"level=INFO msg=elected", "logger=controller-runtime/leader", "key=value", `level=ERROR msg=stopping`, "err=broken"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log has no %q: %s", want, out.String())
		}
	}
}

// TestShow: a plan that an API server has, and one that it has not.
func TestShow(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis", "/apis/kms.baokms.io":
			group := `{"kind":"APIGroup","apiVersion":"v1","name":"kms.baokms.io","versions":[{"groupVersion":"kms.baokms.io/v1alpha1","version":"v1alpha1"}]}`
			if r.URL.Path == "/apis" {
				group = `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + group + `]}`
			}
			fmt.Fprint(w, group)
		case "/apis/kms.baokms.io/v1alpha1":
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"kms.baokms.io/v1alpha1","resources":[{"name":"kmsrotationplans","kind":"KMSRotationPlan"}]}`)
		case "/apis/kms.baokms.io/v1alpha1/kmsrotationplans/here":
			fmt.Fprint(w, `{"apiVersion":"kms.baokms.io/v1alpha1","kind":"KMSRotationPlan","metadata":{"name":"here","generation":1},"spec":{"providerName":"p","nodes":{"names":["cp-1"]}},
"status":{"observedGeneration":1,"phase":"RewriteSafe","conditions":[{"type":"Ready","status":"True","reason":"RewriteSafe","message":"Rewrite now."}]}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	defer server.Close()
	config := kubeconfig(t, server.URL)
	text := execute(t, nil, "plan", "show", "here", "--kubeconfig", config)
	if text.code != cli.ExitOK || !strings.HasPrefix(text.stdout, "Plan here\n") || !strings.Contains(text.stdout, "Next steps\n  Rewrite now.\n") || text.stderr != "" {
		t.Errorf("exit code %d, %q, %q", text.code, text.stdout, text.stderr)
	}
	var view struct {
		Kind, Name string
		Judged     bool
		Status     struct{ Phase string }
	}
	asJSON := execute(t, nil, "plan", "show", "here", "--kubeconfig", config, "--output", "json")
	if err := json.Unmarshal([]byte(asJSON.stdout), &view); err != nil {
		t.Fatal(err)
	}
	if view.Kind != "PlanView" || view.Name != "here" || !view.Judged || view.Status.Phase != "RewriteSafe" {
		t.Errorf("JSON %+v", view)
	}
	gone := execute(t, nil, "plan", "show", "gone", "--kubeconfig", config)
	if gone.code != cli.ExitRuntime || !strings.Contains(gone.stderr, `there is no KMSRotationPlan "gone"`) || gone.stdout != "" {
		t.Errorf("exit code %d, %q", gone.code, gone.stderr)
	}
}

func TestVersion(t *testing.T) {
	text := execute(t, nil, "version")
	if text.code != cli.ExitOK || !strings.HasPrefix(text.stdout, "version:    ") || strings.Count(text.stdout, "\n") != 5 {
		t.Errorf("%d, %q", text.code, text.stdout)
	}
	var report map[string]any
	if err := json.Unmarshal([]byte(execute(t, nil, "version", "--output", "json").stdout), &report); err != nil {
		t.Fatal(err)
	}
	if report["apiVersion"] != "manager.kms.baokms.io/v1alpha1" || report["kind"] != "Version" || report["goVersion"] == "" {
		t.Errorf("JSON %v", report)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		if o := execute(t, nil, "completion", shell); o.code != cli.ExitOK || !strings.Contains(o.stdout, "bao-kms-manager") {
			t.Errorf("%s: exit code %d, %d bytes", shell, o.code, len(o.stdout))
		}
	}
	if o := execute(t, nil, "__complete", "run", "--log-level", ""); !strings.HasPrefix(o.stdout, "info\ndebug\nwarn\nerror\n") {
		t.Errorf("levels complete to %q", o.stdout)
	}
}

// TestHelp: every command explains itself within 80 columns, with examples that it
// accepts.
func TestHelp(t *testing.T) {
	clitest.CheckHelp(t, func(stdout *bytes.Buffer) *cobra.Command {
		return (&app{stdout: stdout, stderr: io.Discard, getenv: func(string) string { return "" }}).root()
	})
}

// TestErrorsShowControlCharacters: what comes from elsewhere cannot move a cursor.
func TestErrorsShowControlCharacters(t *testing.T) {
	o := execute(t, errors.New("one\x1b[2J\ntwo"), "run", "--kubeconfig", kubeconfig(t, "https://127.0.0.1:1"), "--log-level", "error")
	if o.stderr != "bao-kms-manager: one\\x1b[2J\ntwo\n" {
		t.Errorf("it says %q", o.stderr)
	}
}
