package plan

import (
	"slices"
	"sync"
	"time"
)

// membership is what the index knows of one plan: what it was last judged by.
type membership struct {
	// nodes are the names that the plan's set resolved to.
	nodes []string
	// maxAge is from which age on a report does not count for it.
	maxAge time.Duration
}

// index leads from a node to the plans whose set it is in, so that a report
// changes only those (design: manager, Reconciler). The reconciler writes a plan's
// entry before it reads the reports: a report that changes later finds the entry,
// and one that changed before is read. Safe for concurrent use.
type index struct {
	mu    sync.RWMutex
	plans map[string]membership
	nodes map[string]map[string]struct{}
}

func newIndex() *index {
	return &index{plans: map[string]membership{}, nodes: map[string]map[string]struct{}{}}
}

// set replaces what is known of a plan. The caller must not change m.nodes later.
func (x *index) set(plan string, m membership) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.plans[plan]
	x.plans[plan] = m
	if slices.Equal(old.nodes, m.nodes) {
		return
	}
	x.unlink(plan, old)
	for _, node := range m.nodes {
		if x.nodes[node] == nil {
			x.nodes[node] = map[string]struct{}{}
		}
		x.nodes[node][plan] = struct{}{}
	}
}

// remove forgets a plan.
func (x *index) remove(plan string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unlink(plan, x.plans[plan])
	delete(x.plans, plan)
}

// unlink takes a plan from its nodes. The caller holds mu.
func (x *index) unlink(plan string, m membership) {
	for _, node := range m.nodes {
		delete(x.nodes[node], plan)
		if len(x.nodes[node]) == 0 {
			delete(x.nodes, node)
		}
	}
}

// plansOf are the plans that a node is in and for which concerned says yes, sorted.
func (x *index) plansOf(node string, concerned func(membership) bool) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var names []string
	for plan := range x.nodes[node] {
		if concerned(x.plans[plan]) {
			names = append(names, plan)
		}
	}
	slices.Sort(names)
	return names
}
