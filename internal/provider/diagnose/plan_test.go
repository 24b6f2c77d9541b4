package diagnose

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/registry"
)

// planRows are stand-ins for the checks of a plan: all pass but the given ones.
func planRows(others map[string]finding) []check {
	var rows []check
	var made []string
	for _, id := range planNeeds {
		rows = append(rows, ends(&made, id, others[id]))
	}
	return rows
}

// planFor plans on a story with its checks passing.
func planFor(t *testing.T, s *story, tr transition, others map[string]finding) *Plan {
	t.Helper()
	s.o.ConfigPath = config.DefaultPath
	return tr.plan(t.Context(), s.exam, planRows(others))
}

// twicePromoted is a story whose version 3 is active, and 1 and 2 are retired.
func twicePromoted(t *testing.T) *story {
	t.Helper()
	s := newStory(t)
	n := s.rules().StableObservations
	return s.rotate(2).probe(n).promote().rotate(3).probe(n).promote()
}

// retiredBelow is the same after a retirement of those below a bound.
func retiredBelow(t *testing.T, before int) *story {
	t.Helper()
	s := twicePromoted(t)
	r, _, err := s.registry.Retire(s.metadata, s.rules(), before)
	if err != nil {
		t.Fatal(err)
	}
	s.registry = r
	return s
}

func TestPlan(t *testing.T) {
	cases := []struct {
		name  string
		story func(t *testing.T) *story
		plan  transition

		removed, restored []int
		recovery          bool
		words             string // of the check
		steps             int
	}{
		{name: "all below the active", story: twicePromoted, plan: retirementOf(3), removed: []int{1, 2}, words: "to remove: Transit versions 1, 2; this node then decrypts nothing that was written under them", steps: 7},
		{name: "one", story: twicePromoted, plan: retirementOf(2), removed: []int{1}, words: "to remove: Transit version 1; this node then decrypts nothing that was written under it", steps: 7},
		{name: "nothing to do", story: func(t *testing.T) *story { return retiredBelow(t, 3) }, plan: retirementOf(3), removed: []int{}, words: "nothing to do: this node decrypts with no version below 3"},
		{name: "recovery", story: func(t *testing.T) *story { return twicePromoted(t).minimums(3, 0) }, plan: retirementOf(3), removed: []int{1, 2}, recovery: true,
			words: "OpenBao's minimum forbids them already, so this is a recovery", steps: 6},
		{name: "recovery of a part", story: func(t *testing.T) *story { return twicePromoted(t).minimums(2, 0) }, plan: retirementOf(3), removed: []int{1, 2}, words: "to remove: Transit versions 1, 2", steps: 7},
		{name: "recovery while pending", story: func(t *testing.T) *story { return twicePromoted(t).rotate(4).probe(1).minimums(3, 0) }, plan: retirementOf(3), removed: []int{1, 2}, recovery: true, words: "recovery", steps: 6},
		{name: "an interrupted save", story: func(t *testing.T) *story { s := twicePromoted(t); s.interrupted = true; return s }, plan: retirementOf(2), removed: []int{1},
			words: "the last save was cut short, which the apply, or the next start, completes without another state hash", steps: 7},
		{name: "an interrupted save, and nothing to do", story: func(t *testing.T) *story { s := retiredBelow(t, 3); s.interrupted = true; return s }, plan: retirementOf(3), removed: []int{},
			words: "the last save was cut short, which the next start completes without another state hash"},
		{name: "restoration", story: func(t *testing.T) *story { return retiredBelow(t, 3) }, plan: restorationOf([]int{2, 1, 2}), restored: []int{1, 2}, words: "to restore: Transit versions 1, 2", steps: 6},
		{name: "restoration of one", story: func(t *testing.T) *story { return retiredBelow(t, 3) }, plan: restorationOf([]int{2}), restored: []int{2}, words: "to restore: Transit version 2;", steps: 6},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := c.story(t)
			p := planFor(t, s, c.plan, nil)
			r := p.Report
			last := r.Checks[len(r.Checks)-1]
			if r.Result != command.Pass || last.ID != c.plan.check || !strings.Contains(last.Message, c.words) || r.Kind != c.plan.kind {
				t.Fatalf("%s %s, last check %+v; want %q", r.Kind, r.Result, last, c.words)
			}
			if ids := idsOf(r.Checks); !slices.Equal(ids, append(slices.Clone(planNeeds), c.plan.check)) {
				t.Errorf("checks %v", ids)
			}
			next, versions, err := c.plan.make(s.registry, s.metadata, s.rules())
			if err != nil {
				t.Fatal(err)
			}
			got := *r.Change
			if got.Applied || !slices.Equal(got.RemovedVersions, c.removed) || !slices.Equal(got.RestoredVersions, c.restored) || got.Recovery != c.recovery ||
				(got.RemovedVersions == nil) != (c.removed == nil) || (got.RestoredVersions == nil) != (c.restored == nil) || len(versions) != len(c.removed)+len(c.restored) {
				t.Errorf("change %+v", got)
			}
			if got.StateHash != s.registry.Hash() || got.NextStateHash != next.Hash() || got.NextGeneration != next.Generation() || got.ActiveKeyIDHash != s.registry.Active().Binding.KeyIDHash() {
				t.Errorf("change %+v, the transition makes generation %d, %s", got, next.Generation(), next.Hash())
			}
			if p.Current != s.registry || p.Next.Hash() != next.Hash() || r.GeneratedAt != "" {
				t.Errorf("the plan is of another registry, or has a time: %q", r.GeneratedAt)
			}
			if len(r.Next) != c.steps {
				t.Errorf("%d steps, want %d: %+v", len(r.Next), c.steps, r.Next)
			}
			again := planFor(t, s, c.plan, map[string]finding{authLogin: passed("OpenBao gave a token for 59m")})
			if a, b := encoded(t, r), encoded(t, again.Report); a != b {
				t.Errorf("planned again, the report is another one:\n%s\n%s", a, b)
			}
			for _, word := range append([]string{"canary"}, keyIDsOf(s.exam)...) {
				if strings.Contains(encoded(t, r), word) {
					t.Errorf("the report holds %q", word)
				}
			}
		})
	}
}

func idsOf(checks []command.Check) (ids []string) {
	for _, c := range checks {
		ids = append(ids, c.ID)
	}
	return ids
}

func encoded(t *testing.T, r *command.Report) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPlanRefused(t *testing.T) {
	unmade := madeUp("two snapshots are active")
	cases := []struct {
		name   string
		story  func(t *testing.T) *story
		plan   transition
		others map[string]finding
		result command.Result // of the plan's own check
		reason string
		words  string
	}{
		{"what is active", twicePromoted, retirementOf(4), nil, command.Fail, "before_version_invalid", "name a version from 2 to 3"},
		{"pending", func(t *testing.T) *story { return twicePromoted(t).rotate(4).probe(1) }, retirementOf(2), nil, command.Fail, "rotation_pending", "wait until this node has promoted it"},
		{"not seen yet", func(t *testing.T) *story { return twicePromoted(t).rotate(4) }, retirementOf(2), nil, command.Fail, "active_not_latest", "version 3 is active on this node"},
		{"recovery that does not reach far enough", func(t *testing.T) *story { return twicePromoted(t).minimums(3, 0) }, retirementOf(2), nil, command.Fail, "versions_blocked", "lower the minimum in OpenBao"},
		{"rollback", func(t *testing.T) *story { return twicePromoted(t).rotate(2) }, retirementOf(2), nil, command.Fail, "version_rollback", "restore the key with all its versions"},
		{"not removed", twicePromoted, restorationOf([]int{1}), nil, command.Fail, "version_not_removed", "name only versions that the registry shows as removed"},
		{"none named", twicePromoted, restorationOf(nil), nil, command.Fail, "version_not_removed", "name the removed versions"},
		{"forbidden in OpenBao", func(t *testing.T) *story { return retiredBelow(t, 3).minimums(3, 0) }, restorationOf([]int{1}), nil, command.Fail, "versions_blocked", "lower the minimum"},
		{"fresh", func(t *testing.T) *story { s := newStory(t); s.fresh = true; return s }, retirementOf(2), nil, command.Fail, "state_unavailable", "no key registry yet"},
		{"no state", func(t *testing.T) *story { s := newStory(t); s.registry = nil; return s }, retirementOf(2), nil, command.Fail, "state_unavailable", "start the provider once"},
		{"a defect", twicePromoted, func() transition {
			tr := retirementOf(2)
			tr.make = func(*registry.Registry, registry.Metadata, registry.Rules) (*registry.Registry, []int, error) {
				return nil, nil, unmade
			}
			return tr
		}(), nil, command.Fail, "unknown", "report this as a defect"},

		{"metadata unread", twicePromoted, retirementOf(2), map[string]finding{transitKey: failed("read_failed", "m", "n")}, command.Skip, "", ""},
		{"profile", twicePromoted, retirementOf(2), map[string]finding{transitProfile: failed("profile_invalid", "m", "n")}, command.Skip, "", ""},
		{"upsert", twicePromoted, retirementOf(2), map[string]finding{transitUpsert: failed("upsert_enabled", "m", "n")}, command.Skip, "", ""},
		{"state", twicePromoted, retirementOf(2), map[string]finding{registryState: failed("state_unavailable", "m", "n")}, command.Skip, "", ""},
		{"checkpoint", func(t *testing.T) *story { s := twicePromoted(t); s.checkpointErr = errors.New("bad"); return s }, retirementOf(2),
			map[string]finding{registryCheck: failed("checkpoint_conflict", "m", "n")}, command.Skip, "", ""},
		{"what was only skipped", twicePromoted, retirementOf(2), map[string]finding{transitUpsert: skipped("not asked")}, command.Fail, "not_judged", "not made were transit.upsert"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := planFor(t, c.story(t), c.plan, c.others)
			r := p.Report
			last := r.Checks[len(r.Checks)-1]
			if last.ID != c.plan.check || last.Result != c.result || last.Reason != c.reason || !strings.Contains(last.Message+"; "+last.NextStep, c.words) {
				t.Errorf("last check %+v, want %s %q", last, c.reason, c.words)
			}
			if r.Result != command.Fail || r.Change != nil || len(r.Next) > 0 || p.Current != nil || p.Next != nil {
				t.Errorf("refused, and yet result %s, change %+v, next %+v", r.Result, r.Change, r.Next)
			}
		})
	}
}

// TestPlanSteps: what is to be pasted is the exact command, and the minimum in
// OpenBao comes last and conditionally.
func TestPlanSteps(t *testing.T) {
	s := twicePromoted(t)
	p := planFor(t, s, retirementOf(3), nil)
	want := asProvider() + "bao-kms-provider retire-versions --before-version 3 --apply --expected-state-hash " + s.registry.Hash() + " --expected-next-state-hash " + p.Next.Hash()
	steps := p.Report.Next
	if !slices.Equal(steps[2].Commands, []string{"systemctl stop bao-kms-provider"}) || !slices.Equal(steps[3].Commands, []string{want}) ||
		!slices.Equal(steps[4].Commands, []string{"systemctl start bao-kms-provider"}) {
		t.Errorf("steps %+v, want %q", steps, want)
	}
	if strings.Contains(steps[3].Text, "--config") {
		t.Errorf("the default configuration is not to be named: %q", steps[3].Text)
	}
	if text := steps[0].Text; !strings.Contains(text, "every object of every encrypted resource") {
		t.Errorf("the first step is %q", text)
	}
	if text := steps[1].Text; !strings.Contains(text, "activeKeyIdHash must be the same on every node") {
		t.Errorf("the second step is %q", text)
	}
	if text := steps[6].Text; !strings.Contains(text, "Only when 'retire-versions --before-version 3' without --apply says on every node that there is nothing to do "+
		"may min_decryption_version be raised in OpenBao, to 3 at most") {
		t.Errorf("the last step is %q", text)
	}
	s.minimums(3, 0)
	if text := planFor(t, s, retirementOf(3), nil).Report.Next[0].Text; !strings.Contains(text, "lower the minimum in OpenBao instead") {
		t.Errorf("the first step of a recovery is %q", text)
	}
	s = retiredBelow(t, 3)
	p = planFor(t, s, restorationOf([]int{2, 1}), nil)
	want = asProvider() + "bao-kms-provider restore-versions --versions 1,2 --apply --expected-state-hash " + s.registry.Hash() + " --expected-next-state-hash " + p.Next.Hash()
	if !slices.Equal(p.Report.Next[3].Commands, []string{want}) {
		t.Errorf("step %+v, want %q", p.Report.Next[3], want)
	}

	for name, o := range map[string]Options{
		"by flag":        {ConfigPath: "/elsewhere/config.yaml", Getenv: func(string) string { return "" }},
		"by environment": {ConfigPath: "/elsewhere/config.yaml", Getenv: func(string) string { return "/elsewhere/config.yaml" }},
	} {
		text := planSteps(o, retirementOf(3), &command.Change{StateHash: "a", NextStateHash: "b"})[3].Text
		if got := strings.Contains(text, "add the --config"); got != (name == "by flag") || strings.Contains(text, "elsewhere") {
			t.Errorf("%s: %q", name, text)
		}
	}
}
