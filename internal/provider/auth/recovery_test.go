package auth

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

func TestFailedLoginsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, err: fault.New(fault.LoginRejected, "log in to OpenBao", "no")}
		s := newSession(t, login, time.Minute)
		start := time.Now()
		var at []time.Duration
		for time.Since(start) < 2*time.Minute {
			before := login.logins.Load()
			_, err := s.Token(t.Context())
			// Also during the delay the reason is the login's own.
			assertFault(t, err, fault.LoginRejected, "log in to OpenBao")
			if login.logins.Load() != before {
				at = append(at, time.Since(start))
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got := fmt.Sprint(at); got != "[0s 1s 3s 7s 15s 31s 1m1s 1m31s]" {
			t.Errorf("logins started at %s", got)
		}
		login.err = fault.New(fault.ConnectionFailed, "log in to OpenBao", "gone")
		time.Sleep(time.Minute)
		_, err := s.Token(t.Context())
		assertFault(t, err, fault.ConnectionFailed, "gone")
		_, err = s.Token(t.Context())
		assertFault(t, err, fault.ConnectionFailed, "gone")

		// A success forgets the delays.
		login.err = nil
		time.Sleep(time.Minute)
		token := want(t, s, "canary-10")
		login.err = fault.New(fault.Sealed, "log in to OpenBao", "")
		s.Discard(token)
		_, err = s.Token(t.Context())
		assertFault(t, err, fault.Sealed, "sealed")
		login.err = nil
		time.Sleep(recoveryInterval)
		want(t, s, "canary-12")
	})
}

func TestAFailedReplacementLeavesTheTokenInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour}
		s := newSession(t, login, 5*time.Minute)
		want(t, s, "canary-1")
		login.err = fault.New(fault.ConnectionFailed, "log in to OpenBao", "gone")
		time.Sleep(55 * time.Minute)
		for range 299 {
			want(t, s, "canary-1")
			time.Sleep(time.Second)
		}
		if n := login.logins.Load(); n < 10 || n > 15 {
			t.Errorf("%d logins in five minutes of failures", n)
		}
		time.Sleep(time.Second)
		_, err := s.Token(t.Context())
		assertFault(t, err, fault.ConnectionFailed, "gone")
	})
}

func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour}
		s := newSession(t, login, time.Minute)
		first := want(t, s, "canary-1")

		// Many callers with one rejected token cause one login.
		var group sync.WaitGroup
		login.takes = time.Second
		for range 100 {
			group.Go(func() {
				s.Discard(first)
				want(t, s, "canary-2")
			})
		}
		group.Wait()
		wantLogins(t, login, 2)
		s.Discard(first) // a late one changes nothing
		second := want(t, s, "canary-2")

		// Rejected again one second after the recovery's start: the next is four
		// seconds away, and until then nothing is sent.
		s.Discard(second)
		for range 39 {
			_, err := s.Token(t.Context())
			assertFault(t, err, fault.RecoveryDelayed, "check that the role's policy")
			time.Sleep(100 * time.Millisecond)
		}
		wantLogins(t, login, 2)
		time.Sleep(100 * time.Millisecond)
		third := want(t, s, "canary-3")
		wantLogins(t, login, 3)

		// Long after, a recovery starts at once.
		time.Sleep(time.Minute)
		s.Discard(third)
		want(t, s, "canary-4")
		wantLogins(t, login, 4)
	})
}

// A token that is rejected while its replacement is already under way is
// replaced by that.
func TestDiscardDuringALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour}
		s := newSession(t, login, 5*time.Minute)
		first := want(t, s, "canary-1")
		login.takes = time.Second
		time.Sleep(56 * time.Minute)
		want(t, s, "canary-1")
		s.Discard(first)
		want(t, s, "canary-2")
		wantLogins(t, login, 2)
	})
}
