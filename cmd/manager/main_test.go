package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

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
		{"nothing", nil, nil, exitUsage, "name a command"},
		{"no command", []string{"dance"}, nil, exitUsage, `unknown command "dance"`},
		{"no flag", []string{"run", "--dance"}, nil, exitUsage, "unknown flag: --dance"},
		{"an argument too many", []string{"run", "now"}, nil, exitUsage, `unknown command "now"`},
		{"a bad level", []string{"run", "--log-level", "loud"}, nil, exitUsage, "write info or debug or warn or error"},
		{"plain metrics for all", []string{"run", "--metrics-plain"}, nil, exitUsage, "loopback IP address only"},
		{"a negative concurrency", []string{"run", "--concurrency=-1"}, nil, exitUsage, "concurrency is negative"},
		{"no kubeconfig", []string{"run", "--kubeconfig", "/does/not/exist"}, nil, exitRuntime, "finding the cluster"},
		{"run fails", []string{"run", "--kubeconfig", config}, errors.New("leader election lost"), exitRuntime, "bao-kms-manager: leader election lost"},
		{"run ends", []string{"run", "--kubeconfig", config}, nil, exitOK, "manager.shutdown"},
		{"plan alone", []string{"plan"}, nil, exitUsage, "name a command: show"},
		{"no name", []string{"plan", "show"}, nil, exitUsage, "accepts 1 arg(s), received 0"},
		{"no server", []string{"plan", "show", "p", "--kubeconfig", config}, nil, exitRuntime, `reading the KMSRotationPlan "p"`},
		{"no node", []string{"node-reporter", "--report-socket", "/s"}, nil, exitUsage, "name the node with --node-name or $NODE_NAME"},
		{"no socket", []string{"node-reporter", "--node-name", "n"}, nil, exitUsage, "--report-socket"},
		{"no interval", []string{"node-reporter", "--node-name", "n", "--report-socket", "/s", "--interval", "0s"}, nil, exitUsage, "must be positive"},
		{"a relative socket", []string{"node-reporter", "--node-name", "n", "--report-socket", "s", "--kubeconfig", config}, nil, exitUsage, "not absolute"},
		{"a shell that is none", []string{"completion", "cmd"}, nil, exitUsage, `unknown command "cmd"`},
		{"no shell", []string{"completion"}, nil, exitUsage, "name a shell"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := execute(t, c.reconcile, c.args...)
			if o.code != c.code || !strings.Contains(o.stderr, c.stderr) {
				t.Errorf("exit code %d, want %d; it says %q, want %q", o.code, c.code, o.stderr, c.stderr)
			}
			if hint := strings.Contains(o.stderr, "--help' for what it takes."); hint != (c.code == exitUsage) {
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
	if byDefault.code != exitOK {
		t.Fatal(byDefault.stderr)
	}
	byDefault.options.Logger = nil
	if want := (plan.Options{LeaderElection: true, LeaseNamespace: "keys", Probes: ":8081", Metrics: ":8443", Concurrency: 4}); *byDefault.options != want {
		t.Errorf("by default %+v, want %+v", *byDefault.options, want)
	}
	if byDefault.host != "https://api.example:6443" {
		t.Errorf("it talks to %s", byDefault.host)
	}
	chosen := execute(t, nil, "run", "--kubeconfig", config, "--leader-elect=false", "--leader-elect-namespace", "other", "--probe-address", "0",
		"--metrics-address", "127.0.0.1:8080", "--metrics-plain", "--metrics-cert-dir", "/certs", "--concurrency", "9", "--log-format", "text", "--log-level", "warn")
	if chosen.code != exitOK {
		t.Fatal(chosen.stderr)
	}
	chosen.options.Logger = nil
	if want := (plan.Options{LeaseNamespace: "other", Metrics: "127.0.0.1:8080", PlainMetrics: true, MetricsCertificates: "/certs", Concurrency: 9}); *chosen.options != want {
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
	if text.code != exitOK || !strings.HasPrefix(text.stdout, "Plan here\n") || !strings.Contains(text.stdout, "Next steps\n  Rewrite now.\n") || text.stderr != "" {
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
	if gone.code != exitRuntime || !strings.Contains(gone.stderr, `there is no KMSRotationPlan "gone"`) || gone.stdout != "" {
		t.Errorf("exit code %d, %q", gone.code, gone.stderr)
	}
}

func TestVersion(t *testing.T) {
	text := execute(t, nil, "version")
	if text.code != exitOK || !strings.HasPrefix(text.stdout, "version:    ") || strings.Count(text.stdout, "\n") != 5 {
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
		if o := execute(t, nil, "completion", shell); o.code != exitOK || !strings.Contains(o.stdout, "bao-kms-manager") {
			t.Errorf("%s: exit code %d, %d bytes", shell, o.code, len(o.stdout))
		}
	}
	if o := execute(t, nil, "__complete", "run", "--log-level", ""); !strings.HasPrefix(o.stdout, "info\ndebug\nwarn\nerror\n") {
		t.Errorf("levels complete to %q", o.stdout)
	}
}

// TestHelp: every command explains itself within 80 columns, with an example that it
// accepts.
func TestHelp(t *testing.T) {
	a := &app{getenv: func(string) string { return "" }}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "help" || cmd.Parent() != nil && cmd.Parent().Name() == "completion" {
			return // the library's own
		}
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			if cmd.Short == "" || cmd.Long == "" || !strings.Contains(cmd.Example, "  bao-kms-manager ") {
				t.Errorf("short %q, long %q, example %q", cmd.Short, cmd.Long, cmd.Example)
			}
			args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
			o := execute(t, nil, args...)
			if o.code != exitOK || !strings.Contains(o.stdout, "Examples:") {
				t.Errorf("exit code %d, %q", o.code, o.stderr)
			}
			for line := range strings.Lines(o.stdout) {
				if len(strings.TrimSuffix(line, "\n")) > 80 {
					t.Errorf("a line of more than 80 columns: %q", line)
				}
			}
			for example := range strings.Lines(strings.ReplaceAll(cmd.Example, "\\\n", " ")) {
				words := strings.Fields(example)
				if len(words) == 0 || words[0] != program {
					continue
				}
				if i := slices.Index(words, ">"); i > 0 {
					words = words[:i]
				}
				found, rest, err := a.root().Find(words[1:])
				if err == nil {
					err = found.ParseFlags(rest)
				}
				if err != nil {
					t.Errorf("the example %q: %v", example, err)
				}
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(a.root())
}

// TestErrorsShowControlCharacters: what comes from elsewhere cannot move a cursor.
func TestErrorsShowControlCharacters(t *testing.T) {
	o := execute(t, errors.New("one\x1b[2J\ntwo"), "run", "--kubeconfig", kubeconfig(t, "https://127.0.0.1:1"), "--log-level", "error")
	if o.stderr != "bao-kms-manager: one\\x1b[2J\ntwo\n" {
		t.Errorf("it says %q", o.stderr)
	}
}
