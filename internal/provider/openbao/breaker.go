package openbao

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// The breaker's numbers (design: openbao, client). They are no configuration: a
// wrong value does more harm than a right one does good.
const (
	// breakerFailures in a row open it. A control plane seldom has more than a
	// few calls at once, so a large number would never be reached before every
	// caller has waited for its timeout; one or two would open it for a single
	// connection that a load balancer dropped.
	breakerFailures = 5
	// breakerCoolDown is how long it stays open. It bounds how much longer an
	// outage lasts here than it did, and how probable it is that the metadata
	// probe, which comes every 30 s, meets an open breaker in front of a healthy
	// OpenBao and waits for its next turn: both must be small. One trial a second
	// is nothing to an OpenBao that is down or coming up.
	breakerCoolDown = time.Second
	// A caller whose deadline passed counts against OpenBao when it has waited
	// for at least openbao.timeout / substantialPart, or substantialWait: an API
	// server with less patience than ours must open the breaker too, however long
	// our own timeout is.
	substantialPart = 2
	substantialWait = time.Second
	// deadlineSlack is how long before its deadline a cancellation still is that
	// deadline: gRPC tells a server of the client's end in either way.
	deadlineSlack = 50 * time.Millisecond
)

// What the breaker is told of a call, besides nil for an answer.
var (
	errNoAnswer = errors.New("OpenBao could not be reached")
	errNeither  = errors.New("the caller left too early to tell")
)

// breaker keeps data and probe calls from waiting for an OpenBao that cannot be
// reached. Its methods may be called from many goroutines at once.
type breaker struct {
	machine *gobreaker.TwoStepCircuitBreaker[struct{}]
	// last is the failure that was counted last, for those that fail fast.
	last atomic.Pointer[fault.Error]
}

func newBreaker() *breaker {
	return &breaker{machine: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     breakerCoolDown,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		IsExcluded:  func(err error) bool { return err == errNeither },
	})}
}

// enter asks for leave to send a request. With leave, done must be called when
// it has ended, with nil, errNoAnswer or errNeither. Without, done is nil.
func (b *breaker) enter() (done func(error)) {
	done, err := b.machine.Allow()
	if err != nil {
		return nil
	}
	return done
}

// refusal is what a call without leave answers: with what the last failure said,
// because that is what must be repaired.
func (b *breaker) refusal(x exchange) *fault.Error {
	detail := "no request was sent"
	if last := b.last.Load(); last != nil {
		detail += "; the last one failed: " + last.Cause.Text()
		if last.Detail != "" {
			detail += ": " + last.Detail
		}
	}
	return fault.New(fault.BreakerOpen, x.op.Words(), "%s", detail)
}

// BreakerState is 0 while calls are sent, 1 while a trial is due or running, 2
// while all calls fail fast with fault.BreakerOpen.
func (c *Conn) BreakerState() int { return int(c.breaker.machine.State()) }

// guarded is the one way out for data and probe calls: the breaker decides
// whether a request is sent at all. Logins and renewals do not pass it. A call
// that fails fast is no request to OpenBao: the observer does not hear of it.
func (c *Conn) guarded(x exchange, r *http.Request) (*Buffer, error) {
	done := c.breaker.enter()
	if done == nil {
		if r.Body != nil {
			r.Body.Close()
		}
		if ended := contextError(x.caller); ended != nil {
			return nil, x.callerGone(ended)
		}
		return nil, c.breaker.refusal(x)
	}
	// Told in every case, a panic included: a trial that never ended would keep
	// the breaker half-open for good.
	verdict := errNoAnswer
	defer func() { done(verdict) }()

	answer, err := c.send(x, r)
	verdict = c.verdict(x, err)
	if verdict == errNoAnswer {
		c.breaker.last.Store(c.counted(x, err))
	}
	c.observe(x, c.answerID(x, answer), err)
	return answer, err
}

// verdict is what the end of a call says about the way to OpenBao. Any complete
// HTTP answer proves it, whatever its status.
func (c *Conn) verdict(x exchange, err error) error {
	if err == nil {
		return nil
	}
	switch fault.CauseOf(err) {
	case fault.TLSFailed, fault.DNSFailed, fault.ConnectionFailed, fault.TimedOut:
		return errNoAnswer
	case fault.DeadlineExceeded:
		return c.impatience(x)
	case fault.Canceled:
		if d, ok := x.caller.Deadline(); ok && time.Until(d) <= deadlineSlack {
			return c.impatience(x)
		}
		return errNeither
	}
	return nil
}

// impatience judges a caller whose deadline has passed.
func (c *Conn) impatience(x exchange) error {
	if time.Since(x.start) >= min(c.timeout/substantialPart, substantialWait) {
		return errNoAnswer
	}
	return errNeither
}

// counted is a failure as those that fail fast will repeat it. They must not
// repeat that a caller's deadline passed: it was another's.
func (c *Conn) counted(x exchange, err error) *fault.Error {
	var f *fault.Error
	if !errors.As(err, &f) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fault.New(fault.TimedOut, x.op.Words(), "check the network path and OpenBao's load")
	}
	return f
}
