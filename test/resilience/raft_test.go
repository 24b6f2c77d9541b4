package resilience

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/test/stack"
)

// election bounds the time without a leader: the others notice, vote, and the winner reads what it must know. The cluster's own times are twice
// raft's shortest, so that a busy machine does not look like a lost leader.
const election = 30 * time.Second

// failover is what callers may see while the cluster has no leader: a standby answers 500 or a redirect, or the caller loses patience
// with one that waits for a leader.
func failover() []fails { return unreachable(codes.DeadlineExceeded) }

// leader is the active server now.
func (w *world) leader() *stack.Transit {
	w.t.Helper()
	t, err := w.cluster.Leader(w.t.Context())
	w.must(err)
	return t
}

// loseLeader takes the leader away, waits until the rest has healed, and brings it back.
func (w *world) loseLeader(name string, take, bringBack func(*stack.Transit)) {
	w.t.Helper()
	leader := w.leader()
	p := w.phase(name, failover()...)
	take(leader)
	began := time.Now()
	w.await("there is a new leader", election, func() error {
		if w.leader() == leader {
			return errNotYet
		}
		return nil
	})
	w.note("%s: a new leader after %v", name, short(time.Since(began)))
	// The new leader's first answers, the breaker's cool-down of 1 s and a probe, which comes every second.
	w.healed(time.Now(), 6*time.Second)
	w.atMost(name+": logins", w.since(p).logins, 0)
	w.phase(name+", back", failover()...)
	bringBack(leader)
	w.must(w.cluster.Settle(w.t.Context()))
	w.healed(time.Now(), 3*time.Second)
}

// freeze stops a server in its tracks: it answers nothing, and its connections stay.
func (w *world) freeze(s *stack.Transit) {
	w.t.Helper()
	w.must(syscall.Kill(s.Pid(), syscall.SIGSTOP))
}

// thaw lets a frozen leader find out that it is none any more, with clients that may still know it. Then it is restarted: requests that it
// had begun can keep it from becoming a standby for a minute and a half.
func (w *world) thaw(s *stack.Transit) {
	w.t.Helper()
	w.must(syscall.Kill(s.Pid(), syscall.SIGCONT))
	w.last(2 * time.Second)
	s.Kill()
	w.revive(s)
}

// TestRaftLosesItsLeader: three servers behind a load balancer lose their leader under 32 callers: killed, frozen, sealed.
func TestRaftLosesItsLeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		activeOnly bool
	}{
		{"balanced over all, standbys forward", false},
		{"only the active server gets connections", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, balancer := newClusterWorld(t, c.activeOnly, options{calm: true, pause: 150 * time.Millisecond})
			rounds := 1
			if large() {
				rounds = 5
			}
			for i := range rounds {
				w.loseLeader(fmt.Sprintf("killed %d", i+1), func(s *stack.Transit) { s.Kill() }, w.revive)
				w.loseLeader(fmt.Sprintf("sealed %d", i+1),
					func(s *stack.Transit) { w.must(s.Seal(t.Context())) },
					func(s *stack.Transit) { w.must(s.Unseal(t.Context())) })
				w.loseLeader(fmt.Sprintf("frozen %d", i+1), w.freeze, w.thaw)
			}
			w.note("%d connections through the load balancer, %d open at the end", balancer.Accepted(), balancer.Open())
			w.finish()
		})
	}
}
