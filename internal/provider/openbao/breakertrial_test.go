package openbao

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// A hundred callers while it is half-open: one goes, the others fail fast,
// whatever becomes of the one.
func TestOneTrialAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		trial     func(*http.Request) (*http.Response, error)
		cause     fault.Cause
		afterward int
	}{
		"heals":        {after(time.Second, status(200)), fault.None, closed},
		"is answered":  {after(time.Second, status(403)), fault.Unauthenticated, closed},
		"fails":        {after(time.Second, refused), fault.ConnectionFailed, opened},
		"is timed out": {stalled, fault.TimedOut, opened},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, l, _ := onLine(t)
				trip(t, conn, l)
				time.Sleep(breakerCoolDown + 1)
				l.set(c.trial)
				before := l.sent.Load()

				causes := make(chan fault.Cause, 100)
				for range 100 {
					go func() { causes <- fault.CauseOf(try(t, conn, 0)) }()
				}
				synctest.Wait() // all but the trial have returned, at once
				for range 99 {
					if got := <-causes; got != fault.BreakerOpen {
						t.Errorf("beside the trial: %q", got.Text())
					}
				}
				wantState(t, conn, halfOpen)
				if got := <-causes; got != c.cause {
					t.Errorf("the trial: %q, want %q", got.Text(), c.cause.Text())
				}
				if n := l.sent.Load() - before; n != 1 {
					t.Errorf("%d requests were sent, want 1", n)
				}
				wantState(t, conn, c.afterward)
			})
		})
	}
}

// A trial whose caller leaves says nothing: the next call is the trial, at once.
func TestALeftTrialDoesNotWedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, _ := onLine(t)
		trip(t, c, l)
		time.Sleep(breakerCoolDown + 1)
		l.set(stalled)
		for range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() {
				_, err := c.Call(ctx, endpoint(t, c, Decrypt), NewSecret(canaryToken), post())
				ended <- err
			}()
			synctest.Wait()
			assertFault(t, try(t, c, 0), fault.BreakerOpen, "")
			cancel()
			assertFault(t, <-ended, fault.Canceled, "")
			wantState(t, c, halfOpen)
			assertFault(t, try(t, c, time.Millisecond), fault.DeadlineExceeded, "")
			wantState(t, c, halfOpen)
		}
		l.set(status(200))
		if err := try(t, c, 0); err != nil {
			t.Error(err)
		}
		wantState(t, c, closed)
	})
}

// A panic of the transport must not leave a trial behind that never ends.
func TestAPanickingTrialDoesNotWedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, _ := onLine(t)
		trip(t, c, l)
		time.Sleep(breakerCoolDown + 1)
		l.set(func(*http.Request) (*http.Response, error) { panic("defect") })
		func() {
			defer func() {
				if got := recover(); got != "defect" {
					t.Errorf("recovered %v", got)
				}
			}()
			_ = try(t, c, 0)
		}()
		wantState(t, c, opened)
		l.set(status(200))
		time.Sleep(breakerCoolDown + 1)
		if err := try(t, c, 0); err != nil {
			t.Error(err)
		}
	})
}

// A call that began before the breaker opened says nothing about the time after.
func TestLateResultsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, _ := onLine(t)
		l.set(after(1500*time.Millisecond, status(200)))
		old := make(chan error)
		go func() { old <- try(t, c, 0) }()
		synctest.Wait()
		trip(t, c, l)
		time.Sleep(breakerCoolDown - time.Millisecond)
		if err := <-old; err != nil {
			t.Errorf("the old call: %v", err)
		}
		wantState(t, c, halfOpen) // by time, not by the old answer
	})
}

// Idle connections that have served a request since they were dropped last are
// not dropped for a request that began before.
func TestDistrustIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, _ := onLine(t)
		l.set(stalled)
		var group sync.WaitGroup
		for i := range 32 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				_ = try(t, c, 0)
			})
		}
		group.Wait()
		if n := l.closed.Load(); n != 1 {
			t.Errorf("32 failures at a time dropped the connections %d times, want once", n)
		}
		time.Sleep(breakerCoolDown)
		_ = try(t, c, 0)
		if n := l.closed.Load(); n != 2 {
			t.Errorf("a later failure: dropped %d times, want twice", n)
		}
	})
}

// Logins and renewals neither pass the breaker nor move it.
func TestBreakerLeavesLoginsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, watch := onLine(t)
		use := func(op Operation) error {
			_, err := c.Use(t.Context(), op, func(ctx context.Context, client *api.Client) (*api.Secret, error) {
				return client.Logical().WriteWithContext(ctx, "auth/x/login", map[string]any{})
			})
			return err
		}
		l.set(refused)
		for range 5 * breakerFailures {
			assertFault(t, use(JWTLogin), fault.ConnectionFailed, "nothing listens there")
		}
		wantState(t, c, closed)
		if l.closed.Load() != 5*breakerFailures {
			t.Errorf("idle connections were dropped %d times", l.closed.Load())
		}

		trip(t, c, l)
		before := l.sent.Load()
		for _, op := range []Operation{JWTLogin, CertLogin, TokenRenewSelf} {
			assertFault(t, use(op), fault.ConnectionFailed, "nothing listens there")
		}
		l.set(after(time.Millisecond, status(200)))
		for _, op := range []Operation{JWTLogin, CertLogin, TokenRenewSelf} {
			if err := use(op); err != nil {
				t.Errorf("%s: %v", op, err)
			}
		}
		if n := l.sent.Load() - before; n != 6 {
			t.Errorf("%d requests were sent, want 6", n)
		}
		wantState(t, c, opened)
		if got := watch.list[len(watch.list)-1]; got != "token_renew_self ok" {
			t.Errorf("the last request observed is %q", got)
		}
	})
}

// What fails fast releases its body, and the caller's own end wins.
func TestFastFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, _ := onLine(t)
		trip(t, c, l)
		body := post()
		memory := body.B
		_, err := c.Call(t.Context(), endpoint(t, c, Encrypt), NewSecret(canaryToken), body)
		assertFault(t, err, fault.BreakerOpen, "encrypt with Transit")
		if strings.Trim(string(memory), "\x00") != "" {
			t.Errorf("the body still holds %q", memory)
		}
		_, err = c.Call(t.Context(), endpoint(t, c, MetadataRead), NewSecret(canaryToken), nil)
		assertFault(t, err, fault.BreakerOpen, "read the Transit key's metadata")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.Call(ctx, endpoint(t, c, Encrypt), NewSecret(canaryToken), post())
		assertFault(t, err, fault.Canceled, "")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not wrap the context's error", err)
		}
	})
}

// Callers with less patience than a long openbao.timeout open the breaker too.
func TestImpatientCallersOpenTheBreaker(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c, l, _ := onLine(t)
			c.timeout = timeout
			l.set(stalled)
			for range breakerFailures {
				wantState(t, c, closed)
				_ = try(t, c, 3*time.Second)
			}
			wantState(t, c, opened)
		})
	}
}

// What fails fast must not repeat that a deadline passed: it was another
// caller's, and would be taken for its own.
func TestFastFailuresAfterDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, _ := onLine(t)
		l.set(stalled)
		for range breakerFailures {
			_ = try(t, c, lineTimeout/substantialPart)
		}
		err := try(t, c, 0)
		assertFault(t, err, fault.BreakerOpen, "OpenBao did not answer in time: check the network path")
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v wraps another caller's deadline", err)
		}
	})
}

// Under load, in front of an OpenBao that comes and goes, a dead one is asked
// once in a cool-down and no more, and a living one is served at once.
func TestBreakerUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, _ := onLine(t)
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for i := range 32 {
			group.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					_ = try(t, c, time.Duration(1+(i+n)%40)*100*time.Millisecond)
					time.Sleep(time.Duration(100+i) * time.Millisecond)
				}
			})
		}
		for round := range 6 {
			l.set(after(5*time.Millisecond, status(200)))
			time.Sleep(4 * time.Second)
			wantState(t, c, closed)

			dead := refused
			if round%2 == 1 {
				dead = stalled
			}
			l.set(dead)
			time.Sleep(4 * time.Second)
			before := l.sent.Load()
			time.Sleep(20 * time.Second)
			if state := c.BreakerState(); state == closed {
				t.Errorf("round %d: the breaker is closed in front of a dead OpenBao", round)
			}
			sent := l.sent.Load() - before
			// A trial whose caller leaves early is followed by the next at once, so
			// only the refusals have a sharp bound.
			if limit := int32(20 / breakerCoolDown.Seconds()); sent == 0 || round%2 == 0 && sent > limit {
				t.Errorf("round %d: %d requests in 20 s, want 1 to %d", round, sent, limit)
			}
		}
		stop()
		group.Wait()
	})
}
