package dashboards

import (
	"slices"
	"strings"
	"testing"

	"github.com/baokms/baokms/test/deploy/deploytest"
)

func rules(t *testing.T) *deploytest.Rules {
	t.Helper()
	r := deploytest.ReadRules(t, "plan-alerts", 6)
	if want := []string{"openbao-kms-plans"}; !slices.Equal(r.Groups, want) {
		t.Fatalf("its groups are %q, want %q", r.Groups, want)
	}
	return r
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	rules(t).CheckPromtool(t)
}

func TestEachAlertIsTested(t *testing.T) {
	rules(t).CheckTested(t)
}

// TestEachAlertHelps: nothing of the manager is worth waking somebody, and no alert is taken for one of the provider's.
func TestEachAlertHelps(t *testing.T) {
	r := rules(t)
	r.CheckHelp(t, "manager.md")
	others := deploytest.Read(t, "deploy", "prometheus", "alerts.yaml")
	for _, a := range r.Alerts {
		if strings.Contains(others, "alert: "+a.Alert+"\n") {
			t.Errorf("%s: alerts.yaml has one of that name", a.Alert)
		}
		if s := a.Labels["severity"]; s != "warning" || len(a.Labels) != 1 {
			t.Errorf("%s: its labels are %v: nothing of the manager is worth waking somebody", a.Alert, a.Labels)
		}
	}
}
