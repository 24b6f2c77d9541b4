package diagnose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/registry"
)

// The checks of the operator's transitions: is this one allowed now?
const (
	retirementAllowed  = "retirement.allowed"
	restorationAllowed = "restoration.allowed"
)

// planNeeds are the checks that a transition rests on. registry.metadata is not
// one of them: it fails in the recovery case, which a retirement is the way out
// of; the transition validates the metadata itself.
var planNeeds = []string{
	configValid, authLogin, transitKey, transitProfile, transitUpsert, registryState, registryCheck,
}

// Plan is what a retirement or restoration would make of this node's registry,
// as its transition makes it (design: registry, retirement and restoration).
type Plan struct {
	// Report is the plan for the reviewer, sealed.
	Report *command.Report
	// Current is the registry that the files hold, Next what becomes of it:
	// Current itself when there is nothing to do. Both are nil when a check failed.
	Current, Next *registry.Registry
}

// PlanRetirement is the answer of retire-versions without --apply: what becomes
// of this node's registry when every retired version below before is removed. It
// changes nothing, and the same registry gives the same report at any time.
func PlanRetirement(ctx context.Context, o Options, before int) *command.Report {
	return Retirement(ctx, o, before).Report
}

// PlanRestoration is the same for restore-versions.
func PlanRestoration(ctx context.Context, o Options, versions []int) *command.Report {
	return Restoration(ctx, o, versions).Report
}

// Retirement is the plan of a retirement with the registries that it is about,
// for the command that applies it.
func Retirement(ctx context.Context, o Options, before int) *Plan {
	return planned(ctx, o, retirementOf(before))
}

// Restoration is the plan of a restoration.
func Restoration(ctx context.Context, o Options, versions []int) *Plan {
	return planned(ctx, o, restorationOf(versions))
}

// transition is one of the operator's two, with its arguments.
type transition struct {
	check, kind string
	// args are the command and its flags but for those of an apply.
	args string
	// review is what has to be made sure before it is applied.
	review func(change *command.Change) string
	// compare is what its reviewer holds against the other nodes' plans.
	compare string
	// make is the registry's own transition.
	make func(*registry.Registry, registry.Metadata, registry.Rules) (*registry.Registry, []int, error)
	// found words what it would change, change says it for the report.
	found  func(versions []int, md registry.Metadata) string
	change func(versions []int, md registry.Metadata) command.Change
	// after are the steps that follow an apply, on this node and elsewhere.
	after func(change *command.Change) []command.Step
}

func retirementOf(before int) transition {
	return transition{
		check: retirementAllowed,
		kind:  command.KindRetirementPlan,
		args:  fmt.Sprintf("retire-versions --before-version %d", before),
		review: func(c *command.Change) string {
			if c.Recovery {
				return "If an object or a backup may still need what goes, lower the minimum in OpenBao instead of applying this plan"
			}
			return "Make sure that every object of every encrypted resource, those of the API server's own included, has been written again under the active version, " +
				"and that no backup needs an older one: neither the provider nor OpenBao can know that"
		},
		compare: "activeKeyIdHash must be the same on every node, while ",
		make: func(r *registry.Registry, md registry.Metadata, rules registry.Rules) (*registry.Registry, []int, error) {
			return r.Retire(md, rules, before)
		},
		found: func(removed []int, md registry.Metadata) string {
			switch {
			case len(removed) == 0:
				return fmt.Sprintf("nothing to do: this node decrypts with no version below %d", before)
			case forbidsAll(md, removed):
				return "to remove: " + versionsText(removed) + "; OpenBao's minimum forbids " + them(removed) + " already, so this is a recovery, and only what stays was validated"
			}
			return "to remove: " + versionsText(removed) + "; this node then decrypts nothing that was written under " + them(removed)
		},
		change: func(removed []int, md registry.Metadata) command.Change {
			return command.Change{BeforeVersion: before, RemovedVersions: append([]int{}, removed...), Recovery: forbidsAll(md, removed)}
		},
		after: AfterRetirement,
	}
}

func restorationOf(versions []int) transition {
	named := slices.Compact(slices.Sorted(slices.Values(versions)))
	return transition{
		check: restorationAllowed,
		kind:  command.KindRestorationPlan,
		args:  "restore-versions --versions " + numbers(named, ","),
		review: func(*command.Change) string {
			return "Find out what still needs the versions: it is to be written again before they are retired again"
		},
		make: func(r *registry.Registry, md registry.Metadata, rules registry.Rules) (*registry.Registry, []int, error) {
			return r.Restore(md, rules, named)
		},
		found: func(restored []int, _ registry.Metadata) string {
			return "to restore: " + versionsText(restored) + "; this node then decrypts what was written under " + them(restored)
		},
		change: func(restored []int, _ registry.Metadata) command.Change {
			return command.Change{RestoredVersions: append([]int{}, restored...)}
		},
		after: AfterRestoration,
	}
}

// forbidsAll reports whether OpenBao's minimums forbid every one of the versions
// that would go: the recovery case.
func forbidsAll(md registry.Metadata, removed []int) bool {
	return len(removed) > 0 && !slices.ContainsFunc(removed, func(v int) bool { return !md.Forbids(v) })
}

// planned examines the node and makes the transition, in memory.
func planned(ctx context.Context, o Options, t transition) *Plan {
	e := newExam(o)
	defer e.close()
	return t.plan(ctx, e, table)
}

// plan makes the checks that a transition rests on, then the transition.
func (t transition) plan(ctx context.Context, e *exam, table []check) *Plan {
	p := &Plan{Report: &command.Report{}}
	rows := append(slices.Clip(table), check{
		id:     t.check,
		impact: command.Safety,
		needs:  []string{transitKey, transitProfile, transitUpsert, registryState},
		run:    func(_ context.Context, e *exam) finding { return p.decide(e, t) },
	})
	p.Report.Checks = p.judged(timeless(run(ctx, e, rows, append(slices.Clip(planNeeds), t.check))))
	p.Report.Provider = e.provider()
	if p.Report.Change != nil {
		p.Report.Next = planSteps(e.o, t, p.Report.Change)
	}
	p.Report.Seal(t.kind)
	return p
}

// timeless leaves out what a login that went well has to add: how long its token
// lives, which may differ from one plan to the next.
func timeless(checks []command.Check) []command.Check {
	for i := range checks {
		if c := &checks[i]; c.ID == authLogin && c.Result == command.Pass {
			c.Message = ""
		}
	}
	return checks
}

// judged makes sure that a plan which was not made is told as a failure, also
// where what it needs was only skipped.
func (p *Plan) judged(checks []command.Check) []command.Check {
	if p.Next != nil || command.Worst(checks) == command.Fail {
		return checks
	}
	last := &checks[len(checks)-1]
	*last = command.Check{ID: last.ID, Impact: last.Impact, Result: command.Fail, Reason: "not_judged",
		Message:  "no plan: not made were " + strings.Join(last.SkippedBecause, ", "),
		NextStep: "run 'bao-kms-provider doctor' and do what it says of these checks"}
	return checks
}

// decide asks the registry.
func (p *Plan) decide(e *exam, t transition) finding {
	switch {
	case e.checkpointErr != nil:
		return skippedFor(registryCheck)
	case e.fresh || e.registry == nil:
		return failed(string(registry.StateUnavailable), "this node has no key registry yet, so it has no version to retire or restore",
			"start the provider once; if this node has served before, restore its state file and checkpoint first")
	}
	r := e.registry
	next, versions, err := t.make(r, e.metadata, e.rules())
	if err != nil {
		return forbidden(err)
	}
	change := t.change(versions, e.metadata)
	change.ActiveKeyIDHash = r.Active().Binding.KeyIDHash()
	change.StateHash = r.Hash()
	change.NextGeneration = next.Generation()
	change.NextStateHash = next.Hash()
	p.Current, p.Next, p.Report.Change = r, next, &change
	message := t.found(versions, e.metadata)
	if e.interrupted {
		// Loading completes such a save to the same document, so the plan holds.
		completes := "the apply, or the next start,"
		if next == r {
			completes = "the next start"
		}
		message += "; the last save was cut short, which " + completes + " completes without another state hash"
	}
	return passed(message)
}

// forbidden words what the registry answers. Anything but a guard and metadata
// that does not validate is a defect.
func forbidden(err error) finding {
	if r, ok := errors.AsType[*registry.Refusal](err); ok {
		return failed(string(r.Guard), r.Message(), r.NextStep)
	}
	if r, ok := errors.AsType[*registry.Rejection](err); ok {
		return failed(string(r.Problem), r.Message(), r.NextStep)
	}
	return failed("unknown", "the outcome would break an invariant of the registry", "change nothing and report this as a defect")
}

// versionsText is "Transit version 1" or "Transit versions 1, 2".
func versionsText(versions []int) string {
	if len(versions) == 1 {
		return "Transit version " + strconv.Itoa(versions[0])
	}
	return "Transit versions " + numbers(versions, ", ")
}

func them(versions []int) string {
	if len(versions) == 1 {
		return "it"
	}
	return "them"
}

func numbers(versions []int, separator string) string {
	words := make([]string, len(versions))
	for i, v := range versions {
		words[i] = strconv.Itoa(v)
	}
	return strings.Join(words, separator)
}
