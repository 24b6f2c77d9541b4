package plan

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

func TestTransitions(t *testing.T) {
	is := func(kind string, s metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: s}
	}
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	cases := []struct {
		name     string
		old, now []metav1.Condition
		want     []string
	}{
		{"a new plan says no of everything", nil, []metav1.Condition{is("Converged", no), is("Degraded", unknown)}, nil},
		{"a new plan that is converged", nil, []metav1.Condition{is("Converged", yes)}, []string{"Normal Converged"}},
		{"nothing changes", []metav1.Condition{is("Converged", yes)}, []metav1.Condition{is("Converged", yes)}, nil},
		{"becomes so", []metav1.Condition{is("Converged", no)}, []metav1.Condition{is("Converged", yes)}, []string{"Normal Converged"}},
		{"no longer so", []metav1.Condition{is("Converged", yes)}, []metav1.Condition{is("Converged", no)}, []string{"Warning ConvergedFalse"}},
		{"no longer known", []metav1.Condition{is("Converged", yes)}, []metav1.Condition{is("Converged", unknown)}, []string{"Warning ConvergedUnknown"}},
		{"known not to be so", []metav1.Condition{is("Converged", unknown)}, []metav1.Condition{is("Converged", no)}, []string{"Normal ConvergedFalse"}},
		{"degraded", []metav1.Condition{is("Degraded", no)}, []metav1.Condition{is("Degraded", yes)}, []string{"Warning Degraded"}},
		{"degraded no more", []metav1.Condition{is("Degraded", yes)}, []metav1.Condition{is("Degraded", no)}, []string{"Normal DegradedFalse"}},
		{"degraded from the start", nil, []metav1.Condition{is("Degraded", yes)}, []string{"Warning Degraded"}},
		{"in the order of the status", []metav1.Condition{is("B", no), is("A", no)}, []metav1.Condition{is("A", yes), is("B", yes)}, []string{"Normal A", "Normal B"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, tr := range transitions(c.old, c.now) {
				kind := "Normal "
				if tr.warns {
					kind = "Warning "
				}
				got = append(got, kind+eventReason(tr.condition))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestNote(t *testing.T) {
	if got := note(metav1.Condition{Reason: "Settled", Message: "It is."}); got != "Settled: It is." {
		t.Errorf("note %q", got)
	}
	exact := metav1.Condition{Reason: "R", Message: strings.Repeat("m", longestNote-3)}
	if got := note(exact); len(got) != longestNote || strings.Contains(got, "...") {
		t.Errorf("a note that fits is %d bytes: %q", len(got), got[longestNote-30:])
	}
	for cut := range 4 { // wherever it cuts through a character
		got := note(metav1.Condition{Reason: strings.Repeat("R", 1+cut), Message: strings.Repeat("…", longestNote)})
		if len(got) > longestNote || !utf8.ValidString(got) || !strings.HasSuffix(got, "(see the condition)") {
			t.Errorf("%d bytes, valid %t: %q", len(got), utf8.ValidString(got), got[len(got)-40:])
		}
	}
}

// Every condition that a plan can have has reasons of Events that are valid names.
func TestEventReasons(t *testing.T) {
	for _, kind := range []string{v1alpha1.ConditionNodesReporting, v1alpha1.ConditionRetirementApproved} {
		for _, s := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			if r := eventReason(metav1.Condition{Type: kind, Status: s}); len(r) > 128 || !strings.HasPrefix(r, kind) {
				t.Errorf("reason %q", r)
			}
		}
	}
}

// TestRegarding: what was approved has an Event each time, and everything else a
// series.
func TestRegarding(t *testing.T) {
	plan := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: "9", Generation: 2}}
	for condition, want := range map[string]string{v1alpha1.ConditionRetirementApproved: "9", v1alpha1.ConditionConverged: "", v1alpha1.ConditionReady: ""} {
		got := regarding(plan, condition)
		if got.ResourceVersion != want || got.Name != "p" || got.UID != "u" || got.Kind != "KMSRotationPlan" || got.APIVersion != "kms.baokms.io/v1alpha1" {
			t.Errorf("%s: an Event regards %+v", condition, got)
		}
	}
}
