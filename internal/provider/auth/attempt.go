package auth

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// run makes one login in the Session's own time. Renewal of a renewable token
// belongs here, before the login.
func (s *Session) run(a *attempt) {
	ctx, cancel := context.WithTimeout(s.life, s.timeout)
	defer cancel()
	start := time.Now()
	grant, err := s.guardedLogin(ctx)
	answered := time.Now()

	a.err = s.loginError(err)
	if a.err == nil {
		a.token = grant.Token
	}
	s.finish(a, grant, answered)
	s.report(a, answered.Sub(start))
	close(a.done)
}

// guardedLogin keeps a panic in a login method from ending the provider. The
// panic's value may hold a credential and is dropped.
func (s *Session) guardedLogin(ctx context.Context) (g Grant, err error) {
	defer func() {
		if recover() != nil {
			err = fault.New(fault.Panicked, "log in to OpenBao", "the login method %q panicked: report this", s.login.Method())
		}
	}()
	return s.login.Login(ctx)
}

// loginError makes sure that waiting callers do not take the end of the login's
// own context for the end of theirs.
func (s *Session) loginError(err error) error {
	if err == nil {
		return nil
	}
	if s.life.Err() != nil {
		return errClosed()
	}
	switch fault.CauseOf(err) {
	case fault.Canceled, fault.DeadlineExceeded:
		return fault.New(fault.TimedOut, "log in to OpenBao",
			"no answer within auth.loginTimeout (%v): check the network path and OpenBao's load", s.timeout)
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	return fault.Wrap(fault.Unknown, "log in to OpenBao", err)
}

// finish publishes the outcome. answered is when OpenBao's answer was there.
func (s *Session) finish(a *attempt, grant Grant, answered time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt = nil
	s.failure = a.err
	if a.err != nil {
		s.backoff = min(max(2*s.backoff, firstBackoff), lastBackoff)
		s.delayUntil(answered.Add(s.backoff))
		if a.recovery {
			s.delayUntil(s.recovered.Add(recoveryInterval))
		}
		return
	}
	s.backoff = 0
	s.next = time.Time{}
	s.rejected = false
	if !s.closed {
		s.current.Store(&held{
			token:   grant.Token,
			refresh: answered.Add(refreshAfter(grant.TTL, s.window)),
			expiry:  answered.Add(grant.TTL),
		})
	}
}

// refreshAfter is how long after its start a token is to be replaced: when only
// the window is left of it. A token that lives no longer than the window is
// replaced at half its life, and none before a tenth of it has passed: a short
// life must not become a loop of logins.
func refreshAfter(ttl, window time.Duration) time.Duration {
	if ttl <= window {
		return ttl / 2
	}
	return max(ttl-window, ttl/10)
}

func (s *Session) report(a *attempt, took time.Duration) {
	status, level := openbao.StatusOK, slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("operation", s.login.Method()+"_login"),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
	if a.err != nil {
		status, level = string(fault.ClassOf(a.err)), slog.LevelWarn
		attrs = append(attrs, slog.String("error_class", status), slog.String("error", a.err.Error()))
	}
	attrs = append(attrs, slog.String("status", status))
	s.log.LogAttrs(s.life, level, "auth.login", attrs...)
	if a.recovery {
		s.log.LogAttrs(s.life, level, "auth.recovery", attrs...)
	}
	if s.observer == nil {
		return
	}
	s.observer.LoginDone(status)
	if a.recovery {
		s.observer.RecoveryDone(status)
	}
}
