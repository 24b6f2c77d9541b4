package deploy

import (
	"fmt"
	"testing"

	"github.com/baokms/baokms/test/deploy/deploytest"
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
	r := rules(t)
	p := deploytest.StartPrometheus(t, r)
	var targets []string
	for _, n := range w.nodes {
		targets = append(targets, n.Files.MetricsAddress)
	}
	p.Follow("bao-kms-provider", targets...)
	p.Until(fmt.Sprintf(`count(up == 1) == %d`, len(w.nodes)))
	w.live()
	for _, metric := range []string{"auth_recovery_total", "auth_renewal_total"} {
		p.Until(fmt.Sprintf(`count(increase(openbao_kms_%s{status="ok"}[1m]) > 0) == %d`, metric, len(w.nodes)))
	}
	p.Check(t, w.scrapes, r, dashboard(t))
}
