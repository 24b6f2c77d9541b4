package operate

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/registry"
)

// TestPlanThenApply: on any registry, an apply of a plan leaves exactly the next
// state hash of that plan, and a second one changes nothing.
func TestPlanThenApply(t *testing.T) {
	applied, refused, idle := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		latest := rapid.IntRange(2, 5).Draw(rt, "latest")
		r := w.rotated(latest)
		// An earlier retirement, perhaps taken back in part.
		if bound := rapid.IntRange(1, latest).Draw(rt, "earlier bound"); bound > 1 {
			r = w.earlier(r.Retire(w.md, rules, bound))
			if back := rapid.IntRange(0, bound-1).Draw(rt, "taken back"); back > 0 {
				r = w.earlier(r.Restore(w.md, rules, []int{back}))
			}
		}
		w.put(r)
		if rapid.IntRange(0, 2).Draw(rt, "raised") == 0 {
			w.md = metadata(latest, rapid.IntRange(1, latest).Draw(rt, "minimum"))
		}
		var removed []int
		for _, e := range r.Entries() {
			if e.State == registry.Removed {
				removed = append(removed, e.TransitVersion)
			}
		}
		before := rapid.IntRange(1, latest+1).Draw(rt, "before")
		reviewed := from(r)
		wanted := func() job { return w.retirement(before, reviewed) }
		if len(removed) > 0 && rapid.Bool().Draw(rt, "restoration") {
			versions := rapid.SliceOfN(rapid.SampledFrom(removed), 1, 3).Draw(rt, "named")
			if rapid.IntRange(0, 4).Draw(rt, "by mistake") == 0 {
				versions = append(versions, latest)
			}
			wanted = func() job { return w.restoration(versions, reviewed) }
		}
		plan := wanted().plan(t.Context())
		exact := plan.Next != nil && rapid.Bool().Draw(rt, "with the reviewed outcome")
		if exact {
			reviewed.NextStateHash = plan.Report.NextStateHash
		}
		report, err := w.run(wanted())
		if err != nil {
			rt.Fatal(err)
		}
		got := w.saved()
		if plan.Next == nil {
			if report.Result != command.Fail || report.Change != nil || got.Hash() != r.Hash() {
				rt.Fatalf("refused, and yet result %s, change %+v, state %s", report.Result, report.Change, got.Hash())
			}
			refused++
			return
		}
		c := report.Change
		changes := got.Hash() != r.Hash()
		if report.Result != command.Pass || got.Hash() != plan.Report.NextStateHash || c.NextStateHash != got.Hash() || c.NextGeneration != got.Generation() ||
			c.Applied != changes || !slices.Equal(c.RemovedVersions, plan.Report.RemovedVersions) || !slices.Equal(c.RestoredVersions, plan.Report.RestoredVersions) {
			rt.Fatalf("the apply gives %+v and the state %s, the plan was %+v", c, got.Hash(), plan.Report.Change)
		}
		again, err := w.run(wanted())
		if err != nil {
			rt.Fatal(err)
		}
		if w.saved().Hash() != got.Hash() {
			rt.Fatal("a second apply changed the state")
		}
		last := again.Checks[len(again.Checks)-1]
		switch {
		case changes && !exact:
			if last.Reason != reasonStale || !strings.Contains(last.Message, "follows directly") {
				rt.Fatalf("a second apply ends with %+v", last)
			}
		case again.Result != command.Pass || again.Change.Applied != changes:
			rt.Fatalf("a second apply ends with %+v, change %+v", last, again.Change)
		}
		if changes {
			applied++
		} else {
			idle++
		}
	})
	// How often there is nothing to do is chance: once in twenty, roughly.
	if applied < 10 || refused < 10 {
		t.Errorf("%d applied, %d refused, %d with nothing to do: the property says too little", applied, refused, idle)
	}
}

// earlier is the outcome of a transition that cannot be refused.
func (w *world) earlier(next *registry.Registry, _ []int, err error) *registry.Registry {
	w.t.Helper()
	w.must(err)
	return next
}
