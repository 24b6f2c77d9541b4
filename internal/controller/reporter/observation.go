package reporter

import (
	"context"
	"time"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// observation is one look at the socket.
type observation struct {
	// at is when the look began: what it saw is no older, whatever answering took.
	at time.Time
	// report is nil exactly while silence is not.
	report  *report.NodeReport
	silence *silence
	// plans has an entry for every version that was asked, in that order; none
	// while there is no report.
	plans []v1alpha1.NodeRetirement
}

// The reasons of problems that the reporter states itself, in the spelling of
// the provider's own.
const (
	problemNoAnswer = "plan_unanswered"
	problemMoved    = "registry_moved"
	problemNoReport = "provider_unreachable"
)

// looks is how often a report and its plans are read until they fit together.
const looks = 3

// observe asks for the report and then for the plans that asked says for it. The
// registry may move in between: report and plans are read again until they are of
// the same one.
func (s *socket) observe(ctx context.Context, asked func(*report.NodeReport) []int32) observation {
	var o observation
	for range looks {
		o = s.look(ctx, asked)
		if o.silence != nil || o.fits() {
			break
		}
	}
	for i := range o.plans {
		if p := &o.plans[i]; !o.fitsPlan(p.Plan) {
			*p = problem(p.BeforeVersion, problemMoved,
				"the provider's registry changed while it was asked", "wait: the next report answers again")
		}
	}
	return o
}

func (s *socket) look(ctx context.Context, asked func(*report.NodeReport) []int32) observation {
	o := observation{at: time.Now()}
	if o.report, o.silence = s.report(ctx); o.silence != nil {
		return o
	}
	var hung *silence
	for _, before := range asked(o.report) {
		entry := v1alpha1.NodeRetirement{BeforeVersion: before}
		none := hung
		if none == nil {
			entry.Plan, entry.Problem, none = s.retirementPlan(ctx, before)
		}
		if none != nil {
			entry = problem(before, problemNoAnswer,
				"the provider gave its report but not this plan: "+none.message, "see the provider's logs on this node; the next report asks again")
			if none.reason == reasonTimeout {
				// One that hangs is not asked for the rest: each would take as long.
				hung = none
			}
		}
		o.plans = append(o.plans, entry)
	}
	return o
}

// fits reports whether all plans are of the reported registry.
func (o observation) fits() bool {
	for _, p := range o.plans {
		if !o.fitsPlan(p.Plan) {
			return false
		}
	}
	return true
}

func (o observation) fitsPlan(p *report.RetirementPlan) bool {
	if p == nil {
		return true
	}
	r := o.report
	return r.Registry != nil && p.StateHash == r.Registry.StateHash && p.ActiveKeyIDHash == r.ActiveKey.KeyIDHash
}

// problem is an entry without a plan. A sentence of a document has a bound, which
// no sentence here comes near.
func problem(before int32, reason, message, next string) v1alpha1.NodeRetirement {
	return v1alpha1.NodeRetirement{BeforeVersion: before, Problem: &report.Problem{
		APIVersion: report.APIVersion, Kind: report.KindProblem, Reason: reason, Message: message, NextStep: next,
	}}
}
