package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func every(membership) bool { return true }

func TestIndex(t *testing.T) {
	x := newIndex()
	x.set("a", membership{nodes: []string{"cp-1", "cp-2"}, maxAge: time.Minute})
	x.set("b", membership{nodes: []string{"cp-2"}, maxAge: time.Hour})
	check := func(node string, want ...string) {
		t.Helper()
		if got := x.plansOf(node, every); !slices.Equal(got, want) {
			t.Errorf("plans of %s: %q, want %q", node, got, want)
		}
	}
	check("cp-1", "a")
	check("cp-2", "a", "b")
	check("cp-3")
	if got := x.plansOf("cp-2", func(m membership) bool { return m.maxAge > time.Minute }); !slices.Equal(got, []string{"b"}) {
		t.Errorf("chosen by age: %q", got)
	}
	// The age alone changes, then the nodes.
	x.set("a", membership{nodes: []string{"cp-1", "cp-2"}, maxAge: 2 * time.Hour})
	if got := x.plansOf("cp-1", func(m membership) bool { return m.maxAge == 2*time.Hour }); !slices.Equal(got, []string{"a"}) {
		t.Errorf("after its age changed: %q", got)
	}
	x.set("a", membership{nodes: []string{"cp-3"}})
	check("cp-1")
	check("cp-2", "b")
	check("cp-3", "a")
	x.remove("b")
	x.remove("never there")
	check("cp-2")
	x.remove("a")
	if len(x.nodes) != 0 || len(x.plans) != 0 {
		t.Errorf("an empty index keeps %v and %v", x.nodes, x.plans)
	}
}

// TestIndexAgainstModel: whatever was set and removed, a node leads to exactly the
// plans whose set it is in.
func TestIndexAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, model := newIndex(), map[string][]string{}
		name := func(prefix string) *rapid.Generator[string] {
			return rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(prefix, rapid.IntRange(1, 5).Draw(t, prefix)) })
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			plan := name("plan").Draw(t, "plan")
			if rapid.Bool().Draw(t, "remove") {
				x.remove(plan)
				delete(model, plan)
				continue
			}
			nodes := rapid.SliceOfDistinct(name("node"), rapid.ID[string]).Draw(t, "nodes")
			x.set(plan, membership{nodes: nodes})
			model[plan] = nodes
		}
		for i := 1; i <= 5; i++ {
			node := fmt.Sprint("node", i)
			var want []string
			for plan, nodes := range model {
				if slices.Contains(nodes, node) {
					want = append(want, plan)
				}
			}
			slices.Sort(want)
			if got := x.plansOf(node, every); !slices.Equal(got, want) {
				t.Fatalf("plans of %s: %q, want %q", node, got, want)
			}
		}
	})
}
