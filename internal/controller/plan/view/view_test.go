package view

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 11, 30, 6, 16, 0, 0, time.UTC)

func at(ago time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-ago)} }

const (
	key3  = "n9CElBog1_Aa_PUV4U34l4aFyzFtt6_EBjjW0qUJIJY"
	key2  = "xn7jt_z_gZcbQC2EG0VZipq-jthIKGYx4_v29rP0O2U"
	state = "sha256:d93ac6e885f76d70e8685e2d927c1202893324aed3fe999ee6e2dfb0e951d9b8"
	next  = "sha256:9e870010d98bdd1a8f627e46dc35f553d66ae9e39d9d215929a3c1235fd03b1f"
)

func plan(change func(*v1alpha1.KMSRotationPlan)) *v1alpha1.KMSRotationPlan {
	p := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: "workload-a-2026q4", Generation: 2}}
	p.Spec.ProviderName = "openbao-kms-workload-a"
	p.Status.ObservedGeneration = 2
	change(p)
	return p
}

// The stories, each with a golden page.
var stories = map[string]*v1alpha1.KMSRotationPlan{
	"unjudged": plan(func(p *v1alpha1.KMSRotationPlan) { p.Status.ObservedGeneration = 0 }),
	"rotating": plan(func(p *v1alpha1.KMSRotationPlan) {
		s := &p.Status
		s.Phase, s.Summary = v1alpha1.Rotating, &v1alpha1.PlanSummary{Nodes: "1/3"}
		s.Nodes = []v1alpha1.NodeStatus{
			{Name: "cp-1", Ready: true, KeyIDHash: key3, TransitVersion: 3, RotationState: "active", Preflight: &v1alpha1.NodePreflight{Result: "pass"}, LastSeen: at(30 * time.Second)},
			{Name: "cp-2.a-long-name.control-plane.example.org", Ready: true, KeyIDHash: key2, TransitVersion: 2, RotationState: "pending",
				Pending:   &v1alpha1.NodePending{Version: 3, Observations: 2, Required: 3, EstimatedPromotion: at(-90 * time.Second)},
				Preflight: &v1alpha1.NodePreflight{Result: "fail", Failed: []string{"transit.key", "registry.checkpoint"}}, PersistenceDegraded: true, LastSeen: at(3 * time.Hour)},
			{Name: "cp-3", Reasons: []string{"report_missing"}, RotationState: "unknown"},
		}
		s.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionNodesReporting, Status: metav1.ConditionFalse, Reason: "ReportsMissing", Message: "cp-3 has no KMSNodeReport. Start the node reporter there, or correct spec.nodes."},
			{Type: v1alpha1.ConditionPreflightPassed, Status: metav1.ConditionUnknown, Reason: "NodesNotReporting", Message: "See NodesReporting."},
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Rotating", Message: "On cp-2.a-long-name.control-plane.example.org version 3 is pending. Wait until it has promoted; look at its provider's log when it does not."},
		}
	}),
	"approved": plan(func(p *v1alpha1.KMSRotationPlan) {
		s := &p.Status
		s.Phase, s.Summary = v1alpha1.Applying, &v1alpha1.PlanSummary{Nodes: "2/2", Retirement: "1/2 applied"}
		s.ActiveKeyIDHash, s.ActiveTransitVersion = key3, 3
		s.ConvergedSince, s.RewriteSafeAfter = at(26*time.Hour), at(26*time.Hour-5*time.Minute)
		s.Retirement = &v1alpha1.RetirementStatus{BeforeVersion: 3, Digest: state, ApprovedDigest: state, NodesPlanned: 2, NodesApplied: 1,
			Evidence: &v1alpha1.Evidence{Rewrite: "CHG-1042", Backups: "CHG-1043"}}
		command := "bao-kms-provider retire-versions --before-version 3 --apply --expected-state-hash " + state + " --expected-next-state-hash " + next
		for i, name := range []string{"cp-1", "cp-2"} {
			n := v1alpha1.NodeStatus{Name: name, Ready: true, KeyIDHash: key3, TransitVersion: 3, RotationState: "active", LastSeen: at(0),
				Preflight:  &v1alpha1.NodePreflight{Result: "pass"},
				Retirement: &v1alpha1.NodeRetirementStatus{State: v1alpha1.RetirementApplied, RemovedVersions: []int32{1, 2}}}
			if i == 1 {
				n.Retirement.State, n.Retirement.Command = v1alpha1.RetirementPlanned, command
			}
			s.Nodes = append(s.Nodes, n)
		}
		s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Applying",
			Message: "cp-1 has applied it. Run nodes[].retirement.command on cp-2, one node after the other."}}
	}),
	"lapsed": plan(func(p *v1alpha1.KMSRotationPlan) {
		p.Generation = 3 // its spec has changed since
		s := &p.Status
		s.Phase, s.Summary = v1alpha1.Degraded, &v1alpha1.PlanSummary{Nodes: "1/1"}
		s.ActiveKeyIDHash, s.ActiveTransitVersion = key3, 3
		s.RewriteSafeAfter = at(-5 * time.Minute)
		s.Retirement = &v1alpha1.RetirementStatus{BeforeVersion: 3, Digest: state, ApprovedDigest: next, NodesPlanned: 1}
		s.Nodes = []v1alpha1.NodeStatus{{Name: "cp-1", Generation: 4, WentBackFrom: &v1alpha1.RegistryMark{Generation: 7},
			Retirement: &v1alpha1.NodeRetirementStatus{Problem: "state_conflict: a file holds something else\x1b[31m; look at it"}}}
	}),
}

func TestText(t *testing.T) {
	for story, p := range stories {
		t.Run(story, func(t *testing.T) {
			var b bytes.Buffer
			if err := WriteText(&b, Of(p, now)); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", story+".txt")
			if *update {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("the page is\n%s\nwant\n%s", b.String(), want)
			}
			for line := range strings.Lines(b.String()) {
				line = strings.TrimSuffix(line, "\n")
				if len(line) > width && len(strings.Fields(line)) > 2 && !strings.Contains(line, "bao-kms-provider ") {
					t.Errorf("a line of %d columns: %s", len(line), line)
				}
				if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) {
					t.Errorf("a control character in %q", line)
				}
				if strings.TrimRight(line, " ") != line {
					t.Errorf("white space at the end of %q", line)
				}
			}
		})
	}
}

// TestJSON: a script gets the status as it is, and the steps of the page.
func TestJSON(t *testing.T) {
	for story, p := range stories {
		t.Run(story, func(t *testing.T) {
			var b bytes.Buffer
			v := Of(p, now)
			if err := WriteJSON(&b, v); err != nil {
				t.Fatal(err)
			}
			var got View
			if err := json.Unmarshal(b.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got.APIVersion != "manager.kms.baokms.io/v1alpha1" || got.Kind != "PlanView" || got.Name != p.Name || !got.ViewedAt.Time.Equal(now) {
				t.Errorf("head %s %s %s %s", got.APIVersion, got.Kind, got.Name, got.ViewedAt)
			}
			if got.Judged != (story == "rotating" || story == "approved") {
				t.Errorf("judged: %t", got.Judged)
			}
			if got.Status.Phase != p.Status.Phase || len(got.Status.Nodes) != len(p.Status.Nodes) || !slices.Equal(got.Next, v.Next) || len(got.Next) == 0 {
				t.Errorf("phase %s, %d nodes, next %v", got.Status.Phase, len(got.Status.Nodes), got.Next)
			}
		})
	}
}

// TestCommandsAreOfTheStatus: the page has no command but those that the manager
// wrote, and none while the status is of another spec.
func TestCommandsAreOfTheStatus(t *testing.T) {
	p := stories["approved"].DeepCopy()
	if v := Of(p, now); len(v.Next) != 2 || v.Next[1].Node != "cp-2" || v.Next[1].Command != p.Status.Nodes[1].Retirement.Command {
		t.Errorf("next: %+v", v.Next)
	}
	p.Generation++
	if v := Of(p, now); len(v.Next) != 1 || v.Next[0].Command != "" || v.Judged {
		t.Errorf("of another spec: %+v", v.Next)
	}
}

// TestOverdue: a status that a manager would have written again is not to be relied
// on, whatever it says.
func TestOverdue(t *testing.T) {
	cases := []struct {
		name      string
		reporting metav1.ConditionStatus
		seen      []time.Duration // before now
		want      bool
	}{
		{"as far behind as it may be", metav1.ConditionTrue, []time.Duration{16 * time.Minute, 0}, false},
		{"one node further", metav1.ConditionTrue, []time.Duration{0, 16*time.Minute + time.Second}, true},
		{"a node that does not report", metav1.ConditionFalse, []time.Duration{time.Hour}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := plan(func(p *v1alpha1.KMSRotationPlan) {
				p.Spec.ReportMaxAge.Duration = 3 * time.Minute
				p.Status.Phase = v1alpha1.RewriteSafe
				p.Status.Conditions = []metav1.Condition{
					{Type: v1alpha1.ConditionNodesReporting, Status: c.reporting}, {Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Message: "All is well."},
				}
				for _, ago := range c.seen {
					p.Status.Nodes = append(p.Status.Nodes, v1alpha1.NodeStatus{Name: "cp", LastSeen: at(ago)})
				}
			})
			v := Of(p, now)
			if v.Overdue != c.want || strings.HasPrefix(v.Next[0].Text, "Rely on nothing here") != c.want || v.Next[len(v.Next)-1].Text != "All is well." {
				t.Errorf("overdue %t, next %+v", v.Overdue, v.Next)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"now": 300 * time.Millisecond, "1s ago": -time.Second, "in 59s": 59 * time.Second, "in 1m0s": time.Minute,
		"2h5m ago": -2*time.Hour - 5*time.Minute, "in 3d4h": 76 * time.Hour,
	} {
		if got := distance(now.Add(d), now); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}
