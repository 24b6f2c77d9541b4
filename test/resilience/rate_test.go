package resilience

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/test/stack"
)

// TestRateLimit: a quota on the Transit mount, then one on everything, logins included.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{calm: true, role: map[string]any{"token_ttl": "6s"}})
	limited := []fails{may(encrypt, codes.ResourceExhausted, codes.FailedPrecondition), may(decrypt, codes.ResourceExhausted)}
	mount := w.phase("mount limited", limited...)
	w.must(w.transit.LimitRate(t.Context(), "mount", stack.DefaultMount, 5))
	w.seen(mount.began, decrypt, codes.ResourceExhausted)
	w.last(5 * time.Second)
	w.phase("lifted", limited...)
	w.must(w.transit.UnlimitRate(t.Context(), "mount"))
	w.healed(time.Now(), 2500*time.Millisecond)

	all := w.phase("all limited", limited...)
	w.must(w.transit.LimitRate(t.Context(), "all", "", 1))
	w.last(10 * time.Second)
	// At most one login a half-life, or the delays of 1, 2, 4 s after failed ones.
	w.atMost("logins while limited", w.since(all).logins, 4)
	again := w.phase("lifted again", limited...)
	w.await("the limit is lifted", patience, func() error { return w.transit.UnlimitRate(t.Context(), "all") })
	lifted := time.Now()
	// Logins were limited too, and the next one may be 8 s away: until then there may be a time without a token.
	w.await("a login succeeds", 9*time.Second, func() error {
		if w.since(again).logins == 0 {
			return errNotYet
		}
		return nil
	})
	w.healed(lifted, 9500*time.Millisecond)
	w.finish()
}
