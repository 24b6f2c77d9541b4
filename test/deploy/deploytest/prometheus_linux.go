package deploytest

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

// Start runs a program until the test ends, however it ends. Then ended, unless it is nil, is given all that the program wrote, and a test
// that failed prints the end of it.
func Start(t testing.TB, ended func(log string), path string, args ...string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	// A test that is killed runs no cleanup; only Linux ends its programs then.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // a signal ended it
		if ended != nil {
			ended(log.String())
		}
		if t.Failed() {
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			t.Logf("the end of the log of %s:\n%s", filepath.Base(path), strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
}

// Prometheus is a running Prometheus that has loaded a rule file. Its targets are in files, which it reads again when they change.
type Prometheus struct {
	t            testing.TB
	address, dir string
	started      time.Time
}

// StartPrometheus starts one as the head of the rule file says, only faster: every second. It has no target yet.
func StartPrometheus(t testing.TB, r *Rules) *Prometheus {
	t.Helper()
	p := &Prometheus{t: t, address: fmt.Sprintf("127.0.0.1:%d", FreePort(t)), dir: stacktest.Dir(t), started: time.Now()}
	p.write("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: all
    file_sd_configs: [{files: [%q], refresh_interval: 1s}]
`, Path(t, "deploy", "prometheus", r.name+".yaml"), filepath.Join(p.dir, "*.json")))
	Start(t, nil, Tool(t, "prometheus"), "--config.file="+filepath.Join(p.dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(p.dir, "data"), "--web.listen-address="+p.address)
	return p
}

func (p *Prometheus) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// Follow adds a job of one cluster with its targets, each a host:port with /metrics.
func (p *Prometheus) Follow(job string, addresses ...string) {
	p.t.Helper()
	targets, err := json.Marshal([]map[string]any{{"targets": addresses, "labels": map[string]string{"job": job, "cluster": "workload-a"}}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(job+".json", string(targets))
}

// Until waits until an expression has a result.
func (p *Prometheus) Until(expr string) {
	p.t.Helper()
	Eventually(p.t, func() error {
		var data struct{ Result []any }
		err := p.ask("query", url.Values{"query": {expr}}, &data)
		if err == nil && len(data.Result) == 0 {
			err = fmt.Errorf("no result for %s", expr)
		}
		return err
	})
}

// Series counts the series that an expression has shown since the start, second by second.
func (p *Prometheus) Series(expr string) (int, error) {
	var data struct{ Result []any }
	// A whole second after now, or what was scraped last would not be seen.
	end := time.Now().Unix() + 1
	err := p.ask("query_range", url.Values{
		"query": {expr}, "start": {strconv.FormatInt(p.started.Unix(), 10)}, "end": {strconv.FormatInt(end, 10)}, "step": {"1"},
	}, &data)
	return len(data.Result), err
}

// Check: every name that a rule or a panel uses was exported in one of the scrapes, every rule evaluates, and every panel has shown
// something. The caller has made everything happen before that a panel shows.
func (p *Prometheus) Check(t *testing.T, scrapes []string, r *Rules, d *Dashboard) {
	t.Helper()
	shown := d.expressions(t)
	t.Run("names", func(t *testing.T) {
		for _, found := range problemsOf(t, scrapes, append(r.expressions(t), shown...)) {
			t.Errorf("%s: %s", found.Name, found.Text)
		}
	})
	t.Run("rules", func(t *testing.T) {
		if n := p.badRules(t); n != len(r.Alerts) {
			t.Errorf("Prometheus has %d rules, want %d", n, len(r.Alerts))
		}
	})
	t.Run("panels", func(t *testing.T) {
		for _, e := range shown {
			if n, err := p.Series(e.Expr); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			} else if n == 0 {
				t.Errorf("%s shows nothing although it all happened: %s", e.Name, e.Expr)
			}
		}
	})
}

// badRules reports each rule that does not evaluate, and returns how many rules there are.
func (p *Prometheus) badRules(t testing.TB) int {
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
func (p *Prometheus) ask(what string, parameters url.Values, data any) error {
	body, err := Get("http://" + p.address + "/api/v1/" + what + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	answer := struct{ Data any }{data}
	return json.Unmarshal([]byte(body), &answer)
}
