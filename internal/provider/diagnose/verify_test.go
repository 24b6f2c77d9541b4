package diagnose

import (
	"slices"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/report"
)

func TestVerifyRotationReports(t *testing.T) {
	for name, c := range map[string]struct {
		node    func(*story)
		failing []string
		result  command.Result
		next    []string
	}{
		"promoted": {func(s *story) { s.rotate(2).probe(3).promote() }, nil, command.Pass, []string{"Compare the active key_id's hash", "Rewrite the data"}},
		"steady":   {func(*story) {}, nil, command.Pass, []string{"Compare the active key_id's hash"}},
		"pending":  {func(s *story) { s.rotate(2).probe(1) }, nil, command.Pass, []string{"Wait until version 2 is active"}},
		"unseen":   {func(s *story) { s.rotate(2) }, nil, command.Pass, []string{"Wait until version 2 is active"}},
		"failed": {func(s *story) { s.rotate(2).probe(3).promote() }, []string{transitRoundTrip}, command.Fail,
			[]string{"Put right what failed"}},
		"not-compared": {func(s *story) { s.rotate(2).probe(3).promote().unread() }, []string{transitKey}, command.Fail, []string{"Put right what failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			c.node(s)
			r := s.verificationReport(t.Context(), checked(report.CheckIDs, c.failing...)).Seal(command.KindRotation)
			holdsReport(t, "verify-"+name, s.exam, r)
			if r.Result != c.result || r.Confidence != "limited" || !slices.Equal(r.CannotKnow, report.Limits) {
				t.Errorf("the result is %s, the confidence %q in all but %q", r.Result, r.Confidence, r.CannotKnow)
			}
			if len(r.Next) != len(c.next) {
				t.Fatalf("next are %+v", r.Next)
			}
			for i, words := range c.next {
				if !strings.Contains(r.Next[i].Text, words) {
					t.Errorf("step %d is %q, want %q", i, r.Next[i].Text, words)
				}
			}
		})
	}
}

// What could not be judged never passes: an operator attaches the word to a
// change.
func TestWhatWasNotJudgedIsNoPass(t *testing.T) {
	s := newStory(t)
	s.running = nil
	checks := checked(report.CheckIDs)
	i := slices.Index(report.CheckIDs, statusConsistency)
	checks[i].Result, checks[i].SkippedBecause = command.Skip, []string{socketKMS}
	checks[0].Result, checks[0].Message = command.Skip, "not looked at"
	r := s.verificationReport(t.Context(), checks).Seal(command.KindRotation)
	if r.Result != command.Warn {
		t.Errorf("the result is %s", r.Result)
	}
	for at, words := range map[int]string{i: "no provider serves server.socketPath", 0: "not looked at"} {
		if c := r.Checks[at]; c.Result != command.Warn || c.Reason != "not_judged" || !strings.Contains(c.Message, words) || c.NextStep == "" {
			t.Errorf("%s is %+v", c.ID, c)
		}
	}
	// Before the first start nothing but that start helps.
	s.fresh = true
	if r := s.verificationReport(t.Context(), checks); !strings.HasPrefix(r.Checks[0].NextStep, "start the provider") {
		t.Errorf("%s of a fresh node is %+v", r.Checks[0].ID, r.Checks[0])
	}
	s.fresh = false
	// With a failed check the others say what they were skipped for.
	checks[1].Result = command.Fail
	if r := s.verificationReport(t.Context(), checks); r.Checks[i].Result != command.Skip {
		t.Errorf("%s is %+v", statusConsistency, r.Checks[i])
	} else if want := "no live provider was seen, so which key_id this node gives out is not known"; r.Checks[i].Message != want {
		t.Errorf("beside a failure %s says %q, want %q", statusConsistency, r.Checks[i].Message, want)
	}
}

// The checks are those of the node report, under the ids of the table; none of
// the commands names one that is not there.
func TestTheCommandsChecksAreInTheTable(t *testing.T) {
	for name, ids := range map[string][]string{"verify-key": keyChecks, "rotation-plan": planChecks, "verify-rotation": report.CheckIDs} {
		for _, id := range ids {
			if !slices.ContainsFunc(table, func(c check) bool { return c.id == id }) {
				t.Errorf("%s: the table has no %s", name, id)
			}
		}
	}
}
