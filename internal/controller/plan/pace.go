package plan

import (
	"sync"
	"time"
)

// pacePerNode is for how long, per node of the plan, a plan is left alone after its
// status was written. The status grows with the nodes, and etcd keeps each version
// of it for minutes: a thousand nodes that change one after the other would fill it.
// They are written three times a minute, three nodes practically at once.
const pacePerNode = 20 * time.Millisecond

// pace keeps large plans from being written at every change. Changes meanwhile are
// judged together. Safe for concurrent use.
type pace struct {
	mu sync.Mutex
	// free is from when on a plan may be written again.
	free map[string]time.Time
}

func newPace() *pace { return &pace{free: map[string]time.Time{}} }

// rest is for how long a plan is still left alone; 0 when it is not.
func (p *pace) rest(plan string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.free[plan].Sub(now))
}

// wrote is called when a status that tells of so many nodes was written, or was
// refused after it was read.
func (p *pace) wrote(plan string, nodes int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if free := now.Add(time.Duration(nodes) * pacePerNode); free.After(p.free[plan]) {
		p.free[plan] = free
	}
}

// forget is called when a plan is gone.
func (p *pace) forget(plan string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.free, plan)
}
