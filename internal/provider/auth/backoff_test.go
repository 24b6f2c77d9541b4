package auth

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// loginTimes asks for a token all the time and returns when logins began.
func loginTimes(t *testing.T, s *Session, login *script, d time.Duration, cause fault.Cause) []time.Duration {
	t.Helper()
	start := time.Now()
	var at []time.Duration
	for time.Since(start) < d {
		before := login.logins.Load()
		_, err := s.Token(t.Context())
		// Also during the delay the reason is the login's own.
		assertFault(t, err, cause, "")
		if login.logins.Load() != before {
			at = append(at, time.Since(start))
		}
		time.Sleep(100 * time.Millisecond)
	}
	return at
}

func TestFailedLoginsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, err: fault.New(fault.LoginRejected, "log in to OpenBao", "no")}
		s := newSession(t, login, time.Minute)
		at := loginTimes(t, s, login, 2*time.Minute, fault.LoginRejected)
		if got := fmt.Sprint(at); got != "[0s 1s 3s 7s 15s 31s 1m1s 1m31s]" {
			t.Errorf("logins started at %s", got)
		}
		login.change(func() { login.err = fault.New(fault.ConnectionFailed, "log in to OpenBao", "gone") })
		time.Sleep(time.Minute)
		_, err := s.Token(t.Context())
		assertFault(t, err, fault.ConnectionFailed, "gone")
		_, err = s.Token(t.Context())
		assertFault(t, err, fault.ConnectionFailed, "gone")

		// A success forgets the delays.
		login.change(func() { login.err = nil })
		time.Sleep(time.Minute)
		token := want(t, s, "canary-10")
		login.change(func() { login.err = fault.New(fault.Sealed, "log in to OpenBao", "") })
		_, err = s.Replace(t.Context(), token)
		assertFault(t, err, fault.Sealed, "sealed")
		login.change(func() { login.err = nil })
		time.Sleep(firstBackoff)
		replace(t, s, token, "canary-12")
	})
}

// While OpenBao cannot be reached or cannot answer, logins come often enough that
// the end of the outage is noticed within seconds.
func TestLoginsThroughAnOutage(t *testing.T) {
	for cause, want := range map[fault.Cause]string{
		fault.ConnectionFailed: "[0s 1s 3s 7s 12s 17s 22s 27s]", fault.DNSFailed: "[0s 1s 3s 7s 12s 17s 22s 27s]",
		fault.TLSFailed: "[0s 1s 3s 7s 12s 17s 22s 27s]", fault.TimedOut: "[0s 1s 3s 7s 12s 17s 22s 27s]",
		fault.Sealed: "[0s 1s 3s 7s 12s 17s 22s 27s]", fault.Unavailable: "[0s 1s 3s 7s 12s 17s 22s 27s]",
		fault.LoginRejected: "[0s 1s 3s 7s 15s]", fault.RateLimited: "[0s 1s 3s 7s 15s]",
	} {
		synctest.Test(t, func(t *testing.T) {
			login := &script{ttl: time.Hour, err: fault.New(cause, "log in to OpenBao", "gone")}
			s := newSession(t, login, time.Minute)
			if got := fmt.Sprint(loginTimes(t, s, login, 30*time.Second, cause)); got != want {
				t.Errorf("%s: logins started at %s, want %s", cause.Text(), got, want)
			}
		})
	}
}

// A credential that fails its local check is looked at again every second, and
// leaves OpenBao's own delay as it was.
func TestLocalFailuresAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, err: local(opCheckJWT, "it has expired")}
		s := newSession(t, login, time.Minute)
		at := loginTimes(t, s, login, time.Minute, fault.LoginRejected)
		if len(at) != 60 || at[59] != 59*time.Second {
			t.Errorf("%d logins started, at %v; want one a second", len(at), at)
		}
		login.change(func() { login.err = fault.New(fault.LoginRejected, "log in to OpenBao", "no") })
		if got := fmt.Sprint(loginTimes(t, s, login, 10*time.Second, fault.LoginRejected)); got != "[0s 1s 3s 7s]" {
			t.Errorf("after that OpenBao's refusals came at %s", got)
		}
		time.Sleep(time.Minute)
		login.change(func() { login.err = local(opCheckJWT, "it has expired") })
		if n := len(loginTimes(t, s, login, 10*time.Second, fault.LoginRejected)); n != 10 {
			t.Errorf("%d logins in 10 s, want one a second", n)
		}
		login.change(func() { login.err = nil })
		time.Sleep(localDelay)
		if _, err := s.Token(t.Context()); err != nil {
			t.Errorf("a second after the file was replaced: %v", err)
		}
	})
}

func TestAFailedReplacementLeavesTheTokenInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour}
		s := newSession(t, login, 5*time.Minute)
		want(t, s, "canary-1")
		login.change(func() { login.err = fault.New(fault.ConnectionFailed, "log in to OpenBao", "gone") })
		time.Sleep(55 * time.Minute)
		for range 299 {
			want(t, s, "canary-1")
			time.Sleep(time.Second)
		}
		if n := login.logins.Load(); n != 1+62 { // at 0, 1, 3, 7 s, and every 5 s from there
			t.Errorf("%d logins in five minutes of failures", n)
		}
		time.Sleep(time.Second)
		_, err := s.Token(t.Context())
		assertFault(t, err, fault.ConnectionFailed, "gone")
	})
}
