package resilience

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// TestTokenRevoked: one revocation is healed by one login that all callers share, and no caller notices.
func TestTokenRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{calm: true})
	revoked := w.phase("revoked")
	if n, err := w.transit.RevokeLogins(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d tokens revoked, %v, want the provider's one", n, err)
	}
	w.healed(revoked.began, 0)
	w.atMost("logins after one revocation", w.since(revoked).logins, 1)
	w.finish()
}

// TestTokenRevokedAgainAndAgain: recoveries start no faster than the rule says, whatever somebody does to the tokens.
func TestTokenRevokedAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{calm: true})
	refused := []codes.Code{codes.Unauthenticated, codes.FailedPrecondition}
	revoked := w.phase("revoked every second", may(encrypt, refused...), may(decrypt, codes.Unauthenticated))
	const rounds = 12
	for range rounds {
		_, err := w.transit.RevokeLogins(t.Context())
		w.must(err)
		w.last(time.Second)
	}
	over := w.phase("left alone", may(encrypt, refused...), may(decrypt, codes.Unauthenticated))
	// The next recovery waits for the first call that is rejected when it is time, and the next probe comes within 1 s.
	w.healed(over.began, untilRecovery(over.began.Sub(revoked.began))+4*time.Second)
	w.atMost("logins after revocations every second", w.since(revoked).logins, recoveries(time.Since(revoked.began)))
	w.finish()
}
