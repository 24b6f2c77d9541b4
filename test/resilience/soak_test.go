package resilience

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/test/stack"
)

// disturbance is one kind of failure: do makes it and puts everything right again.
type disturbance struct {
	name  string
	fails []fails
	do    func(w *world, b *stack.Balancer)
	// bound is how long after do nothing may fail any more; 0 is what the next recovery takes, when the first of the test was at do's
	// beginning.
	bound time.Duration
}

// disturbances are the failures that a soak goes through in turn. Those in which OpenBao rejects a token come early and far apart: each
// doubles the delay until the next recovery (design: openbao, auth).
func disturbances() []disturbance {
	return []disturbance{
		{"encrypt denied", []fails{may(encrypt, denied...)}, func(w *world, _ *stack.Balancer) {
			w.must(w.leader().WritePolicy(w.t.Context(), stack.PolicyName, rules("decrypt", "keys", "config")))
			w.last(2 * time.Second)
			w.must(w.leader().WritePolicy(w.t.Context(), stack.PolicyName, policy.OpenBao(stack.DefaultMount, stack.DefaultKey)))
		}, 0},
		{"connections cut", unreachable(), func(_ *world, b *stack.Balancer) { b.Cut() }, 3 * time.Second},
		{"leader killed", failover(), func(w *world, _ *stack.Balancer) {
			old := w.leader()
			old.Kill()
			w.leader()
			w.revive(old)
			w.must(w.cluster.Settle(w.t.Context()))
		}, 4 * time.Second},
		{"token revoked", nil, func(w *world, _ *stack.Balancer) {
			_, err := w.leader().RevokeLogins(w.t.Context())
			w.must(err)
		}, time.Second},
		{"leader sealed", failover(), func(w *world, _ *stack.Balancer) {
			old := w.leader()
			w.must(old.Seal(w.t.Context()))
			w.leader()
			w.must(old.Unseal(w.t.Context()))
			w.must(w.cluster.Settle(w.t.Context()))
		}, 4 * time.Second},
		{"rate limited", []fails{may(encrypt, codes.ResourceExhausted, codes.FailedPrecondition), may(decrypt, codes.ResourceExhausted)},
			func(w *world, _ *stack.Balancer) {
				w.must(w.leader().LimitRate(w.t.Context(), "soak", stack.DefaultMount, 5))
				w.last(2 * time.Second)
				w.must(w.leader().UnlimitRate(w.t.Context(), "soak"))
			}, 3 * time.Second},
		{"leader steps down", failover(), func(w *world, _ *stack.Balancer) {
			w.must(w.leader().StepDown(w.t.Context()))
			w.must(w.cluster.Settle(w.t.Context()))
		}, 6 * time.Second},
		{"JWT expired", noLogin(), func(w *world, _ *stack.Balancer) {
			w.must(w.transit.WriteJWT(w.provider.Files.JWT, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}))
			_, err := w.leader().RevokeLogins(w.t.Context())
			w.must(err)
			w.last(2 * time.Second)
			w.must(w.transit.WriteJWT(w.provider.Files.JWT, nil))
		}, 20 * time.Second},
		{"leader frozen", failover(), func(w *world, _ *stack.Balancer) {
			old := w.leader()
			w.freeze(old)
			w.await("there is a new leader", election, func() error {
				if w.leader() == old {
					return errNotYet
				}
				return nil
			})
			w.thaw(old)
			w.must(w.cluster.Settle(w.t.Context()))
		}, 6 * time.Second},
		{"all servers restarted", failover(), func(w *world, _ *stack.Balancer) {
			w.must(w.cluster.Stop())
			for _, node := range w.cluster.Nodes() {
				w.revive(node)
			}
			w.must(w.cluster.Settle(w.t.Context()))
		}, 6 * time.Second},
	}
}

// revive starts and unseals one server of a cluster that has been stopped.
func (w *world) revive(node *stack.Transit) {
	w.t.Helper()
	w.must(node.StartSealed(w.t.Context()))
	w.must(node.Unseal(w.t.Context()))
}

// TestSoak: a failure of each kind in turn under a steady load, on a cluster behind a load balancer. What the provider's process holds
// returns to where it was.
func TestSoak(t *testing.T) {
	t.Parallel()
	every := 5 * time.Second
	if large() {
		every = time.Minute
	}
	w, balancer := newClusterWorld(t, false, options{calm: true, pause: 100 * time.Millisecond})
	w.last(2 * time.Second)
	before, err := holdingsOf(t.Context(), w.provider)
	w.must(err)
	open := balancer.Open()
	w.note("before: %v, %d connections to the cluster", before, open)

	all := w.phase("soak")
	for _, d := range disturbances() {
		began := time.Now()
		w.phase(d.name, d.fails...)
		d.do(w, balancer)
		bound := d.bound
		if bound == 0 {
			bound = untilRecovery(time.Since(began)) + 3*time.Second
		}
		w.healed(time.Now(), bound)
		if rest := every - time.Since(began); rest > 0 {
			w.last(rest)
		}
	}
	// One for the denial and one that heals it, one for the revoked token, two for the one whose JWT has expired.
	w.atMost("logins in all", w.since(all).logins, 5)

	var after holdings
	w.await("what the provider holds returns to where it was", 20*time.Second, func() error {
		var err error
		after, err = holdingsOf(t.Context(), w.provider)
		switch {
		case err != nil:
			return err
		case after.goroutines > before.goroutines+20, after.descriptors > before.descriptors+8, after.sockets > before.sockets+8,
			after.memory > before.memory+(16<<20):
			return fmt.Errorf("before: %v; now: %v", before, after)
		}
		return nil
	})
	w.note("after: %v, %d connections to the cluster", after, balancer.Open())
	if now := balancer.Open(); now > open+8 {
		t.Errorf("%d connections to the cluster are open, %d were before", now, open)
	}
	w.finish()
}
