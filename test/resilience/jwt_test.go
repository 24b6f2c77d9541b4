package resilience

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/test/stack"
)

// noLogin is what callers may see while there is no token and none to be had.
func noLogin() []fails {
	return []fails{may(encrypt, codes.Unauthenticated, codes.FailedPrecondition), may(decrypt, codes.Unauthenticated)}
}

// TestJWTExpires: the JWT on disk expires and is replaced; nothing is restarted. While it is expired, nothing of it reaches OpenBao.
func TestJWTExpires(t *testing.T) {
	t.Parallel()
	expiry := time.Now().Add(8 * time.Second).Truncate(time.Second)
	w := newWorld(t, options{
		calm:   true,
		role:   map[string]any{"token_ttl": "3s"},
		claims: map[string]any{"exp": expiry.Unix()},
		fields: map[string]any{"auth.jwt.minRemainingTtl": "0s", "auth.jwt.clockSkewLeeway": "0s"},
	})
	w.await("the JWT has expired", patience, func() error {
		if !time.Now().After(expiry) {
			return errNotYet
		}
		return nil
	})
	expired := w.phase("expired", noLogin()...)
	w.seen(expired.began, encrypt, codes.Unauthenticated, codes.FailedPrecondition)
	w.seen(expired.began, decrypt, codes.Unauthenticated)
	w.last(4 * time.Second)
	w.atMost("logins with an expired JWT", w.since(expired).logins, 0)

	replaced := w.phase("replaced", noLogin()...)
	w.must(w.transit.WriteJWT(w.provider.Files.JWT, nil))
	w.healed(replaced.began, 3*time.Second)
	w.finish()
}

// TestJWTRefused: the JWT on disk is one that OpenBao refuses. Logins with it back off; the right one heals without a restart.
func TestJWTRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{calm: true, role: map[string]any{"token_ttl": "4s"}})
	stranger, err := stack.NewIssuer()
	w.must(err)
	jwt, err := stranger.Mint(nil)
	w.must(err)
	refused := w.phase("refused", noLogin()...)
	w.writeFile(w.provider.Files.JWT, []byte(jwt))
	w.seen(refused.began, encrypt, codes.Unauthenticated, codes.FailedPrecondition)
	w.seen(refused.began, decrypt, codes.Unauthenticated)
	w.last(3 * time.Second)
	// Delays of 1, 2, 4 s after each refusal: in the 8 s that this takes at most four logins.
	w.atMost("logins with a refused JWT", w.since(refused).logins, 4)

	replaced := w.phase("replaced", noLogin()...)
	w.must(w.transit.WriteJWT(w.provider.Files.JWT, nil))
	// The next login may be 8 s away.
	w.healed(replaced.began, 9500*time.Millisecond)
	w.finish()
}
