package resilience

import (
	"os"
	"testing"
	"time"
)

// large says that tests whose worth grows with time get minutes.
func large() bool { return os.Getenv("BAOKMS_TEST_BOUND") == "large" }

// TestShortTokens: tokens of seconds, their maximum reached again and again under load. Nothing may ever fail: a token is replaced while
// it is still good.
func TestShortTokens(t *testing.T) {
	t.Parallel()
	duration := 25 * time.Second
	if large() {
		duration = 5 * time.Minute
	}
	for _, c := range []struct {
		name string
		role map[string]any
		// window is auth.loginBeforeTokenExpiry; empty is its default of 5 m, longer than any of these tokens lives.
		window string
		// login and renewal are the shortest times between two of them that the rules allow; no renewal at all for 0.
		login, renewal time.Duration
		renews         bool
	}{
		{
			name: "replaced at half their life", role: map[string]any{"token_ttl": "4s", "token_max_ttl": "6s"}, login: 2 * time.Second,
		},
		{
			// Renewed at 3 s, 6 s and 9 s; the last grants no more than the window: a login.
			name: "renewed up to their maximum", role: map[string]any{"token_ttl": "6s", "token_max_ttl": "12s"}, window: "3s",
			login: 6 * time.Second, renewal: 2500 * time.Millisecond, renews: true,
		},
		{
			// Without the server's own default policy a token may not renew itself: each refusal is followed by a login.
			name: "not allowed to renew themselves", role: map[string]any{"token_ttl": "6s", "token_no_default_policy": true}, window: "3s",
			login: 2500 * time.Millisecond, renewal: 2500 * time.Millisecond,
		},
		{
			name: "of type batch", role: map[string]any{"token_ttl": "6s", "token_max_ttl": "12s", "token_type": "batch"}, window: "3s",
			login: 2500 * time.Millisecond,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fields := map[string]any{}
			if c.window != "" {
				fields["auth.loginBeforeTokenExpiry"] = c.window
				fields["auth.tokenRenewalIncrement"] = "6s"
			}
			w := newWorld(t, options{calm: true, role: c.role, fields: fields})
			short := w.phase("tokens of seconds")
			w.last(duration)
			s, took := w.since(short), time.Since(short.began)
			w.atMost("logins", s.logins, int(took/c.login)+1)
			if s.logins < 2 {
				t.Errorf("%d logins: the maximum was not reached again and again", s.logins)
			}
			if c.renewal == 0 {
				w.atMost("renewals", s.renewals, 0)
			} else {
				w.atMost("renewals", s.renewals, int(took/c.renewal)+1)
			}
			all := w.served()
			w.counted("openbao_kms_auth_login_total", all.logins)
			w.counted("openbao_kms_auth_renewal_total", all.renewals)
			if ttl, limit := w.metrics()["openbao_kms_token_ttl_seconds"], 6.0; ttl <= 0 || ttl > limit {
				t.Errorf("the token lives for %v s more, its role gives it at most %v", ttl, limit)
			}
			if renewed := s.renewals > s.logins; renewed != c.renews {
				t.Errorf("%d renewals and %d logins: tokens are renewed: %v, want %v", s.renewals, s.logins, renewed, c.renews)
			}
			w.finish()
		})
	}
}
