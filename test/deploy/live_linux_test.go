package deploy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// TestAgainstTheProvider runs the built provider and a Prometheus that scrapes
// it and has loaded the rules. Every name that a rule or a panel uses must have
// been exported, every rule must evaluate, and every panel must show something:
// it all happened.
func TestAgainstTheProvider(t *testing.T) {
	w := newWorld(t)
	if len(w.nodes) == 0 {
		t.FailNow()
	}
	p := startPrometheus(t, w.nodes)
	w.live()
	for _, metric := range []string{"auth_recovery_total", "auth_renewal_total"} {
		p.until(fmt.Sprintf(`count(increase(openbao_kms_%s{status="ok"}[1m]) > 0) == %d`, metric, len(w.nodes)))
	}

	expressions := dashboardExpressions(t)
	t.Run("names", func(t *testing.T) {
		for _, found := range problemsOf(t, w.scrapes, append(ruleExpressions(t), expressions...)) {
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
				t.Errorf("%s shows nothing although it all happened: %s", e.Name, e.Expr)
			}
		}
	})
}

// prometheus is a running Prometheus.
type prometheus struct {
	t       *testing.T
	address string
	started time.Time
}

// startPrometheus starts it on providers as the head of the rule file says, only
// faster.
func startPrometheus(t *testing.T, nodes []*stack.Provider) *prometheus {
	t.Helper()
	dir := stacktest.Dir(t)
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, n := range nodes {
		targets = append(targets, strconv.Quote(n.Files.MetricsAddress))
	}
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: bao-kms-provider
    static_configs:
      - targets: [%s]
        labels: {cluster: workload-a}
`, rules, strings.Join(targets, ", "))
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{t: t, address: freeAddress(t), started: time.Now()}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool(t, "prometheus"), "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	cmd.Stdout, cmd.Stderr = log, log
	// However the test ends, it does too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // a signal ended it
		log.Close()
		if t.Failed() {
			lines := strings.Split(strings.TrimSpace(read(t, log.Name())), "\n")
			t.Logf("the end of Prometheus' log:\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
	p.until(fmt.Sprintf(`count(up == 1) == %d`, len(nodes)))
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// until waits until an expression has a result.
func (p *prometheus) until(expr string) {
	p.t.Helper()
	gomega.NewWithT(p.t).Eventually(func() error {
		var data struct{ Result []any }
		err := p.ask("query", url.Values{"query": {expr}}, &data)
		if err == nil && len(data.Result) == 0 {
			err = fmt.Errorf("no result for %s", expr)
		}
		return err
	}, patience, 200*time.Millisecond).Should(gomega.Succeed())
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

// badRules reports each rule that does not evaluate, and returns how many rules
// there are.
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
