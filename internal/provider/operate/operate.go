package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/diagnose"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/store"
)

// Reviewed are the hashes of the plan that was reviewed, each "sha256:" and 64
// lower-case hex digits.
type Reviewed struct {
	// StateHash is the registry's that the plan was made from.
	StateHash string
	// NextStateHash is the outcome's. Without it, "", whatever the arguments make
	// of the reviewed registry is applied.
	NextStateHash string
}

// ApplyRetirement removes the retired versions below before from this node's
// registry, if that is the reviewed one still and the outcome too. A refusal is a
// failed check of the report. An error is a *config.Error, or says that the run
// was stopped or that the save did not complete, and what the files then hold.
func ApplyRetirement(ctx context.Context, o diagnose.Options, before int, reviewed Reviewed) (*command.Report, error) {
	return retirement(o, before, reviewed).run(ctx, o, open)
}

// ApplyRestoration makes the named removed versions decrypt again on this node,
// under the same conditions.
func ApplyRestoration(ctx context.Context, o diagnose.Options, versions []int, reviewed Reviewed) (*command.Report, error) {
	return restoration(o, versions, reviewed).run(ctx, o, open)
}

func retirement(o diagnose.Options, before int, reviewed Reviewed) job {
	return job{
		kind:     command.KindRetirement,
		name:     "retire-versions",
		argument: "--before-version",
		tells:    "it says that there is nothing to do",
		change:   command.Change{BeforeVersion: before, RemovedVersions: []int{}},
		reviewed: reviewed,
		plan:     func(ctx context.Context) *diagnose.Plan { return diagnose.Retirement(ctx, o, before) },
		done: func(r *registry.Registry) bool {
			return before >= 2 && before <= r.Active().TransitVersion && !slices.ContainsFunc(r.Entries(), func(e *registry.Entry) bool {
				return e.State == registry.Retired && e.TransitVersion < before
			})
		},
		after: diagnose.AfterRetirement,
	}
}

func restoration(o diagnose.Options, versions []int, reviewed Reviewed) job {
	return job{
		kind:     command.KindRestoration,
		name:     "restore-versions",
		argument: "--versions",
		tells:    "it says of the versions that they are no removed records",
		change:   command.Change{RestoredVersions: []int{}},
		reviewed: reviewed,
		plan:     func(ctx context.Context) *diagnose.Plan { return diagnose.Restoration(ctx, o, versions) },
		done: func(r *registry.Registry) bool {
			return len(versions) > 0 && !slices.ContainsFunc(versions, func(v int) bool {
				return !slices.ContainsFunc(r.Entries(), func(e *registry.Entry) bool { return e.TransitVersion == v && e.State == registry.Retired })
			})
		},
		after: diagnose.AfterRestoration,
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
	// argument is the flag that says what is to change.
	argument string
	// tells is what planning again answers when the plan is applied already.
	tells string
	// change is what the report says when this run has nothing to change.
	change   command.Change
	reviewed Reviewed
	plan     func(context.Context) *diagnose.Plan
	// done: nothing is left to do of what the arguments ask for.
	done  func(*registry.Registry) bool
	after func(*command.Change) []command.Step
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
	alone := j.alone(ctx, c.Server.SocketPath)
	if ctx.Err() != nil {
		return nil, j.stopped()
	}
	r.Checks = append(r.Checks, alone)
	if alone.Result != command.Pass {
		return r.Seal(j.kind), nil
	}
	if err := j.underLock(ctx, r, f, c.Fingerprint()); err != nil {
		return nil, err
	}
	return r.Seal(j.kind), nil
}

// underLock does what needs the lock and writes down how it went.
func (j job) underLock(ctx context.Context, r *command.Report, f files, fingerprint string) error {
	current, err := f.Load(fingerprint)
	if unfinished, ok := errors.AsType[*store.SaveError](err); ok {
		return fmt.Errorf("%s: an earlier save, maybe of this plan, could not be completed: %w; then run the same command again", j.name, unfinished)
	}
	switch {
	case err != nil:
		r.Checks = append(r.Checks, notLoaded(err))
		return nil
	case current == nil:
		r.Checks = append(r.Checks, noState)
		return nil
	}
	reviewed, applied := j.judge(current)
	r.Checks = append(r.Checks, reviewed)
	switch {
	case reviewed.Result != command.Pass:
		return nil
	case applied:
		j.unchanged(r, current, true)
		return nil
	}
	return j.apply(ctx, r, f, current)
}

// apply makes the plan again and saves its outcome.
func (j job) apply(ctx context.Context, r *command.Report, f files, current *registry.Registry) error {
	plan := j.plan(ctx)
	if ctx.Err() != nil {
		return j.stopped()
	}
	r.Checks = append(r.Checks, plan.Report.Checks...)
	if plan.Next == nil || plan.Report.Result == command.Fail {
		return nil
	}
	if err := j.same(plan, current); err != nil {
		return err
	}
	if j.reviewed.NextStateHash != "" {
		outcome := j.outcome(plan.Next)
		r.Checks = append(r.Checks, outcome)
		if outcome.Result != command.Pass {
			return nil
		}
	}
	if plan.Next == plan.Current {
		j.unchanged(r, current, false)
		return nil
	}
	if err := f.Save(plan.Next); err != nil {
		return j.notSaved(err, plan.Next)
	}
	r.Checks = append(r.Checks, passed(stateSaved, fmt.Sprintf("generation %d is durable, with the state hash %s", plan.Next.Generation(), plan.Next.Hash())))
	change := *plan.Report.Change
	change.Applied = true
	r.Change, r.Next = &change, j.after(&change)
	return nil
}

// stopped is the end of a run that was told to stop before its save.
func (j job) stopped() error {
	return fmt.Errorf("%s: stopped, and nothing of this plan was saved; run the same command again", j.name)
}

// same makes sure that the plan is of the registry that the lock protects, and
// that it says of itself what it is.
func (j job) same(plan *diagnose.Plan, current *registry.Registry) error {
	switch c := plan.Report.Change; {
	case plan.Current.Hash() != current.Hash():
		return fmt.Errorf("%s: the state file was changed while this command held its lock, and nothing was saved; find out what else writes it, then plan again", j.name)
	case c.StateHash != j.reviewed.StateHash, c.NextStateHash != plan.Next.Hash(), c.NextGeneration != plan.Next.Generation(),
		plan.Next != plan.Current && !plan.Next.Succeeds(current.Generation(), j.reviewed.StateHash):
		return fmt.Errorf("%s: the outcome is not what its own plan says, and nothing was saved; report this as a defect", j.name)
	}
	return nil
}

// unchanged writes down that the registry is as the plan wants it: applied, when
// it is the reviewed outcome, else with nothing to do.
func (j job) unchanged(r *command.Report, current *registry.Registry, applied bool) {
	change := j.change
	change.Applied = applied
	change.ActiveKeyIDHash = current.Active().Binding.KeyIDHash()
	change.StateHash, change.NextStateHash, change.NextGeneration = current.Hash(), current.Hash(), current.Generation()
	r.Change, r.Next = &change, j.after(&change)
}

// notSaved words the end of a save that was not confirmed. Loading accepts the
// registry of before and the planned one, also one file of each, and makes the
// state file's durable: a start goes no further, but the same command with both
// hashes then finds its plan applied or applies it.
func (j job) notSaved(err error, next *registry.Registry) error {
	if _, ok := errors.AsType[*store.SaveError](err); !ok {
		return fmt.Errorf("%s: nothing was saved: %w", j.name, err)
	}
	hash := ""
	if j.reviewed.NextStateHash == "" {
		hash = ", with --expected-next-state-hash " + next.Hash() + ","
	}
	return fmt.Errorf("%s: the save of generation %d was not confirmed: %w; the files may hold the registry of before or the planned one, "+
		"and neither is damaged: then run the same command again%s until it exits with 0; if the provider is started instead, "+
		"plan again to see which registry holds", j.name, next.Generation(), err, hash)
}
