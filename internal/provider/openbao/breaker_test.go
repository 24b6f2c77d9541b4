package openbao

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// line is a scripted way to OpenBao, for synthetic time.
type line struct {
	sent   atomic.Int32
	closed atomic.Int32 // how often idle connections were dropped
	answer atomic.Pointer[func(*http.Request) (*http.Response, error)]
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.sent.Add(1)
	if r.Body != nil {
		defer r.Body.Close()
	}
	return (*l.answer.Load())(r)
}

func (l *line) CloseIdleConnections() { l.closed.Add(1) }

func (l *line) set(answer func(*http.Request) (*http.Response, error)) { l.answer.Store(&answer) }

func status(code int) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	}
}

func refused(*http.Request) (*http.Response, error) {
	return nil, &dialError{syscall.ECONNREFUSED}
}

func dnsFailure(*http.Request) (*http.Response, error) {
	return nil, &dialError{&net.DNSError{Err: "no such host", Name: canaryMount, IsNotFound: true}}
}

func handshakeFailure(*http.Request) (*http.Response, error) {
	return nil, &handshakeError{x509.UnknownAuthorityError{}}
}

func stalled(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// after answers when some time has passed, unless the request ends before.
func after(d time.Duration, answer func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return answer(r)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

const lineTimeout = 2 * time.Second // the default of openbao.timeout

// onLine returns a connection over a line that answers.
func onLine(t *testing.T) (*Conn, *line, *observed) {
	t.Helper()
	l, watch := &line{}, &observed{}
	l.set(status(200))
	return open(t, Options{
		Address: "https://bao.test", Timeout: lineTimeout, RoundTripper: l, Observer: watch,
	}), l, watch
}

// try makes one call within the caller's patience; 0 for a patient caller.
func try(t *testing.T, c *Conn, patience time.Duration) error {
	t.Helper()
	ctx := t.Context()
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	answer, err := c.Call(ctx, endpoint(t, c, Encrypt), NewSecret(canaryToken), post())
	answer.Release()
	return err
}

func wantState(t *testing.T, c *Conn, want int) {
	t.Helper()
	if got := c.BreakerState(); got != want {
		t.Errorf("the breaker's state is %d, want %d", got, want)
	}
}

const closed, halfOpen, opened = 0, 1, 2

// trip opens the breaker.
func trip(t *testing.T, c *Conn, l *line) {
	t.Helper()
	l.set(refused)
	for range breakerFailures {
		assertFault(t, try(t, c, 0), fault.ConnectionFailed, "nothing listens there")
	}
	wantState(t, c, opened)
}

func TestBreakerOpensAndHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, watch := onLine(t)
		if err := try(t, c, 0); err != nil {
			t.Fatal(err)
		}
		l.set(refused)
		for n := range breakerFailures {
			wantState(t, c, closed)
			assertFault(t, try(t, c, 0), fault.ConnectionFailed, "nothing listens there")
			if got := l.closed.Load(); got != int32(n)+1 {
				t.Errorf("idle connections were dropped %d times after %d failures", got, n+1)
			}
		}
		wantState(t, c, opened)
		sent, told := l.sent.Load(), len(watch.list)

		// Nobody waits and nothing is sent; the error says what must be repaired.
		began := time.Now()
		for range 100 {
			err := try(t, c, 0)
			assertFault(t, err, fault.BreakerOpen, "no request was sent; the last one failed: OpenBao could not be reached: nothing listens there")
		}
		if time.Since(began) != 0 || l.sent.Load() != sent || len(watch.list) != told {
			t.Errorf("100 calls took %v, sent %d requests and told the observer of %d", time.Since(began), l.sent.Load()-sent, len(watch.list)-told)
		}

		// One trial a cool-down as long as the outage lasts.
		for range 3 {
			time.Sleep(breakerCoolDown + 1)
			wantState(t, c, halfOpen)
			assertFault(t, try(t, c, 0), fault.ConnectionFailed, "nothing listens there")
			wantState(t, c, opened)
			assertFault(t, try(t, c, 0), fault.BreakerOpen, "")
		}
		if n := l.sent.Load() - sent; n != 3 {
			t.Errorf("%d requests in three cool-downs, want 3", n)
		}

		l.set(status(200))
		assertFault(t, try(t, c, 0), fault.BreakerOpen, "")
		time.Sleep(breakerCoolDown + 1)
		for range 10 {
			if err := try(t, c, 0); err != nil {
				t.Errorf("after the outage: %v", err)
			}
			wantState(t, c, closed)
		}
		// It starts to count anew.
		l.set(refused)
		for range breakerFailures - 1 {
			_ = try(t, c, 0)
		}
		wantState(t, c, closed)
	})
}

// OpenBao's return is noticed within a cool-down, by whoever calls: the metadata
// probe every 30 s, an Encrypt now and then, or both.
func TestBreakerHealsForEveryRhythm(t *testing.T) {
	for name, pause := range map[string]time.Duration{
		"busy": 10 * time.Millisecond, "now and then": 700 * time.Millisecond, "probe only": 30 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, l, _ := onLine(t)
				trip(t, c, l)
				time.Sleep(time.Hour)
				_ = try(t, c, 0)
				l.set(status(200))
				back := time.Now()
				for try(t, c, 0) != nil {
					if time.Since(back) > time.Minute {
						t.Fatal("it does not heal")
					}
					time.Sleep(pause)
				}
				if took := time.Since(back); took > breakerCoolDown+pause {
					t.Errorf("it took %v, want at most the cool-down and one pause of %v", took, pause)
				}
			})
		})
	}
}

// Only an unbroken row of failures opens it: an answer ends the row, a caller
// that left too early does not.
func TestBreakerWantsARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, _ := onLine(t)
		for range 10 {
			l.set(refused)
			for range breakerFailures - 1 {
				_ = try(t, c, 0)
			}
			l.set(status(503))
			_ = try(t, c, 0)
		}
		wantState(t, c, closed)

		l.set(refused)
		for range breakerFailures - 1 {
			_ = try(t, c, 0)
		}
		l.set(stalled)
		_ = try(t, c, time.Millisecond)
		wantState(t, c, closed)
		l.set(refused)
		_ = try(t, c, 0)
		wantState(t, c, opened)
	})
}
