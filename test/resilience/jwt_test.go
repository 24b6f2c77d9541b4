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
	w := newWorld(t, options{
		calm:   true,
		role:   map[string]any{"token_ttl": "3s"},
		fields: map[string]any{"auth.jwt.minRemainingTtl": "0s", "auth.jwt.clockSkewLeeway": "0s"},
	})
	// It is written once the world is there: how long that takes is the machine's affair. There is a login every 1.5 s.
	written := w.phase("about to expire")
	expiry := time.Now().Add(6 * time.Second).Truncate(time.Second)
	w.must(w.transit.WriteJWT(w.provider.Files.JWT, map[string]any{"exp": expiry.Unix()}))
	w.await("the JWT has expired", patience, func() error {
		// A login on its way at that moment ends meanwhile; the token of the last one lives for a second and more.
		if time.Since(expiry) < 300*time.Millisecond {
			return errNotYet
		}
		return nil
	})
	if s := w.since(written); s.logins < 2 {
		t.Errorf("%d logins in the last seconds of a JWT, want more: it is used to its end", s.logins)
	}
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
