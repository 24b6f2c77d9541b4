package dashboards

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/baokms/baokms/test/deploy/deploytest"
)

func dashboard(t *testing.T) *deploytest.Dashboard {
	t.Helper()
	return deploytest.ReadDashboard(t, "baokms-plans")
}

func TestTheDashboardIsCanonical(t *testing.T) {
	dashboard(t).CheckCanonical(t)
}

func TestTheDashboardsQuestions(t *testing.T) {
	dashboard(t).CheckRows(t, "Where does each plan stand?", "Does every node report?", "Does the manager work?")
}

// ofPlans are the metrics that have the label plan; one of them is narrowed to the chosen plans, too.
var ofPlans = regexp.MustCompile(`baokms_(plan_|manager_plan_)\w+`)

// selector is a metric with its matchers.
var selector = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)

func TestEachPanelIsComplete(t *testing.T) {
	dashboard(t).CheckPanels(t, func(expr string) error {
		found := selector.FindAllStringSubmatch(expr, -1)
		if len(found) == 0 {
			return errors.New("no metric is narrowed")
		}
		var errs []error
		for _, m := range found {
			if !strings.Contains(m[2], `cluster=~"$cluster"`) || ofPlans.MatchString(m[1]) && !strings.HasPrefix(m[1], "baokms_manager_plans") && !strings.Contains(m[2], `plan=~"$plan"`) {
				errs = append(errs, fmt.Errorf("%s is not narrowed to what is chosen", m[1]))
			}
		}
		return errors.Join(errs...)
	})
}
