package auth

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour}
		s := newSession(t, login, time.Minute)
		first := want(t, s, "canary-1")

		// Many callers with one rejected token cause one login; those that were not
		// rejected wait for it, too.
		var group sync.WaitGroup
		login.change(func() { login.takes = time.Second })
		for range 100 {
			group.Go(func() { replace(t, s, first, "canary-2") })
		}
		synctest.Wait()
		for range 100 {
			group.Go(func() { want(t, s, "canary-2") })
		}
		group.Wait()
		wantLogins(t, login, 2)
		replace(t, s, first, "canary-2") // a late one changes nothing
		second := want(t, s, "canary-2")

		// Rejected again one second after the recovery's start: the next is four
		// seconds away. Until then nothing is sent and the token stays in use.
		for range 40 {
			_, err := s.Replace(t.Context(), second)
			assertFault(t, err, fault.RecoveryDelayed, "check that tokens are not being revoked")
			want(t, s, "canary-2")
			time.Sleep(100 * time.Millisecond)
		}
		wantLogins(t, login, 2)
		replace(t, s, second, "canary-3")
		wantLogins(t, login, 3)
	})
}

// recoveryTimes rejects each token that there is, all the time, and returns when
// recoveries started.
func recoveryTimes(t *testing.T, s *Session, login *script, d time.Duration) (at []time.Duration) {
	t.Helper()
	start := time.Now()
	for time.Since(start) < d {
		token, err := s.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := login.logins.Load()
		if _, err := s.Replace(t.Context(), token); err == nil && login.logins.Load() == before+1 {
			at = append(at, time.Since(start))
		} else if login.logins.Load() != before {
			t.Errorf("%d logins at once, %v", login.logins.Load()-before, err)
		}
		time.Sleep(time.Second)
	}
	return at
}

func TestRecoveriesBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: 24 * time.Hour}
		s := newSession(t, login, time.Minute)
		want(t, s, "canary-1")
		const series = "[0s 5s 15s 35s 1m15s 2m35s 5m15s 10m15s 15m15s]"
		if got := fmt.Sprint(recoveryTimes(t, s, login, 20*time.Minute)); got != series {
			t.Errorf("recoveries started at %s, want %s", got, series)
		}
		// Nearly ten minutes without a rejection: the delay is over, and still
		// remembered.
		time.Sleep(10*time.Minute - 2*time.Second)
		if got := fmt.Sprint(recoveryTimes(t, s, login, 6*time.Minute)); got != "[0s 5m0s]" {
			t.Errorf("recoveries started at %s, want the longest delay", got)
		}
		// Ten minutes without any: forgotten.
		time.Sleep(10 * time.Minute)
		if got := fmt.Sprint(recoveryTimes(t, s, login, 20*time.Minute)); got != series {
			t.Errorf("after ten quiet minutes recoveries started at %s, want %s", got, series)
		}
	})
}

// A recovery whose login fails puts the token back: it may be good for others.
// The recovery goes on when a login may start, and is not a further one.
func TestARecoveryWhoseLoginFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour}
		s := newSession(t, login, time.Minute)
		first := want(t, s, "canary-1")
		login.change(func() {
			login.takes, login.err = time.Second, fault.New(fault.LoginRejected, "log in to OpenBao", "no")
		})
		var group sync.WaitGroup
		group.Go(func() {
			_, err := s.Replace(t.Context(), first)
			assertFault(t, err, fault.LoginRejected, "no")
		})
		synctest.Wait()
		// Others wait, and go on with the token afterwards.
		for range 10 {
			group.Go(func() { want(t, s, "canary-1") })
		}
		group.Wait()
		wantLogins(t, login, 2)

		start := time.Now()
		var at []time.Duration
		for time.Since(start) < 40*time.Second {
			before := login.logins.Load()
			_, err := s.Replace(t.Context(), first)
			assertFault(t, err, fault.LoginRejected, "no")
			want(t, s, "canary-1")
			if login.logins.Load() != before {
				at = append(at, time.Since(start)-login.takes)
			}
			time.Sleep(500 * time.Millisecond)
		}
		if got := fmt.Sprint(at); got != "[1s 4s 9s 18s 35s]" {
			t.Errorf("logins of the recovery began at %s", got)
		}
		login.change(func() { login.err, login.takes = nil, 0 })
		time.Sleep(lastBackoff)
		second := replace(t, s, first, "canary-8")

		// One recovery has taken place, so the delay is the first.
		for range 4 {
			_, err := s.Replace(t.Context(), second)
			assertFault(t, err, fault.RecoveryDelayed, "")
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		third := replace(t, s, second, "canary-9")
		time.Sleep(2*firstRecoveryDelay - time.Nanosecond)
		_, err := s.Replace(t.Context(), third)
		assertFault(t, err, fault.RecoveryDelayed, "")
		time.Sleep(time.Nanosecond)
		replace(t, s, third, "canary-10")
	})
}

// A token that ends while its recovery cannot log in is not put back.
func TestASetAsideTokenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Minute}
		s := newSession(t, login, time.Second)
		first := want(t, s, "canary-1")
		time.Sleep(58 * time.Second)
		login.change(func() { login.takes, login.err = 3*time.Second, fault.New(fault.Sealed, "log in to OpenBao", "") })
		_, err := s.Replace(t.Context(), first)
		assertFault(t, err, fault.Sealed, "")
		_, err = s.Token(t.Context())
		assertFault(t, err, fault.Sealed, "")
		if s.Remaining() != 0 {
			t.Errorf("%v left of a token at its end", s.Remaining())
		}
		login.change(func() { login.err = nil })
		time.Sleep(time.Second)
		want(t, s, "canary-3")
	})
}

// A token that is rejected while its replacement is already under way is
// replaced by that, and no recovery starts.
func TestRejectionDuringALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour}
		s := newSession(t, login, 5*time.Minute)
		first := want(t, s, "canary-1")
		login.change(func() { login.takes = time.Second })
		time.Sleep(56 * time.Minute)
		want(t, s, "canary-1")
		second := replace(t, s, first, "canary-2")
		wantLogins(t, login, 2)
		third := replace(t, s, second, "canary-3") // the first recovery: at once
		_, err := s.Replace(t.Context(), third)
		assertFault(t, err, fault.RecoveryDelayed, "")
	})
}

// Whoever waits for a recovery waits no longer than its own context allows, and
// cancels nothing.
func TestRejectedCallersEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour}
		s := newSession(t, login, time.Minute)
		first := want(t, s, "canary-1")
		login.change(func() { login.takes = 4 * time.Second })
		start := time.Now()
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				limit := time.Duration(i+1) * time.Second / 4
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				_, err := s.Replace(ctx, first)
				assertFault(t, err, fault.DeadlineExceeded, opToken)
				if waited := time.Since(start); waited != limit {
					t.Errorf("a caller with %v waited %v", limit, waited)
				}
			})
		}
		group.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Replace(ctx, first)
		assertFault(t, err, fault.Canceled, opToken)
		replace(t, s, first, "canary-2")
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("the recovery took %v, want 4s", took)
		}
		wantLogins(t, login, 2)
	})
}

func TestReplaceWithoutAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Minute}
		s := newSession(t, login, time.Second)
		// Nothing is held yet; an unknown token is not ours to judge.
		replace(t, s, openbao.NewSecret("canary-x"), "canary-1")
		first := replace(t, s, openbao.Secret{}, "canary-1")
		wantLogins(t, login, 1)
		// At its end a token is replaced by an ordinary login.
		time.Sleep(time.Minute)
		second := replace(t, s, first, "canary-2")
		replace(t, s, second, "canary-3") // and this is the first recovery
		s.Close()
		_, err := s.Replace(t.Context(), second)
		assertFault(t, err, fault.Canceled, "shutting down")
	})
}

func TestCloseDuringARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour}
		s := NewSession(Options{Login: login, RequestTimeout: time.Second})
		first := want(t, s, "canary-1")
		login.change(func() { login.takes = time.Second })
		failed := make(chan error, 1)
		go func() {
			_, err := s.Replace(t.Context(), first)
			failed <- err
		}()
		synctest.Wait()
		s.Close()
		assertFault(t, <-failed, fault.Canceled, "shutting down")
		if s.Remaining() != 0 {
			t.Error("the token came back after Close")
		}
	})
}

// deaf is a Login that does not hear the end of its context.
type deaf struct{ *script }

func (d deaf) Login(context.Context) (Grant, error) { return d.script.Login(context.Background()) }

func (d deaf) Renew(_ context.Context, token openbao.Secret, increment time.Duration) (Grant, error) {
	return d.script.Renew(context.Background(), token, increment)
}

func TestAnswersThatComeTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, takes: time.Second}
		s := NewSession(Options{Login: deaf{login}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := s.Token(ctx)
		assertFault(t, err, fault.DeadlineExceeded, "")
		s.Close()
		if s.Remaining() != 0 {
			t.Error("a token that came after Close is held")
		}
	})
	// The token has ended, and a late renewal prolongs it: for the caller for whom
	// OpenBao rejected it, that is not another one.
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, renewable: true, renew: grants(time.Hour), renewTakes: 10 * time.Second}
		s := NewSession(Options{Login: deaf{login}, Window: testWindow, RenewalIncrement: testIncrement})
		defer s.Close()
		first := want(t, s, "canary-1")
		time.Sleep(time.Hour - time.Second)
		want(t, s, "canary-1")
		time.Sleep(2 * time.Second)
		_, err := s.Replace(t.Context(), first)
		assertFault(t, err, fault.RecoveryDelayed, "")
	})
}
