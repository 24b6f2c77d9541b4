package openbao

import (
	"context"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// What counts, for every end that a call can have.
func TestBreakerCounts(t *testing.T) {
	const patience = lineTimeout / substantialPart
	cut := func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(io.MultiReader(strings.NewReader(`{"da`), &broken{}))}, nil
	}
	huge := func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(strings.Repeat("x", limitAnswer+1)))}, nil
	}
	// cancelled is a caller that goes away after d, its deadline being later.
	cancelled := func(d, deadline time.Duration) func(*testing.T, *Conn) error {
		return func(t *testing.T, c *Conn) error {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			defer time.AfterFunc(d, cancel).Stop()
			_, err := c.Call(ctx, endpoint(t, c, Encrypt), NewSecret(canaryToken), post())
			return err
		}
	}
	patient := func(d time.Duration) func(*testing.T, *Conn) error {
		return func(t *testing.T, c *Conn) error { return try(t, c, d) }
	}
	for name, c := range map[string]struct {
		line  func(*http.Request) (*http.Response, error)
		call  func(*testing.T, *Conn) error
		cause fault.Cause
		opens bool
	}{
		"refused":                     {refused, patient(0), fault.ConnectionFailed, true},
		"no name":                     {dnsFailure, patient(0), fault.DNSFailed, true},
		"TLS":                         {handshakeFailure, patient(0), fault.TLSFailed, true},
		"broken off in the answer":    {cut, patient(0), fault.ConnectionFailed, true},
		"our timeout":                 {stalled, patient(0), fault.TimedOut, true},
		"our timeout, late deadline":  {stalled, patient(time.Hour), fault.TimedOut, true},
		"deadline of our timeout":     {stalled, patient(lineTimeout), fault.DeadlineExceeded, true},
		"deadline just before it":     {stalled, patient(lineTimeout - time.Millisecond), fault.DeadlineExceeded, true},
		"substantial patience":        {stalled, patient(patience), fault.DeadlineExceeded, true},
		"little patience":             {stalled, patient(patience - 1), fault.DeadlineExceeded, false},
		"no patience":                 {stalled, patient(1), fault.DeadlineExceeded, false},
		"cancelled":                   {stalled, cancelled(patience+time.Millisecond, time.Hour), fault.Canceled, false},
		"cancelled at once":           {stalled, cancelled(0, time.Hour), fault.Canceled, false},
		"cancelled at its deadline":   {stalled, cancelled(1500*time.Millisecond, 1501*time.Millisecond), fault.Canceled, true},
		"cancelled at an early one":   {stalled, cancelled(500*time.Millisecond, 501*time.Millisecond), fault.Canceled, false},
		"cancelled before a far one":  {stalled, cancelled(1500*time.Millisecond, 1600*time.Millisecond), fault.Canceled, false},
		"200":                         {status(200), patient(0), fault.None, false},
		"101":                         {status(101), patient(0), fault.Unavailable, false},
		"302":                         {status(302), patient(0), fault.Unavailable, false},
		"400":                         {status(400), patient(0), fault.RequestRefused, false},
		"403":                         {status(403), patient(0), fault.Unauthenticated, false},
		"404":                         {status(404), patient(0), fault.KeyMissing, false},
		"429":                         {status(429), patient(0), fault.RateLimited, false},
		"500":                         {status(500), patient(0), fault.Unavailable, false},
		"502 of a load balancer":      {status(502), patient(0), fault.Unavailable, false},
		"sealed":                      {status(503), patient(0), fault.Sealed, false},
		"an answer that is too large": {huge, patient(0), fault.Unavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, l, _ := onLine(t)
				l.set(c.line)
				for n := range 3 * breakerFailures {
					err := c.call(t, conn)
					want := c.cause
					if c.opens && n >= breakerFailures {
						want = fault.BreakerOpen
					}
					if got := fault.CauseOf(err); got != want {
						t.Fatalf("call %d: %v (%q), want %q", n+1, err, got.Text(), want.Text())
					}
					assertClean(t, err)
				}
				wantState(t, conn, map[bool]int{true: opened, false: closed}[c.opens])
				elsewhere := map[string]bool{"302": true, "500": true, "502 of a load balancer": true, "sealed": true}[name]
				if dropped := l.closed.Load() > 0; dropped != (c.opens || elsewhere) {
					t.Errorf("idle connections were dropped: %v, want %v", dropped, c.opens || elsewhere)
				}
			})
		})
	}
}

type broken struct{}

func (*broken) Read([]byte) (int, error) { return 0, syscall.ECONNRESET }
