package auth

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

func TestASlowRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, renewable: true, renew: grants(time.Hour), renewTakes: time.Minute}
		s := renewing(t, login)
		want(t, s, "canary-1")
		time.Sleep(55 * time.Minute)
		start := time.Now()
		for range 20 {
			want(t, s, "canary-1")
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("callers with a valid token waited %v", waited)
		}
		// It ends with openbao.timeout, and the login follows.
		time.Sleep(2*time.Second - time.Nanosecond)
		wantAttempts(t, login, 1, 1)
		time.Sleep(time.Nanosecond)
		wantAttempts(t, login, 1, 2)
		want(t, s, "canary-2")

		// Past the token's end callers wait: then for the login alone.
		time.Sleep(time.Hour - time.Second)
		want(t, s, "canary-2")
		time.Sleep(500 * time.Millisecond)
		login.change(func() { login.takes = 100 * time.Millisecond })
		start = time.Now()
		time.Sleep(500 * time.Millisecond)
		want(t, s, "canary-3")
		if waited := time.Since(start); waited != 600*time.Millisecond {
			t.Errorf("the login ended after %v, want 600ms", waited)
		}
	})
}

// A rejection ends the renewal of that token: the recovery logs in at once.
func TestRejectionDuringARenewal(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			login := &script{ttl: time.Hour, renewable: true, renew: grants(time.Hour), renewTakes: time.Second}
			if late { // the answer is there when the rejection comes
				login.change(func() { login.renewTakes = 0 })
				gate := make(chan struct{})
				login.renew = func(token openbao.Secret, increment time.Duration) (Grant, error) {
					<-gate
					return grants(time.Hour)(token, increment)
				}
				time.AfterFunc(55*time.Minute+time.Second, func() { close(gate) })
			}
			s := renewing(t, login)
			first := want(t, s, "canary-1")
			time.Sleep(55 * time.Minute)
			want(t, s, "canary-1")
			synctest.Wait()
			start := time.Now()
			second := replace(t, s, first, "canary-2")
			wantAttempts(t, login, 1, 2)
			if waited := time.Since(start); !late && waited != 0 {
				t.Errorf("the recovery waited %v for the renewal", waited)
			}
			_, err := s.Replace(t.Context(), second)
			assertFault(t, err, fault.RecoveryDelayed, "")
		})
	}
}

// Where no recovery may start, the renewal goes on and the rejected caller does
// not wait for it.
func TestRejectionDuringARenewalInTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: 6 * time.Minute, renewable: true, renew: grants(time.Hour)}
		s := renewing(t, login)
		token := want(t, s, "canary-1")
		// Six recoveries in a row: the next may start 2m40s after the last.
		for i := range 6 {
			token = replace(t, s, token, fmt.Sprint("canary-", i+2))
			if i < 5 {
				time.Sleep(firstRecoveryDelay << i)
			}
		}
		time.Sleep(61 * time.Second)
		login.change(func() { login.renewTakes = time.Second })
		want(t, s, "canary-7")
		synctest.Wait()
		start := time.Now()
		_, err := s.Replace(t.Context(), token)
		assertFault(t, err, fault.RecoveryDelayed, "")
		if waited := time.Since(start); waited != 0 {
			t.Errorf("it waited %v", waited)
		}
		time.Sleep(time.Second)
		wantAttempts(t, login, 1, 7)
		// The renewal did not make it another token.
		_, err = s.Replace(t.Context(), token)
		assertFault(t, err, fault.RecoveryDelayed, "")
		if got := want(t, s, "canary-7"); got != token {
			t.Error("the renewed token is another Secret")
		}
		time.Sleep(2 * time.Minute)
		replace(t, s, token, "canary-8")
	})
}

// The recovery of a token whose login failed goes on, and nothing renews that
// token.
func TestARejectedTokenIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, renewable: true, renew: grants(time.Hour)}
		s := renewing(t, login)
		first := want(t, s, "canary-1")
		login.change(func() { login.err = local(opCheckJWT, "it has expired") })
		_, err := s.Replace(t.Context(), first)
		assertFault(t, err, fault.LoginRejected, "")
		time.Sleep(56 * time.Minute)
		want(t, s, "canary-1")
		wantAttempts(t, login, 0, 3)
		login.change(func() { login.err = nil })
		time.Sleep(localDelay)
		want(t, s, "canary-1")
		wantAttempts(t, login, 0, 4)
		want(t, s, "canary-4")
	})
}

// A token whose life was over before its answer arrived is worth nothing, and
// must not lead to one login after another.
func TestALoginThatTakesLongerThanTheTokenLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Second, takes: 3 * time.Second}
		s := newSession(t, login, time.Minute)
		for range 3 {
			_, err := s.Token(t.Context())
			assertFault(t, err, fault.Unavailable, "token_ttl")
		}
		wantLogins(t, login, 1)
		// What is left of a token that came late counts.
		login.change(func() { login.ttl = 7 * time.Second })
		time.Sleep(firstBackoff)
		want(t, s, "canary-2")
		if left := s.Remaining(); left != 4*time.Second {
			t.Errorf("%v left, want 4s", left)
		}
		time.Sleep(2*time.Second - time.Nanosecond)
		want(t, s, "canary-2")
		synctest.Wait()
		wantLogins(t, login, 2)
		time.Sleep(time.Nanosecond)
		want(t, s, "canary-2")
		synctest.Wait()
		wantLogins(t, login, 3)
	})
}

func TestCloseDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, renewable: true, renew: grants(time.Hour), renewTakes: time.Second}
		s := renewing(t, login)
		want(t, s, "canary-1")
		time.Sleep(55 * time.Minute)
		want(t, s, "canary-1")
		synctest.Wait()
		s.Close() // synctest fails if a goroutine is left
		if s.Remaining() != 0 {
			t.Error("the token outlives Close")
		}
		if login.logins.Load() != 1 {
			t.Error("a login began after Close")
		}
	})
}

func TestWhatIsReportedOfRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		seen := &counts{}
		login := &script{ttl: time.Hour, renewable: true, renew: grants(time.Hour), renewTakes: 20 * time.Millisecond}
		s := NewSession(Options{
			Login: login, Window: testWindow, RenewalIncrement: testIncrement, RequestTimeout: 2 * time.Second,
			Logger: slog.New(slog.NewTextHandler(&log, nil)), Observer: seen,
		})
		defer s.Close()
		want(t, s, "canary-1")
		// inWindow reaches the window with token and waits so long after.
		inWindow := func(token string, wait time.Duration) openbao.Secret {
			t.Helper()
			time.Sleep(55 * time.Minute)
			got := want(t, s, token)
			time.Sleep(wait)
			synctest.Wait()
			return got
		}
		inWindow("canary-1", time.Second)
		login.change(func() { login.renew = fails(status(503)) })
		inWindow("canary-1", time.Second)
		token := inWindow("canary-2", 10*time.Millisecond)
		replace(t, s, token, "canary-3")
		synctest.Wait()
		login.change(func() { login.renewTakes = time.Hour })
		inWindow("canary-3", 2*time.Second)
		synctest.Wait()
		if got := strings.Join(seen.list, ", "); got != "login ok, renewal ok, renewal openbao_unavailable, login ok, "+
			"renewal auth_failed, login ok, recovery ok, renewal timeout, login ok" {
			t.Errorf("observed %q", got)
		}
		for _, line := range []string{
			"level=INFO msg=auth.renewal operation=token_renew_self duration_ms=20 status=ok",
			"level=WARN msg=auth.renewal operation=token_renew_self duration_ms=20 error_class=openbao_unavailable",
			`error_class=auth_failed error="renew the OpenBao token: OpenBao does not accept the provider's token: it was rejected for another request meanwhile: a login replaces it"`,
			`error_class=timeout error="renew the OpenBao token: OpenBao did not answer in time: no answer within openbao.timeout (2s): check`,
		} {
			if !strings.Contains(log.String(), line) {
				t.Errorf("the log has no line with %q:\n%s", line, &log)
			}
		}
		assertClean(t, log.String())
	})
}
