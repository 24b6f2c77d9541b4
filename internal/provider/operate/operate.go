package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/diagnose"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/store"
)

// ApplyRetirement removes the retired versions below before from this node's
// registry, if that still has the state hash expected. A refusal is a failed check
// of the report. An error is a *config.Error, or says that the run was stopped or
// that the save did not complete, and what the files then hold.
func ApplyRetirement(ctx context.Context, o diagnose.Options, before int, expected string) (*command.Report, error) {
	return retirement(o, before, expected).run(ctx, o, open)
}

// ApplyRestoration makes the named removed versions decrypt again on this node,
// under the same conditions.
func ApplyRestoration(ctx context.Context, o diagnose.Options, versions []int, expected string) (*command.Report, error) {
	return restoration(o, versions, expected).run(ctx, o, open)
}

func retirement(o diagnose.Options, before int, expected string) job {
	return job{
		kind:     command.KindRetirement,
		name:     "retire-versions",
		change:   command.Change{BeforeVersion: before, RemovedVersions: []int{}},
		expected: expected,
		plan:     func(ctx context.Context) *diagnose.Plan { return diagnose.Retirement(ctx, o, before) },
		follows:  func(r *registry.Registry) bool { return r.FollowsRetirement(expected, before) },
		after:    diagnose.AfterRetirement,
	}
}

func restoration(o diagnose.Options, versions []int, expected string) job {
	return job{
		kind:     command.KindRestoration,
		name:     "restore-versions",
		change:   command.Change{RestoredVersions: []int{}},
		expected: expected,
		plan:     func(ctx context.Context) *diagnose.Plan { return diagnose.Restoration(ctx, o, versions) },
		follows:  func(r *registry.Registry) bool { return r.FollowsRestoration(expected, versions) },
		after:    diagnose.AfterRestoration,
	}
}

// files are the registry's files under the writer's lock: a *store.Store.
type files interface {
	Load(fingerprint string) (*registry.Registry, error)
	Save(next *registry.Registry) error
	Close() error
}

func open(path string) (files, error) {
	s, err := store.Open(path)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// job is one apply.
type job struct {
	kind, name string
	// change is what the report says when this run has nothing to change.
	change   command.Change
	expected string // the reviewed state hash
	plan     func(context.Context) *diagnose.Plan
	// follows: the registry is what applying the plan has made of the reviewed one.
	follows func(*registry.Registry) bool
	after   func(*command.Change) []command.Step
}

// run applies the plan to the files that open gives.
func (j job) run(ctx context.Context, o diagnose.Options, open func(path string) (files, error)) (*command.Report, error) {
	c, err := config.Load(o.ConfigPath, config.Getenv(o.Getenv))
	if err != nil {
		return nil, err
	}
	r := &command.Report{Provider: &command.Provider{
		Name:        c.Transit.KeyIDScope.ProviderName,
		Version:     o.Build.Version,
		Fingerprint: c.Fingerprint(),
	}}
	f, err := open(c.State.Path)
	if err != nil {
		r.Checks = append(r.Checks, j.notLocked(err))
		return r.Seal(j.kind), nil
	}
	defer f.Close()
	r.Checks = append(r.Checks, passed(stateLock, "no other process writes the state"))
	if err := j.underLock(ctx, r, f, c.Fingerprint()); err != nil {
		return nil, err
	}
	return r.Seal(j.kind), nil
}

// underLock does what needs the lock and writes down how it went.
func (j job) underLock(ctx context.Context, r *command.Report, f files, fingerprint string) error {
	current, err := f.Load(fingerprint)
	if unfinished, ok := errors.AsType[*store.SaveError](err); ok {
		return fmt.Errorf("%s: nothing of this plan was saved, because an earlier save that was cut short could not be completed: %w; then run the same command again",
			j.name, unfinished)
	}
	switch {
	case err != nil:
		r.Checks = append(r.Checks, notLoaded(err))
		return nil
	case current == nil:
		r.Checks = append(r.Checks, noState)
		return nil
	case current.Hash() != j.expected && j.follows(current):
		r.Checks = append(r.Checks, passed(planReviewed, fmt.Sprintf(
			"this plan is applied already: the registry, generation %d, follows directly from the reviewed one; nothing was saved now", current.Generation())))
		j.unchanged(r, current)
		return nil
	}
	reviewed := j.reviewed(current)
	r.Checks = append(r.Checks, reviewed)
	if reviewed.Result != command.Pass {
		return nil
	}
	return j.apply(ctx, r, f, current)
}

// apply makes the plan again and saves its outcome.
func (j job) apply(ctx context.Context, r *command.Report, f files, current *registry.Registry) error {
	plan := j.plan(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("%s: stopped, and nothing was saved; run the same command again", j.name)
	}
	r.Checks = append(r.Checks, plan.Report.Checks...)
	if plan.Next == nil || plan.Report.Result == command.Fail {
		return nil
	}
	if err := j.same(plan, current); err != nil {
		return err
	}
	if plan.Next == plan.Current {
		j.unchanged(r, current)
		return nil
	}
	if err := f.Save(plan.Next); err != nil {
		return j.notSaved(err, plan.Next.Generation())
	}
	r.Checks = append(r.Checks, passed(stateSaved, fmt.Sprintf("generation %d is durable, with the state hash %s", plan.Next.Generation(), plan.Next.Hash())))
	change := *plan.Report.Change
	change.Applied = true
	r.Change, r.Next = &change, j.after(&change)
	return nil
}

// same makes sure that the plan is of the registry that the lock protects, and
// that its outcome is what the reviewer of that hash has seen.
func (j job) same(plan *diagnose.Plan, current *registry.Registry) error {
	switch c := plan.Report.Change; {
	case plan.Current.Hash() != current.Hash():
		return fmt.Errorf("%s: the state file was changed while this command held its lock, and nothing was saved; find out what else writes it, then plan again", j.name)
	case c.StateHash != j.expected, c.NextStateHash != plan.Next.Hash(), c.NextGeneration != plan.Next.Generation(),
		plan.Next != plan.Current && !plan.Next.Succeeds(current.Generation(), j.expected):
		return fmt.Errorf("%s: the outcome is not that of the reviewed plan, and nothing was saved; report this as a defect", j.name)
	}
	return nil
}

// unchanged writes down that the registry is as the plan wants it.
func (j job) unchanged(r *command.Report, current *registry.Registry) {
	change := j.change
	change.Applied = true
	change.ActiveKeyIDHash = current.Active().Binding.KeyIDHash()
	change.StateHash, change.NextStateHash, change.NextGeneration = current.Hash(), current.Hash(), current.Generation()
	r.Change, r.Next = &change, j.after(&change)
}

// notSaved words the end of a save that was not confirmed. Loading accepts the
// registry of before and the planned one, also one file of each, and completes
// what was begun; the same command then finds its plan applied or applies it.
func (j job) notSaved(err error, generation uint64) error {
	if _, ok := errors.AsType[*store.SaveError](err); !ok {
		return fmt.Errorf("%s: nothing was saved: %w", j.name, err)
	}
	return fmt.Errorf("%s: the save of generation %d was not confirmed: %w; the files may hold the registry of before or the planned one, "+
		"and neither is damaged: then run the same command again, or start the provider; both complete what was begun", j.name, generation, err)
}
