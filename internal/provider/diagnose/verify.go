package diagnose

import (
	"context"
	"fmt"
	"slices"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/report"
)

// reasonNotJudged is the code of a check that verify-rotation could not make.
const reasonNotJudged = "not_judged"

// VerifyRotation makes the checks of the node report's preflight anew, the round
// trip included, and tells what rotation-plan tells. Its word is what an operator
// attaches to a change before going on, so what could not be judged is no pass,
// and the report says itself what one node cannot know (design: config-and-cli,
// commands). It changes nothing in OpenBao: what the round trip encrypts is
// random and kept nowhere.
func VerifyRotation(ctx context.Context, o Options) *command.Report {
	e := newExam(o)
	defer e.close()
	return e.verificationReport(ctx, run(ctx, e, table, report.CheckIDs)).Seal(command.KindRotation)
}

// verificationReport is the report of verify-rotation, unsealed.
func (e *exam) verificationReport(ctx context.Context, checks []command.Check) *command.Report {
	r := e.rotationReport(ctx, checks)
	r.Checks = e.judged(r.Checks)
	r.Confidence, r.CannotKnow = report.ConfidenceLimited, slices.Clone(report.Limits)
	r.Next = append(r.Next, e.goOn(r)...)
	return r
}

// judged turns a check that was skipped into a warning, unless another one that
// failed says why.
func (e *exam) judged(checks []command.Check) []command.Check {
	checks = slices.Clone(checks)
	if command.Worst(checks) == command.Fail {
		for i, c := range checks {
			if c.ID == statusConsistency && c.Result == command.Skip && e.running == nil {
				checks[i].Message = "no live provider was seen, so which key_id this node gives out is not known"
			}
		}
		return checks
	}
	for i, c := range checks {
		if c.Result != command.Skip {
			continue
		}
		found := "this was not judged, so it is not known to be good"
		if c.Message != "" {
			found += ": " + c.Message
		}
		next := "run 'bao-kms-provider doctor': it makes every check and says which one stands in the way"
		if e.fresh || c.ID == statusConsistency && e.running == nil {
			next = "start the provider, and verify again before going on"
		}
		if c.ID == statusConsistency && e.running == nil {
			found = "no provider serves server.socketPath, so which key_id this node gives out was not judged"
		}
		c.Result, c.Reason, c.Message, c.NextStep = command.Warn, reasonNotJudged, found, next
		checks[i] = c
	}
	return checks
}

// goOn is what an operator does with the verification.
func (e *exam) goOn(r *command.Report) []command.Step {
	if command.Worst(r.Checks) == command.Fail {
		return []command.Step{{Text: "Put right what failed, and verify again before data is rewritten or a version is retired"}}
	}
	local := e.local()
	if local == nil {
		return nil
	}
	if latest := e.metadata.Latest; latest > local.Active().TransitVersion {
		return []command.Step{{Text: fmt.Sprintf(
			"Wait until version %d is active on this node, and verify again before data is rewritten or a version is retired", latest)}}
	}
	steps := []command.Step{{Text: "Compare the active key_id's hash with what every other node says: all must be the same"}}
	if old := retired(local); len(old) > 0 {
		steps = append(steps, command.Step{
			Text: fmt.Sprintf("Rewrite the data, and when nothing needs %s any more, backups included, plan its retirement on every node", versions(old)),
			Commands: []string{fmt.Sprintf("%sbao-kms-provider retire-versions --before-version %d",
				asProvider(), local.Active().TransitVersion)},
		})
	}
	return steps
}
