package reporter

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/baokms/baokms/api/v1alpha1"
)

// planFor is a plan of a provider; without names it has a selector, with before 0
// no retirement.
func planFor(uid, provider string, before int32, names ...string) *v1alpha1.KMSRotationPlan {
	p := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), Generation: 1}}
	p.Spec = v1alpha1.KMSRotationPlanSpec{ProviderName: provider, Nodes: v1alpha1.NodeSet{Names: names}}
	if len(names) == 0 {
		p.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	}
	if before > 0 {
		p.Spec.Retirement = &v1alpha1.Retirement{BeforeVersion: before}
	}
	return p
}

func list(all ...*v1alpha1.KMSRotationPlan) (objs []any) {
	for _, p := range all {
		objs = append(objs, p)
	}
	return objs
}

func TestAsked(t *testing.T) {
	many := func(from int32, count int, names ...string) (all []*v1alpha1.KMSRotationPlan) {
		for i := range int32(count) {
			all = append(all, planFor(string(types.UID(rune(0x100+from+i))), "p", from+i, names...))
		}
		return all
	}
	cases := []struct {
		name  string
		plans []*v1alpha1.KMSRotationPlan
		want  []int32
		left  int
	}{
		{"none", nil, nil, 0},
		{"named", []*v1alpha1.KMSRotationPlan{planFor("a", "p", 3, "cp-1", "cp-2")}, []int32{3}, 0},
		{"naming others", []*v1alpha1.KMSRotationPlan{planFor("a", "p", 3, "cp-2")}, nil, 0},
		{"selector", []*v1alpha1.KMSRotationPlan{planFor("a", "p", 4)}, []int32{4}, 0},
		{"another provider's", []*v1alpha1.KMSRotationPlan{planFor("a", "q", 3, "cp-1"), planFor("b", "q", 3)}, nil, 0},
		{"without retirement", []*v1alpha1.KMSRotationPlan{planFor("a", "p", 0, "cp-1")}, nil, 0},
		{"each version once, ascending", []*v1alpha1.KMSRotationPlan{
			planFor("a", "p", 5, "cp-1"), planFor("b", "p", 3), planFor("c", "p", 5), planFor("d", "p", 4, "cp-1")}, []int32{3, 4, 5}, 0},
		{"too many", many(2, mostAsked+3), nil, 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newPlans("cp-1")
			if _, _, known := p.asked("p"); known {
				t.Error("plans are known before they were read")
			}
			if err := p.Replace(list(c.plans...), "1"); err != nil {
				t.Fatal(err)
			}
			got, left, known := p.asked("p")
			if !known || left != c.left || c.want != nil && !slices.Equal(got, c.want) || c.want == nil && c.left == 0 && len(got) > 0 {
				t.Errorf("asked %v and %d more, known %v; want %v and %d", got, left, known, c.want, c.left)
			}
			if c.left > 0 && len(got) != mostAsked {
				t.Errorf("%d versions asked, want %d", len(got), mostAsked)
			}
		})
	}

	p := newPlans("cp-1")
	crowd := append(many(2, mostAsked), many(1000, 2, "cp-1")...)
	if err := p.Replace(list(crowd...), "1"); err != nil {
		t.Fatal(err)
	}
	got, left, _ := p.asked("p")
	if left != 2 || len(got) != mostAsked || !slices.Contains(got, 1000) || !slices.Contains(got, 1001) {
		t.Errorf("plans that name the node are left out for selectors: %d more than %v", left, got)
	}
}

// TestWaking: a change that concerns the node wakes, and no other does: a plan's
// status is written often.
func TestWaking(t *testing.T) {
	edited := func(p *v1alpha1.KMSRotationPlan, edit func(*v1alpha1.KMSRotationPlan)) *v1alpha1.KMSRotationPlan {
		p = p.DeepCopy()
		edit(p)
		return p
	}
	mine, others, selected := planFor("a", "p", 3, "cp-1"), planFor("b", "p", 3, "cp-2"), planFor("c", "p", 3)
	cases := []struct {
		name string
		do   func(p *plans) error
		want bool
	}{
		{"status", func(p *plans) error {
			return p.Update(edited(mine, func(x *v1alpha1.KMSRotationPlan) { x.ResourceVersion, x.Status.Phase = "9", "Settling" }))
		}, false},
		{"spec", func(p *plans) error {
			return p.Update(edited(mine, func(x *v1alpha1.KMSRotationPlan) { x.Generation = 2 }))
		}, true},
		{"another node's spec", func(p *plans) error {
			return p.Update(edited(others, func(x *v1alpha1.KMSRotationPlan) { x.Generation = 2 }))
		}, false},
		{"now names the node", func(p *plans) error {
			return p.Update(edited(others, func(x *v1alpha1.KMSRotationPlan) { x.Spec.Nodes.Names = []string{"cp-1"} }))
		}, true},
		{"no longer names it", func(p *plans) error {
			return p.Update(edited(mine, func(x *v1alpha1.KMSRotationPlan) { x.Spec.Nodes.Names = []string{"cp-3"} }))
		}, true},
		{"new", func(p *plans) error { return p.Add(planFor("d", "p", 2, "cp-1")) }, true},
		{"new, of others", func(p *plans) error { return p.Add(planFor("d", "p", 2, "cp-2")) }, false},
		{"removed", func(p *plans) error { return p.Delete(selected) }, true},
		{"removed, of others", func(p *plans) error { return p.Delete(others) }, false},
		{"read again", func(p *plans) error { return p.Replace(list(mine, others, selected), "9") }, false},
		{"read again, one gone", func(p *plans) error { return p.Replace(list(mine, others), "9") }, true},
		{"read again, made anew", func(p *plans) error {
			return p.Replace(list(edited(mine, func(x *v1alpha1.KMSRotationPlan) { x.UID = "z" }), others, selected), "9")
		}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newPlans("cp-1")
			if err := p.Replace(list(mine, others, selected), "1"); err != nil {
				t.Fatal(err)
			}
			if len(p.changed) != 1 {
				t.Fatal("the first list does not wake")
			}
			<-p.changed
			if err := c.do(p); err != nil {
				t.Fatal(err)
			}
			if got := len(p.changed) == 1; got != c.want {
				t.Errorf("woken %v, want %v", got, c.want)
			}
		})
	}
}

func TestPlansRefuseWhatIsNone(t *testing.T) {
	p := newPlans("cp-1")
	for name, err := range map[string]error{
		"add": p.Add("x"), "update": p.Update(1), "delete": p.Delete(&v1alpha1.KMSNodeReport{}), "replace": p.Replace([]any{"x"}, ""),
	} {
		if err == nil {
			t.Errorf("%s takes what is no plan", name)
		}
	}
}
