package auth

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

const (
	testWindow    = 5 * time.Minute
	testIncrement = time.Hour
)

// grants is a renewal that gives the same token so much more life.
func grants(ttl time.Duration) func(openbao.Secret, time.Duration) (Grant, error) {
	return func(token openbao.Secret, _ time.Duration) (Grant, error) {
		return Grant{Token: openbao.NewSecret(token.Reveal()), TTL: ttl, Renewable: true}, nil
	}
}

func fails(err error) func(openbao.Secret, time.Duration) (Grant, error) {
	return func(openbao.Secret, time.Duration) (Grant, error) { return Grant{}, err }
}

func renewing(t *testing.T, login *script) *Session {
	t.Helper()
	s := NewSession(Options{
		Login: login, Window: testWindow, RenewalIncrement: testIncrement, RequestTimeout: 2 * time.Second,
	})
	t.Cleanup(s.Close)
	return s
}

// wantAttempts waits until nothing runs and compares the counts of requests.
func wantAttempts(t *testing.T, l *script, renewals, logins int32) {
	t.Helper()
	synctest.Wait()
	if r, n := l.renewals.Load(), l.logins.Load(); r != renewals || n != logins {
		t.Fatalf("%d renewals and %d logins, want %d and %d", r, n, renewals, logins)
	}
}

func TestRenewalInsideTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, renewable: true, renewTakes: time.Second}
		var asked time.Duration
		login.renew = func(token openbao.Secret, increment time.Duration) (Grant, error) {
			asked = increment
			return grants(30*time.Minute)(token, increment)
		}
		s := renewing(t, login)
		first := want(t, s, "canary-1")
		time.Sleep(55*time.Minute - time.Nanosecond)
		want(t, s, "canary-1")
		wantAttempts(t, login, 0, 1)
		time.Sleep(time.Nanosecond)
		start := time.Now()
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() { want(t, s, "canary-1") })
		}
		group.Wait()
		if waited := time.Since(start); waited != 0 {
			t.Errorf("callers with a valid token waited %v", waited)
		}
		time.Sleep(time.Second)
		wantAttempts(t, login, 1, 1)
		if asked != testIncrement {
			t.Errorf("the renewal asked for %v, want %v", asked, testIncrement)
		}
		if left := s.Remaining(); left != 30*time.Minute-time.Second {
			t.Errorf("%v left, want half an hour from the request on", left)
		}
		if again := want(t, s, "canary-1"); again != first {
			t.Error("a renewed token is another Secret: who knows it as rejected would not recognize it")
		}
		// The next renewal is due when the window is reached again.
		time.Sleep(25*time.Minute - time.Second - time.Nanosecond)
		want(t, s, "canary-1")
		wantAttempts(t, login, 1, 1)
		time.Sleep(time.Nanosecond)
		want(t, s, "canary-1")
		wantAttempts(t, login, 2, 1)
	})
}

// Whatever a renewal comes to, one attempt makes no more than one renewal and
// one login, and callers with a valid token never notice.
func TestWhatARenewalComesTo(t *testing.T) {
	for _, c := range []struct {
		name     string
		renew    func(openbao.Secret, time.Duration) (Grant, error)
		renewals int32
		logins   int32
		token    string
		left     time.Duration
	}{
		{"granted in full", grants(time.Hour), 1, 1, "canary-1", time.Hour},
		{"just more than the window", grants(testWindow + time.Second), 1, 1, "canary-1", testWindow + time.Second},
		{"the window", grants(testWindow), 1, 2, "canary-2", time.Hour},
		{"less than the window", grants(time.Second), 1, 2, "canary-2", time.Hour},
		{"not renewable from now on", func(token openbao.Secret, _ time.Duration) (Grant, error) {
			return Grant{Token: token, TTL: 30 * time.Minute}, nil
		}, 1, 1, "canary-1", 30 * time.Minute},
		{"another token", func(openbao.Secret, time.Duration) (Grant, error) {
			return Grant{Token: openbao.NewSecret("canary-new"), TTL: time.Hour, Renewable: true}, nil
		}, 1, 1, "canary-new", time.Hour},
		{"gone", fails(status(403)), 1, 2, "canary-2", time.Hour},
		{"refused", fails(status(400)), 1, 2, "canary-2", time.Hour},
		{"rate limit", fails(status(429)), 1, 2, "canary-2", time.Hour},
		{"sealed", fails(status(503)), 1, 2, "canary-2", time.Hour},
		{"no connection", fails(fault.New(fault.ConnectionFailed, opRenew, "x")), 1, 2, "canary-2", time.Hour},
		{"panic", func(openbao.Secret, time.Duration) (Grant, error) { panic("canary") }, 1, 2, "canary-2", time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				login := &script{ttl: time.Hour, renewable: true, renew: c.renew}
				s := renewing(t, login)
				want(t, s, "canary-1")
				time.Sleep(55 * time.Minute)
				want(t, s, "canary-1")
				wantAttempts(t, login, c.renewals, c.logins)
				want(t, s, c.token)
				if left := s.Remaining(); left != c.left {
					t.Errorf("%v left, want %v", left, c.left)
				}
				if life, uses := s.Granted(); life != c.left || uses != usesOf(c.token) {
					t.Errorf("granted for %v and %d uses, want %v and %d", life, uses, c.left, usesOf(c.token))
				}
			})
		})
	}
}

// usesOf are the uses of a token that the script gives; a renewal says nothing of
// them, so they stay.
func usesOf(token string) int {
	if token == "canary-new" {
		return 0
	}
	return scriptUses
}

func TestTokensThatAreNotRenewed(t *testing.T) {
	for name, c := range map[string]struct {
		ttl       time.Duration
		renewable bool
		increment time.Duration
	}{
		"not renewable":           {time.Hour, false, testIncrement},
		"no longer than window":   {testWindow, true, testIncrement},
		"a few seconds":           {4 * time.Second, true, testIncrement},
		"renewals are turned off": {time.Hour, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				login := &script{ttl: c.ttl, renewable: c.renewable, renew: grants(time.Hour)}
				s := NewSession(Options{Login: login, Window: testWindow, RenewalIncrement: c.increment})
				defer s.Close()
				for range 5 {
					if _, err := s.Token(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(refreshAfter(c.ttl, testWindow))
				}
				wantAttempts(t, login, 0, 5)
			})
		})
	}
}

// OpenBao grants less and less as a token nears its longest life: renewals end
// in a login, and do not become a loop.
func TestLongestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxLife = 2 * time.Hour
		login := &script{ttl: time.Hour, renewable: true}
		begin := time.Now()
		login.renew = func(token openbao.Secret, increment time.Duration) (Grant, error) {
			left := maxLife - time.Since(begin)
			return grants(min(increment, left))(token, increment)
		}
		s := renewing(t, login)
		for time.Since(begin) < maxLife+time.Minute {
			if _, err := s.Token(t.Context()); err != nil {
				t.Fatalf("after %v: %v", time.Since(begin), err)
			}
			synctest.Wait()
			if login.logins.Load() == 2 {
				break
			}
			time.Sleep(time.Second)
		}
		// Renewed at 55m for an hour, at 1h50m for 10 minutes, at 1h55m for no more
		// than the window.
		wantAttempts(t, login, 3, 2)
		if at := time.Since(begin); at != 115*time.Minute {
			t.Errorf("the login came after %v", at)
		}
	})
}

// While no login succeeds, a refused renewal is not repeated; one that OpenBao
// could not answer is, with the delay of the logins.
func TestRenewalWhileNoLoginSucceeds(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		repeat bool
	}{
		{"gone", status(403), false},
		{"refused", status(400), false},
		{"sealed", status(503), true},
		{"rate limit", status(429), true},
		{"no connection", fault.New(fault.ConnectionFailed, opRenew, "x"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				login := &script{ttl: time.Hour, renewable: true, renew: fails(c.err)}
				s := renewing(t, login)
				want(t, s, "canary-1")
				login.change(func() { login.err = local(opCheckJWT, "it has expired") })
				time.Sleep(55 * time.Minute)
				for range 10 {
					want(t, s, "canary-1")
					time.Sleep(localDelay)
				}
				if c.repeat {
					wantAttempts(t, login, 10, 11)
				} else {
					wantAttempts(t, login, 1, 11)
				}
				// A renewal that works again makes the login unnecessary.
				login.change(func() { login.renew = grants(time.Hour) })
				want(t, s, "canary-1")
				synctest.Wait()
				if left := s.Remaining() > testWindow; left != c.repeat {
					t.Errorf("%v left after the renewal works again", s.Remaining())
				}
			})
		})
	}
}

// OpenBao's word on the end counts, also where it is earlier than before; the
// login that this leads to is tried until it succeeds, without another renewal.
func TestARenewalThatShortensTheLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, renewable: true, renew: grants(time.Minute)}
		s := renewing(t, login)
		want(t, s, "canary-1")
		time.Sleep(55 * time.Minute)
		login.change(func() { login.err = status(500) })
		for range 60 {
			want(t, s, "canary-1")
			time.Sleep(time.Second)
		}
		wantAttempts(t, login, 1, 15) // at 0, 1, 3, 7 s, and every 5 s from there
		_, err := s.Token(t.Context())
		assertFault(t, err, fault.Unavailable, "it said no")
	})
}
