package assess_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
	"github.com/baokms/baokms/internal/report"
)

const (
	isTrue    = metav1.ConditionTrue
	isFalse   = metav1.ConditionFalse
	isUnknown = metav1.ConditionUnknown
)

func target(v int32) *int32 { return &v }

func TestConditions(t *testing.T) {
	empty := func(w *world) { w.machines = map[string]*machine{} }
	stale := func(w *world) { w.machines["cp-2"].seen = w.now.Add(-3 * time.Minute) }
	asks := func(w *world) { w.asksRetirement(3) }
	check := func(result report.Result) func(*world) {
		return func(w *world) {
			w.machines["cp-2"].checks = map[string]report.Result{report.CheckRegistryState: result}
		}
	}
	cases := []struct {
		name      string
		set       func(*world)
		condition string
		status    metav1.ConditionStatus
		reason    string
		says      []string
	}{
		{"all report", func(*world) {}, v1alpha1.ConditionNodesReporting, isTrue, assess.ReasonAllReporting, []string{"All 3 nodes (cp-1, cp-2 and cp-3) reported within 3m0s."}},
		{"no nodes, reporting", empty, v1alpha1.ConditionNodesReporting, isUnknown, assess.ReasonNoNodes, []string{"spec.nodes"}},
		{"an old report", stale, v1alpha1.ConditionNodesReporting, isFalse, assess.ReasonReportsTooOld, []string{"cp-2 (last seen 2026-11-30T05:57:00Z) has not reported for 3m0s or longer", "node reporter"}},
		{"a report from the future", func(w *world) { w.machines["cp-2"].seen = w.now.Add(31 * time.Second) }, v1alpha1.ConditionNodesReporting, isFalse, assess.ReasonReportsUnusable, []string{"cp-2 has a clock that is ahead", "Set the clocks"}},
		{"a report from just ahead", func(w *world) { w.machines["cp-2"].seen = w.now.Add(30 * time.Second) }, v1alpha1.ConditionNodesReporting, isTrue, assess.ReasonAllReporting, nil},
		{"a report of another provider", func(w *world) { w.machines["cp-2"].provider = "other" }, v1alpha1.ConditionNodesReporting, isFalse, assess.ReasonReportsUnusable, []string{"cp-2 reports another provider", "providerName"}},

		{"all agree", func(*world) {}, v1alpha1.ConditionConverged, isTrue, assess.ReasonAllAgree, []string{"All 3 nodes", "version 3", "nothing is pending"}},
		{"all on the target", func(w *world) { w.plan.Spec.TargetTransitVersion = target(3) }, v1alpha1.ConditionConverged, isTrue, assess.ReasonAllAgree, nil},
		{"below the target", func(w *world) { w.plan.Spec.TargetTransitVersion = target(4) }, v1alpha1.ConditionConverged, isFalse, assess.ReasonNotTargetVersion, []string{"the plan wants version 4", "Rotate the Transit key"}},
		{"above the target", func(w *world) { w.plan.Spec.TargetTransitVersion = target(2) }, v1alpha1.ConditionConverged, isFalse, assess.ReasonNotTargetVersion, []string{"the plan wants version 2", "Correct spec.targetTransitVersion"}},
		{"one pending", func(w *world) { w.machines["cp-3"].observe(4) }, v1alpha1.ConditionConverged, isFalse, assess.ReasonRotationPending, []string{"cp-3 (version 4, seen 3 of 3 times) waits", "Wait"}},
		{"one behind", func(w *world) { w.machines["cp-3"].active = 2 }, v1alpha1.ConditionConverged, isFalse, assess.ReasonKeysDiffer, []string{"cp-3 with version 2", "cp-1 and cp-2 with version 3", "rotation-plan"}},
		{"one not ready", func(w *world) { w.machines["cp-3"].reasons = []string{"status_stale", "auth_failed"} }, v1alpha1.ConditionConverged, isFalse, assess.ReasonNodesNotReady, []string{"cp-3 (status_stale, auth_failed) is not ready", "doctor"}},
		{"one starting", func(w *world) {
			w.machines["cp-3"].starting, w.machines["cp-3"].reasons = true, []string{"starting"}
		}, v1alpha1.ConditionConverged, isFalse, assess.ReasonNodesNotReady, []string{"cp-3 (starting)"}},
		{"one silent", stale, v1alpha1.ConditionConverged, isFalse, assess.ReasonNodesNotReporting, []string{"cp-2 has no report that counts"}},
		{"no nodes, converged", empty, v1alpha1.ConditionConverged, isUnknown, assess.ReasonNoNodes, nil},

		{"no settle time", func(w *world) { w.plan.Spec.SettleTime.Duration = 0 }, v1alpha1.ConditionRewriteSafe, isTrue, assess.ReasonSettled, []string{"converged since 2026-11-30T06:00:00Z", "may be rewritten now"}},
		{"settling", func(*world) {}, v1alpha1.ConditionRewriteSafe, isFalse, assess.ReasonSettling, []string{"All 3 nodes", "Do not rewrite before 2026-11-30T06:05:00Z"}},
		{"not converged", stale, v1alpha1.ConditionRewriteSafe, isFalse, assess.ReasonNotConverged, []string{"Do not rewrite yet.", "cp-2"}},
		{"two keys of one version, rewrite", func(w *world) { w.plan.Spec.SettleTime.Duration = 0; w.machines["cp-2"].former = "other" }, v1alpha1.ConditionRewriteSafe, isFalse, assess.ReasonNodesDiverged, []string{"Do not rewrite.", "cp-2: version 1"}},
		{"no nodes, rewrite", empty, v1alpha1.ConditionRewriteSafe, isUnknown, assess.ReasonNoNodes, nil},

		{"all passed", func(*world) {}, v1alpha1.ConditionPreflightPassed, isTrue, assess.ReasonAllPassed, []string{"All 3 nodes"}},
		{"a warning", check(report.Warn), v1alpha1.ConditionPreflightPassed, isTrue, assess.ReasonPassedWithWarnings, []string{"cp-2 (registry.state)", "verify-rotation"}},
		{"a failure", check(report.Fail), v1alpha1.ConditionPreflightPassed, isFalse, assess.ReasonChecksFailed, []string{"cp-2 (registry.state)", "verify-rotation"}},
		{"an unknown", check(report.Unknown), v1alpha1.ConditionPreflightPassed, isUnknown, assess.ReasonChecksUnknown, []string{"cp-2 (registry.state)", "Wait"}},
		{"a result of later days", check("later"), v1alpha1.ConditionPreflightPassed, isUnknown, assess.ReasonChecksUnknown, []string{"cp-2 (registry.state)"}},
		{"preflight of a silent node", stale, v1alpha1.ConditionPreflightPassed, isUnknown, assess.ReasonNodesNotReporting, []string{"cp-2"}},
		{"no retirement plan, yet safe", func(w *world) {
			asks(w)
			w.plan.Spec.SettleTime.Duration = 0
			w.machines["cp-2"].unasked = true
		}, v1alpha1.ConditionReady, isFalse, string(v1alpha1.Converged), []string{"may be rewritten", "cp-2 has not told yet"}},
		{"no maximum age", func(w *world) { w.plan.Spec.ReportMaxAge.Duration = 0; stale(w) }, v1alpha1.ConditionNodesReporting, isFalse, assess.ReasonReportsTooOld, []string{"3m0s"}},
		{"no nodes, preflight", empty, v1alpha1.ConditionPreflightPassed, isUnknown, assess.ReasonNoNodes, nil},

		{"no retirement, planned", func(*world) {}, v1alpha1.ConditionRetirementPlanned, isUnknown, assess.ReasonNotRequested, []string{"asks for no retirement"}},
		{"same versions", asks, v1alpha1.ConditionRetirementPlanned, isTrue, assess.ReasonSameVersions, []string{"All 3 nodes", "below version 3 removes versions 1 and 2"}},
		{"nothing to remove", func(w *world) {
			asks(w)
			for _, m := range w.machines {
				m.retire(3)
			}
		}, v1alpha1.ConditionRetirementPlanned, isTrue, assess.ReasonNothingToRemove, []string{"nothing below version 3"}},
		{"plans differ", func(w *world) { asks(w); w.machines["cp-2"].retire(2) }, v1alpha1.ConditionRetirementPlanned, isFalse, assess.ReasonPlansDiffer, []string{"cp-2: version 2.", "cp-1 and cp-3: versions 1 and 2.", "before anybody approves"}},
		{"plan refused", func(w *world) {
			asks(w)
			w.machines["cp-2"].refusal = &report.Problem{Reason: "rotation_pending", Message: "it is pending", NextStep: "wait\nthen plan"}
		}, v1alpha1.ConditionRetirementPlanned, isFalse, assess.ReasonPlanRefused, []string{"cp-2 (rotation_pending: it is pending; wait then plan)"}},
		{"plan not asked yet", func(w *world) { asks(w); w.machines["cp-2"].unasked = true }, v1alpha1.ConditionRetirementPlanned, isUnknown, assess.ReasonAwaitingPlans, []string{"cp-2 has not told yet", "log"}},
		{"planned and silent", func(w *world) { asks(w); stale(w) }, v1alpha1.ConditionRetirementPlanned, isUnknown, assess.ReasonNodesNotReporting, []string{"cp-2"}},
		{"no nodes, planned", func(w *world) { asks(w); empty(w) }, v1alpha1.ConditionRetirementPlanned, isUnknown, assess.ReasonNoNodes, nil},

		{"no retirement, approved", func(*world) {}, v1alpha1.ConditionRetirementApproved, isUnknown, assess.ReasonNotRequested, nil},
		{"awaiting review", func(w *world) { asks(w); w.plan.Spec.SettleTime.Duration = 0 }, v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonNotApproved, []string{"Review the plans of cp-1, cp-2 and cp-3", "sha256:", "evidence"}},
		{"nothing to review", func(w *world) { asks(w); w.machines["cp-2"].unasked = true }, v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonNotApproved, []string{"nothing to review yet"}},
		{"an approval of something else", func(w *world) {
			asks(w)
			w.plan.Spec.SettleTime.Duration = 0
			w.plan.Spec.Retirement.ApprovedDigest, w.plan.Spec.Retirement.Evidence = stateHash("x"), &v1alpha1.Evidence{}
		}, v1alpha1.ConditionRetirementApproved, isFalse, assess.ReasonPlanChanged, []string{"cp-1, cp-2 and cp-3", "Apply nothing", "approvedDigest to sha256:"}},
		{"an approval without a digest", func(w *world) {
			asks(w)
			w.machines["cp-2"].unasked = true
			w.plan.Spec.Retirement.ApprovedDigest, w.plan.Spec.Retirement.Evidence = stateHash("x"), &v1alpha1.Evidence{}
		}, v1alpha1.ConditionRetirementApproved, isUnknown, assess.ReasonDigestUnavailable, []string{"RetirementPlanned"}},
		{"no nodes, approved", func(w *world) { asks(w); empty(w) }, v1alpha1.ConditionRetirementApproved, isUnknown, assess.ReasonNoNodes, nil},

		{"no retirement, applied", func(*world) {}, v1alpha1.ConditionRetirementApplied, isUnknown, assess.ReasonNotRequested, nil},
		{"not approved, applied", asks, v1alpha1.ConditionRetirementApplied, isFalse, assess.ReasonNotApproved, []string{"No approval counts"}},
		{"digest unavailable, applied", func(w *world) {
			asks(w)
			w.machines["cp-2"].unasked = true
			w.plan.Spec.Retirement.ApprovedDigest, w.plan.Spec.Retirement.Evidence = stateHash("x"), &v1alpha1.Evidence{}
		}, v1alpha1.ConditionRetirementApplied, isUnknown, assess.ReasonDigestUnavailable, nil},
		{"no nodes, applied", func(w *world) { asks(w); empty(w) }, v1alpha1.ConditionRetirementApplied, isUnknown, assess.ReasonNoNodes, nil},

		{"consistent", func(*world) {}, v1alpha1.ConditionDegraded, isFalse, assess.ReasonConsistent, nil},
		{"consistent as far as known", stale, v1alpha1.ConditionDegraded, isUnknown, assess.ReasonNodesNotReporting, []string{"cp-2"}},
		{"two keys of one version", func(w *world) { w.machines["cp-2"].key = "other" }, v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodesDiverged, []string{"different keys under one Transit version", "cp-1 and cp-3: version 1", "cp-2: version 1", "rewrite nothing"}},
		{"a version in use is removed elsewhere", func(w *world) { w.machines["cp-2"].active = 2; w.machines["cp-1"].retire(3) }, v1alpha1.ConditionDegraded, isTrue, assess.ReasonNodesDiverged, []string{"cp-2 encrypts with version 2", "removed on cp-1", "restore-versions"}},
		{"no nodes, degraded", empty, v1alpha1.ConditionDegraded, isUnknown, assess.ReasonNoNodes, nil},

		{"ready at once", func(w *world) { w.plan.Spec.SettleTime.Duration = 0 }, v1alpha1.ConditionReady, isTrue, string(v1alpha1.Converged), []string{"may be rewritten"}},
		{"not ready while settling", func(*world) {}, v1alpha1.ConditionReady, isFalse, string(v1alpha1.Settling), []string{"Do not rewrite before"}},
		{"not ready before review", func(w *world) { asks(w); w.plan.Spec.SettleTime.Duration = 0 }, v1alpha1.ConditionReady, isFalse, string(v1alpha1.AwaitingReview), []string{"approvedDigest to sha256:"}},
		{"not ready when degraded", func(w *world) { w.machines["cp-2"].key = "other" }, v1alpha1.ConditionReady, isFalse, string(v1alpha1.Degraded), []string{"different keys"}},
		{"not ready while rotating", func(w *world) { w.machines["cp-3"].observe(4) }, v1alpha1.ConditionReady, isFalse, string(v1alpha1.Rotating), []string{"cp-3"}},
		{"not ready while a node is silent", stale, v1alpha1.ConditionReady, isFalse, string(v1alpha1.Observing), []string{"cp-2"}},
		{"ready without nodes", empty, v1alpha1.ConditionReady, isUnknown, string(v1alpha1.Observing), nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			w.judge()
			w.wants(c.condition, c.status, c.reason, c.says...)
			if s := &w.plan.Status; len(s.Conditions) != 9 || s.ObservedGeneration != 1 {
				t.Errorf("%d conditions, observed generation %d", len(s.Conditions), s.ObservedGeneration)
			}
			for _, got := range w.plan.Status.Conditions {
				if got.ObservedGeneration != 1 || !got.LastTransitionTime.Time.Equal(start) || got.Message == "" || got.Reason == "" {
					t.Errorf("incomplete condition %+v", got)
				}
			}
		})
	}
}

func TestMissingAndEmptyReports(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(assess.Input)
		code  string
		says  string
	}{
		{"none", func(in assess.Input) { delete(in.Reports, "cp-2") }, assess.NodeReportMissing, "cp-2 has no KMSNodeReport"},
		{"without a document", func(in assess.Input) { in.Reports["cp-2"].Status.Report = nil }, assess.NodeReportEmpty, "cp-2 has an empty KMSNodeReport"},
		{"another provider's document", func(in assess.Input) { in.Reports["cp-2"].Status.Report.Provider.Name = "other" }, assess.NodeReportOtherProvider, "cp-2 reports another provider"},
		{"without a time", func(in assess.Input) { in.Reports["cp-2"].Status.ObservedAt = nil }, assess.NodeReportEmpty, "cp-2 has an empty KMSNodeReport"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.judge()
			in := w.input()
			c.spoil(in)
			w.take(in)
			reason := assess.ReasonReportsMissing
			if c.code == assess.NodeReportOtherProvider {
				reason = assess.ReasonReportsUnusable
			}
			w.wants(v1alpha1.ConditionNodesReporting, isFalse, reason, c.says)
			n := w.node("cp-2")
			if n.Ready || len(n.Reasons) != 1 || n.Reasons[0] != c.code {
				t.Errorf("node %+v, want not ready for %s", n, c.code)
			}
			// What was known of its registry stays.
			if n.Generation != 7 || n.StateHash != stateHash("cp-2") || n.TransitVersion != 3 || !n.LastSeen.Time.Equal(start) {
				t.Errorf("node %+v has lost what was known", n)
			}
			if got := w.plan.Status.Summary.Nodes; got != "2/3" {
				t.Errorf("summary %s", got)
			}
		})
	}
}

func TestNodeStatus(t *testing.T) {
	w := newWorld(t)
	m := w.machines["cp-2"]
	m.observe(4)
	m.reasons = []string{"deep_probe_failed"}
	m.checks = map[string]report.Result{report.CheckTransitRoundTrip: report.Fail, report.CheckRegistryState: report.Warn}
	w.judge()
	n := w.node("cp-2")
	if n.Ready || n.Reasons[0] != "deep_probe_failed" || n.KeyIDHash != keyHash("", 3) || n.RotationState != "pending" || n.Generation != 8 ||
		n.StateHash != stateHash("cp-2/observe 4") || n.Checkpoint != "confirmed" || n.ProviderVersion != "1.0.0" || !n.LastSeen.Time.Equal(start) {
		t.Errorf("node %+v", n)
	}
	if p := n.Pending; p == nil || p.Version != 4 || p.Observations != 3 || p.Required != 3 || !p.Stable || !p.EstimatedPromotion.Time.Equal(start.Add(time.Minute)) {
		t.Errorf("pending %+v", p)
	}
	if p := n.Preflight; p.Result != "fail" || len(p.Failed) != 1 || p.Failed[0] != report.CheckTransitRoundTrip {
		t.Errorf("preflight %+v", p)
	}
}

func TestTransitionTimes(t *testing.T) {
	w := newWorld(t)
	w.judge()
	w.pass(5 * time.Minute)
	safe := condition(t, &w.plan.Status, v1alpha1.ConditionRewriteSafe)
	if want := start.Add(5 * time.Minute); !safe.LastTransitionTime.Time.Equal(want) {
		t.Errorf("RewriteSafe changed at %s, want %s", safe.LastTransitionTime, want)
	}
	if c := condition(t, &w.plan.Status, v1alpha1.ConditionConverged); !c.LastTransitionTime.Time.Equal(start) {
		t.Errorf("Converged changed at %s, want %s", c.LastTransitionTime, start)
	}
	w.plan.Generation = 2
	w.judge()
	if c := condition(t, &w.plan.Status, v1alpha1.ConditionConverged); !c.LastTransitionTime.Time.Equal(start) || c.ObservedGeneration != 2 {
		t.Errorf("condition %+v", c)
	}
}
