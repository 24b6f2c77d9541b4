package dashboards

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/test/deploy/deploytest"
)

// TestAgainstTheExporters runs kube-state-metrics, the manager and a Prometheus that scrapes both and has loaded the rules. Every name that a
// rule or a panel uses must have been exported, every rule must evaluate, and every panel must show something.
func TestAgainstTheExporters(t *testing.T) {
	w := newWorld(t)
	w.write(w.troubled())
	exporter := w.exporter()
	var ofPlans, ofManager string
	deploytest.Eventually(t, func() (err error) {
		if ofPlans, err = deploytest.Get(exporter); err == nil && !strings.Contains(ofPlans, "baokms_node_report_unready_reason_info") {
			err = fmt.Errorf("kube-state-metrics exports %q", ofPlans)
		}
		return err
	})
	// The manager judges the plans anew, whose reports are old by now: all was seen before it starts.
	r, started := rules(t), time.Now()
	p := deploytest.StartPrometheus(t, r)
	p.Follow("kube-state-metrics", host(t, exporter))
	p.Until(`count(baokms_plan_phase == 1) > 0`)
	manager := w.manager()
	p.Follow("manager", host(t, manager))
	p.Until(`count(controller_runtime_reconcile_total{controller="plan"}) > 0`)
	// A series that comes with its first judgement shows an increase with the next.
	for settle, rate := 1, `sum(rate(controller_runtime_reconcile_time_seconds_count[30s])) > 0`; ; settle++ {
		w.run("patch", "krp", "not-judged", "--type=merge", fmt.Sprintf(`--patch={"spec":{"settleTime":"%ds"}}`, settle))
		if n, err := p.Series(rate); err == nil && n > 0 {
			break
		} else if time.Since(started) > 2*deploytest.Patience {
			t.Fatalf("plans change, and Prometheus sees no judgement: %v", err)
		}
	}
	ofManager, err := deploytest.Get(manager)
	w.must(err)
	checkMetrics(t, ofPlans)
	p.Check(t, []string{ofPlans, ofManager}, r, dashboard(t))
}

// host is the host:port of a URL.
func host(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
