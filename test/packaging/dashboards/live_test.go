package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baokms/baokms/test/stack/stacktest"
)

// TestAgainstTheExporters runs kube-state-metrics, the manager and a Prometheus that scrapes both and has loaded the rules. Every name that a
// rule or a panel uses must have been exported, every rule must evaluate, and every panel must show something.
func TestAgainstTheExporters(t *testing.T) {
	w := newWorld(t)
	w.write(w.troubled())
	exporter := w.exporter()
	var ofPlans, ofManager string
	eventually(t, func() (err error) {
		if ofPlans, err = get(exporter); err == nil && !strings.Contains(ofPlans, "baokms_node_report_unready_reason_info") {
			err = fmt.Errorf("kube-state-metrics exports %q", ofPlans)
		}
		return err
	})
	// The manager judges the plans anew, whose reports are old by now: all was seen before it starts.
	p := startPrometheus(t, exporter)
	p.until(`count(baokms_plan_phase == 1) > 0`)
	manager := w.manager()
	p.follow("manager", manager)
	p.until(`count(controller_runtime_reconcile_total{controller="plan"}) > 0`)
	// A series that comes with its first judgement shows an increase with the next.
	for settle, rate := 1, `sum(rate(controller_runtime_reconcile_time_seconds_count[30s])) > 0`; ; settle++ {
		w.run("patch", "krp", "not-judged", "--type=merge", fmt.Sprintf(`--patch={"spec":{"settleTime":"%ds"}}`, settle))
		if n, err := p.series(rate); err == nil && n > 0 {
			break
		} else if time.Since(p.started) > 2*patience {
			t.Fatalf("plans change, and Prometheus sees no judgement: %v", err)
		}
	}
	ofManager, err := get(manager)
	w.must(err)
	checkMetrics(t, ofPlans)

	expressions := dashboardExpressions(t)
	t.Run("names", func(t *testing.T) {
		for _, found := range problemsOf(t, []string{ofPlans, ofManager}, append(ruleExpressions(t), expressions...)) {
			t.Errorf("%s: %s", found.Name, found.Text)
		}
	})
	t.Run("rules", func(t *testing.T) {
		if n := p.badRules(t); n != len(alerts(t)) {
			t.Errorf("Prometheus has %d rules, want %d", n, len(alerts(t)))
		}
	})
	t.Run("panels", func(t *testing.T) {
		for _, e := range expressions {
			if n, err := p.series(e.Expr); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			} else if n == 0 {
				t.Errorf("%s shows nothing although it is all there: %s", e.Name, e.Expr)
			}
		}
	})
}

type problem struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// problemsOf holds expressions against scrapes, by Prometheus' own parser.
func problemsOf(t *testing.T, scrapes []string, expressions []expression) []problem {
	t.Helper()
	in, err := json.Marshal(map[string]any{
		"scrapes": scrapes, "targetLabels": []string{"job", "cluster", "instance"}, "others": []string{"up"}, "expressions": expressions,
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", ".")
	cmd.Dir = filepath.Join(root, "test", "deploy", "promql")
	cmd.Stdin = bytes.NewReader(in)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go run ./test/deploy/promql: %v\n%s", err, stderr.String())
	}
	var problems []problem
	if err := json.Unmarshal(out, &problems); err != nil {
		t.Fatal(err)
	}
	return problems
}

// prometheus is a running Prometheus. Its targets are in files, which it reads again when they change.
type prometheus struct {
	t            *testing.T
	address, dir string
	started      time.Time
}

// startPrometheus starts it on kube-state-metrics as the head of the rule file says, only faster.
func startPrometheus(t *testing.T, exporter string) *prometheus {
	t.Helper()
	p := &prometheus{t: t, address: fmt.Sprintf("127.0.0.1:%d", freePort(t)), dir: stacktest.Dir(t), started: time.Now()}
	rules, err := filepath.Abs(filepath.Join(root, "deploy", "prometheus", "plan-alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p.write("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: all
    file_sd_configs: [{files: [%q], refresh_interval: 1s}]
`, rules, filepath.Join(p.dir, "*.json")))
	p.follow("kube-state-metrics", exporter)
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(filepath.Dir(promtool(t)), "prometheus"), "--config.file="+filepath.Join(p.dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(p.dir, "data"), "--web.listen-address="+p.address)
	cmd.Stdout, cmd.Stderr = &log, &log
	// However the test ends, it does too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // a signal ended it
		if t.Failed() {
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			t.Logf("the end of Prometheus' log:\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
	return p
}

func (p *prometheus) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// follow adds a target.
func (p *prometheus) follow(job, address string) {
	p.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(job+".json", fmt.Sprintf(`[{"targets": [%q], "labels": {"job": %q, "cluster": "workload-a"}}]`, u.Host, job))
}

// until waits until an expression has a result.
func (p *prometheus) until(expr string) {
	p.t.Helper()
	eventually(p.t, func() error {
		var data struct{ Result []any }
		err := p.ask("query", url.Values{"query": {expr}}, &data)
		if err == nil && len(data.Result) == 0 {
			err = fmt.Errorf("no result for %s", expr)
		}
		return err
	})
}

// series counts what an expression has shown since the start, second by second.
func (p *prometheus) series(expr string) (int, error) {
	var data struct{ Result []any }
	// A whole second after now, or what was scraped last would not be seen.
	end := time.Now().Unix() + 1
	err := p.ask("query_range", url.Values{
		"query": {expr}, "start": {strconv.FormatInt(p.started.Unix(), 10)}, "end": {strconv.FormatInt(end, 10)}, "step": {"1"},
	}, &data)
	return len(data.Result), err
}

// badRules reports each rule that does not evaluate, and returns how many rules there are.
func (p *prometheus) badRules(t *testing.T) int {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.ask("rules", nil, &data); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" {
				t.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	return n
}

// ask calls Prometheus' API.
func (p *prometheus) ask(what string, parameters url.Values, data any) error {
	body, err := get("http://" + p.address + "/api/v1/" + what + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	answer := struct{ Data any }{data}
	return json.Unmarshal([]byte(body), &answer)
}
