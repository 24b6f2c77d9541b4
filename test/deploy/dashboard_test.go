package deploy

import (
	"errors"
	"strings"
	"testing"

	"github.com/baokms/baokms/test/deploy/deploytest"
)

func dashboard(t *testing.T) *deploytest.Dashboard {
	t.Helper()
	return deploytest.ReadDashboard(t, "baokms")
}

func TestTheDashboardIsCanonical(t *testing.T) {
	dashboard(t).CheckCanonical(t)
}

func TestTheDashboardsQuestions(t *testing.T) {
	dashboard(t).CheckRows(t, "Are all nodes on one key?", "Is it fast?", "Is anything about to expire?")
}

// chosen is what narrows a panel's metrics to the variables.
const chosen = `job=~"$job",cluster=~"$cluster",instance=~"$instance"`

func TestEachPanelIsComplete(t *testing.T) {
	dashboard(t).CheckPanels(t, func(expr string) error {
		if n := strings.Count(expr, "openbao_kms_"); n == 0 || n != strings.Count(expr, chosen) {
			return errors.New("a metric is not narrowed to the chosen nodes")
		}
		return nil
	})
}
