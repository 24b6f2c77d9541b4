package auth

import (
	"context"
	"errors"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

const (
	opLogin = "log in to OpenBao"
	opRenew = "renew the OpenBao token"
)

// attempt is one way to a token: perhaps a renewal, then perhaps a login.
type attempt struct {
	// renews is the token to renew first, nil for a login only. It is fixed when
	// the attempt starts.
	renews *held

	// Guarded by the Session's mu.

	// endRenewal ends the renewal that runs or is about to; nil when there is
	// none (any more).
	endRenewal context.CancelFunc
	// recovery says that the login replaces a token that OpenBao rejected.
	recovery bool
	// aside is the token that a recovery has set aside, to be put back if the
	// login fails; nil for none.
	aside *held

	// token and err are set before done is closed.
	done  chan struct{}
	token openbao.Secret
	err   error
}

func newAttempt() *attempt { return &attempt{done: make(chan struct{})} }

// finished is an attempt that is over: nobody waits for it.
func finished(token openbao.Secret) *attempt {
	a := newAttempt()
	a.token = token
	close(a.done)
	return a
}

func (a *attempt) renewing() bool { return a.endRenewal != nil }

// start makes a the running attempt. The caller holds mu and has seen that none
// runs. Its goroutine ends with the requests, which end with life or their
// timeouts.
func (s *Session) start(a *attempt, now time.Time) {
	s.attempt = a
	if a.renews == nil {
		s.running.Go(func() { s.logIn(a) })
		return
	}
	// Past the token's end callers wait, and only a login can help them.
	ctx, cancel := context.WithTimeout(s.life, min(s.renewalTimeout, a.renews.expiry.Sub(now)))
	a.endRenewal = cancel
	s.running.Go(func() {
		defer cancel()
		if !s.renew(ctx, a) {
			s.logIn(a)
		}
	})
}

// renew makes one renewal and reports whether the attempt is over with it.
// Everything else than a renewed token that lives longer than the window leads
// to a login at once: a renewal that helps for less would have to follow another.
func (s *Session) renew(ctx context.Context, a *attempt) bool {
	began := time.Now()
	grant, err := guarded(opRenew, func() (Grant, error) {
		return s.login.Renew(ctx, a.renews.token, s.increment)
	})
	answered := time.Now()

	s.mu.Lock()
	rejected := a.recovery // a recovery has ended this renewal, or came too late to
	a.endRenewal = nil
	next := renewed(a.renews, grant, err, began, answered, s.window)
	s.exchange(a, next)
	done := err == nil && !rejected && next.refresh.After(answered)
	if done {
		s.attempt = nil
		a.token = next.token
	}
	s.mu.Unlock()

	s.reportRenewal(s.renewalError(err, rejected), answered.Sub(began))
	if done {
		close(a.done)
	}
	return done
}

// renewed is what is held after a renewal. Where OpenBao granted something, its
// word on the end counts, also when that is earlier than before.
func renewed(old *held, grant Grant, err error, began, answered time.Time, window time.Duration) *held {
	if err != nil {
		next := *old
		next.renewable = !refused(err)
		return &next
	}
	if grant.Token.Reveal() == old.token.Reveal() {
		// The same token stays the same Secret: whoever knows it as rejected must
		// recognize it.
		grant.Token, grant.NumUses = old.token, old.grant.NumUses
	}
	next := hold(grant, began, answered, window)
	if next.expiry.Sub(answered) <= window {
		next.refresh = answered // a login is due, now and after each that fails
	}
	return next
}

// refused reports whether OpenBao said no to a renewal, as opposed to not being
// able to answer: asking again would be no use.
func refused(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.HTTPStatus >= 400 && f.HTTPStatus < 500 && f.HTTPStatus != 429
}

// exchange puts next in the place of the token that a renews, if it still has
// one. The caller holds mu.
func (s *Session) exchange(a *attempt, next *held) {
	switch a.renews {
	case s.current.Load():
		s.current.Store(next)
	case a.aside:
		a.aside = next
	}
}

// logIn makes one login in the Session's own time and ends the attempt.
func (s *Session) logIn(a *attempt) {
	ctx, cancel := context.WithTimeout(s.life, s.loginTimeout)
	defer cancel()
	began := time.Now()
	grant, err := guarded(opLogin, func() (Grant, error) {
		if err := ctx.Err(); err != nil { // Close came during the renewal
			return Grant{}, err
		}
		return s.login.Login(ctx)
	})
	answered := time.Now()

	next := hold(grant, began, answered, s.window)
	if err = s.loginError(err); err == nil && !next.usable(answered) {
		err = fault.New(fault.Unavailable, opLogin,
			"the token's whole life (%v) was over when the answer arrived: give the role a longer token_ttl", grant.TTL)
	}
	recovery := s.finish(a, next, err, answered)
	s.reportLogin(err, recovery, answered.Sub(began))
	close(a.done)
}

// finish publishes the outcome of a login and reports whether it was a
// recovery's.
func (s *Session) finish(a *attempt, next *held, err error, answered time.Time) (recovery bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt = nil
	if a.err = err; err != nil {
		s.logins.failed(err, answered)
		if a.aside.usable(answered) && !s.closed {
			s.current.Store(a.aside)
		}
		return a.recovery
	}
	s.logins.succeeded()
	s.recovering = openbao.Secret{}
	a.token = next.token
	if !s.closed {
		s.current.Store(next)
	}
	return a.recovery
}

// hold reckons the times of a granted token. Its life counts from the moment at
// which the request for it began: OpenBao cannot have begun to count before
// that, so a token is never used past the end that OpenBao knows, however slow
// the answer was. When to replace it counts from the answer: a token that
// arrives late must not be due at once.
func hold(g Grant, began, answered time.Time, window time.Duration) *held {
	expiry := began.Add(g.TTL)
	life := expiry.Sub(answered)
	return &held{
		token:     g.Token,
		refresh:   answered.Add(refreshAfter(life, window)),
		expiry:    expiry,
		renewable: g.Renewable && life > window,
		grant:     g,
	}
}

// refreshAfter is how long after its arrival a token is to be replaced: when
// only the window is left of its life. A token that lives no longer than the
// window is replaced at half its life, and none before a tenth of it has passed:
// a short life must not become a loop of logins.
func refreshAfter(life, window time.Duration) time.Duration {
	if life <= window {
		return life / 2
	}
	return max(life-window, life/10)
}

// guarded keeps a panic in a login method from ending the provider. The panic's
// value may hold a credential and is dropped.
func guarded(op string, fn func() (Grant, error)) (g Grant, err error) {
	defer func() {
		if recover() != nil {
			g, err = Grant{}, fault.New(fault.Panicked, op, "the login method in auth.method panicked: report this")
		}
	}()
	return fn()
}

// loginError makes sure that waiting callers do not take the end of the login's
// own context for the end of theirs.
func (s *Session) loginError(err error) error {
	if err != nil && s.life.Err() != nil {
		return errClosed()
	}
	return ownError(err, opLogin, "auth.loginTimeout", s.loginTimeout)
}

func (s *Session) renewalError(err error, rejected bool) error {
	switch {
	case err == nil:
		return nil
	case s.life.Err() != nil:
		return errClosed()
	case rejected && fault.CauseOf(err) == fault.Canceled:
		return fault.New(fault.Unauthenticated, opRenew, "it was rejected for another request meanwhile: a login replaces it")
	}
	return ownError(err, opRenew, "openbao.timeout", s.renewalTimeout)
}

func ownError(err error, op, field string, limit time.Duration) error {
	if err == nil {
		return nil
	}
	switch fault.CauseOf(err) {
	case fault.Canceled, fault.DeadlineExceeded:
		return fault.New(fault.TimedOut, op,
			"no answer within %s (%v): check the network path and OpenBao's load", field, limit)
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	return fault.Wrap(fault.Unknown, op, err)
}
