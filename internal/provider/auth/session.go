package auth

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// minLoginTimeout bounds a login when auth.loginTimeout is 0 and
// openbao.timeout is shorter.
const minLoginTimeout = 5 * time.Second

const opToken = "get an OpenBao token"

// Observer is told of logins, renewals and recoveries: openbao.StatusOK or the
// fault.Class of the failure. Its methods must not block.
type Observer interface {
	LoginDone(status string)
	RenewalDone(status string)
	// RecoveryDone is told the outcome of a login that replaces a rejected token.
	RecoveryDone(status string)
}

// Options configure a Session.
type Options struct {
	// Login makes the logins and renewals. Required.
	Login Login
	// Window is auth.loginBeforeTokenExpiry: how long before its end a token is
	// renewed or replaced.
	Window time.Duration
	// RenewalIncrement is auth.tokenRenewalIncrement: the life that a renewal
	// asks for. With 0 tokens are never renewed, only replaced.
	RenewalIncrement time.Duration
	// LoginTimeout is auth.loginTimeout; 0 means the larger of RequestTimeout
	// and 5 s.
	LoginTimeout time.Duration
	// RequestTimeout is openbao.timeout; it bounds a renewal. 0 leaves a renewal
	// the time of a login.
	RequestTimeout time.Duration
	// Logger gets the events auth.login, auth.renewal and auth.recovery; nil for
	// none.
	Logger *slog.Logger
	// Observer is told what happened; nil for nobody.
	Observer Observer
}

// Session is the one OpenBao token that all callers share (design: openbao,
// auth). It lives in memory only. Its methods may be called from many
// goroutines at once.
//
// At most one attempt to get a token runs at a time: a renewal, a login, or a
// login after a renewal that did not help. It belongs to the Session and not to
// the caller that needed it: a caller that gives up cancels nothing.
//
// What happens to the token, seen from its holder:
//
//	no token ── Token ──▶ login ──▶ token
//	token, inside its window ── Token ──▶ renewal, login ──▶ token
//	    all go on with the old one meanwhile, and also when it fails
//	token past its end ── Token ──▶ login ──▶ token
//	token ── Replace, allowed ──▶ set aside, login ──▶ token
//	    all wait; if the login fails, the token is put back: it may be good for
//	    other requests than the one that OpenBao rejected, which do not wait for
//	    this recovery's further logins
//	token ── Replace, not allowed ──▶ unchanged; the call is told why
type Session struct {
	login          Login
	window         time.Duration
	increment      time.Duration
	loginTimeout   time.Duration
	renewalTimeout time.Duration
	log            *slog.Logger
	observer       Observer

	// life ends with Close, and every attempt with it.
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	// current is the token in use, nil for none. Read without a lock, written
	// under mu.
	current atomic.Pointer[held]

	mu sync.Mutex
	// attempt is the running one, nil for none.
	attempt    *attempt
	logins     loginDelay
	recoveries recoveryDelay
	// recovering is the rejected token whose recovery has started and has not
	// led to another token yet; the zero Secret for none.
	recovering openbao.Secret
	closed     bool
}

// held is a token with its times, which carry Go's monotonic reading: setting
// the clock changes nothing. It is immutable.
type held struct {
	token   openbao.Secret
	refresh time.Time // from here on another one is wanted
	expiry  time.Time // from here on the token is not used
	// renewable says that a renewal is worth a request.
	renewable bool
	// grant is what OpenBao gave it with.
	grant Grant
}

func (h *held) usable(now time.Time) bool { return h != nil && now.Before(h.expiry) }

// NewSession returns a Session without a token; the first caller causes the
// first login. Close must be called.
func NewSession(o Options) *Session {
	s := &Session{
		login:          o.Login,
		window:         o.Window,
		increment:      o.RenewalIncrement,
		loginTimeout:   o.LoginTimeout,
		renewalTimeout: o.RequestTimeout,
		log:            o.Logger,
		observer:       o.Observer,
	}
	if s.loginTimeout == 0 {
		s.loginTimeout = max(o.RequestTimeout, minLoginTimeout)
	}
	if s.renewalTimeout == 0 {
		s.renewalTimeout = s.loginTimeout
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Token returns the shared token. A valid one is returned at once, also while
// its renewal or replacement is under way; otherwise the caller waits for the
// shared login as long as its ctx allows.
//
// Failures are *fault.Error: the failed login's own cause, also for calls
// during the delay after it; the context's error if ctx ended first.
func (s *Session) Token(ctx context.Context) (openbao.Secret, error) {
	if h := s.current.Load(); h != nil {
		now := time.Now()
		if now.Before(h.refresh) {
			return h.token, nil
		}
		if now.Before(h.expiry) {
			// Whether an attempt could be started does not matter here: this token
			// is good, and each later call asks again.
			_, _ = s.join(now)
			return h.token, nil
		}
	}
	token, err := s.wait(ctx, s.join)
	if err == nil {
		return token, nil
	}
	// A recovery that failed has put its token back. OpenBao did not reject it
	// for this caller.
	if h := s.current.Load(); ctx.Err() == nil && h.usable(time.Now()) {
		return h.token, nil
	}
	return openbao.Secret{}, err
}

// Replace is for a caller whose request OpenBao answered with 401 or 403 under
// the token rejected, or would: it returns another token to try once, after
// waiting for the shared login as long as ctx allows. Of many callers with one
// rejected token the first starts the recovery and the others share it; one that
// comes late gets the token that is current by then.
//
// Recoveries are held back (design: openbao, auth). When none may start, Replace
// fails at once with fault.RecoveryDelayed, or the last login's own failure, and
// the token stays in use for others. Further failures are those of Token.
func (s *Session) Replace(ctx context.Context, rejected openbao.Secret) (openbao.Secret, error) {
	token, err := s.wait(ctx, func(now time.Time) (*attempt, error) { return s.recover(rejected, now) })
	switch {
	case err != nil:
		return openbao.Secret{}, err
	case token == rejected: // a renewal that was under way when the token ended
		return openbao.Secret{}, errDelayed()
	}
	return token, nil
}

// wait gets an attempt and waits for its end or ctx's.
func (s *Session) wait(ctx context.Context, get func(time.Time) (*attempt, error)) (openbao.Secret, error) {
	if err := ctx.Err(); err != nil {
		return openbao.Secret{}, fault.Wrap(fault.CauseOf(err), opToken, err)
	}
	a, err := get(time.Now())
	if err != nil {
		return openbao.Secret{}, err
	}
	select {
	case <-a.done:
		return a.token, a.err
	case <-ctx.Done():
		return openbao.Secret{}, fault.Wrap(fault.CauseOf(ctx.Err()), opToken, ctx.Err())
	}
}

// join returns the running attempt, or starts one if that is allowed at now, or
// says why it is not.
func (s *Session) join(now time.Time) (*attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joinLocked(now)
}

func (s *Session) joinLocked(now time.Time) (*attempt, error) {
	h := s.current.Load()
	switch {
	case s.closed:
		return nil, errClosed()
	case s.attempt != nil:
		return s.attempt, nil
	case h != nil && now.Before(h.refresh):
		// An attempt has ended between the caller's look at the token and here.
		return finished(h.token), nil
	case !s.logins.allows(now):
		return nil, s.logins.failure
	}
	a := newAttempt()
	switch {
	case !s.recovering.IsZero(): // a token that OpenBao rejected is not renewed
		a.recovery = true
		s.recoveries.again(now)
	case h.usable(now) && h.renewable && s.increment > 0:
		a.renews = h
	}
	s.start(a, now)
	return a, nil
}

// recover returns the attempt whose token is to take the place of rejected.
func (s *Session) recover(rejected openbao.Secret, now time.Time) (*attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.current.Load()
	switch {
	case s.closed:
		return nil, errClosed()
	case !h.usable(now):
		// It is set aside already, or at its end anyway.
		return s.joinLocked(now)
	case h.token != rejected:
		return finished(h.token), nil
	}
	s.recoveries.rejected(now)
	switch {
	case s.attempt != nil && !s.attempt.renewing():
		return s.attempt, nil // a login is under way: it will give another token
	case !s.logins.allows(now):
		return nil, s.logins.failure
	case s.recovering == rejected:
		// Its login has failed and the token is in use again, for requests that
		// OpenBao does not reject. They do not wait a second time: a login that
		// hangs would take the token from them again and again.
		s.recoveries.again(now)
		a := newAttempt()
		a.recovery = true
		s.start(a, now)
		return a, nil
	case !s.recoveries.allows(now):
		return nil, errDelayed()
	}
	s.recovering = rejected
	s.recoveries.start(now)
	return s.setAside(h, now), nil
}

// setAside takes the rejected token out of use and returns the attempt that
// makes the login: the running one, whose renewal ends here, or a new one. The
// caller holds mu.
func (s *Session) setAside(h *held, now time.Time) *attempt {
	s.current.Store(nil)
	a := s.attempt
	if a != nil {
		a.endRenewal()
		a.endRenewal = nil
		a.recovery, a.aside = true, h
		return a
	}
	a = newAttempt()
	a.recovery, a.aside = true, h
	s.start(a, now)
	return a
}

// Remaining is how long the current token is still used; 0 without one.
func (s *Session) Remaining() time.Duration {
	h := s.current.Load()
	if h == nil {
		return 0
	}
	return max(0, time.Until(h.expiry))
}

// Granted is what OpenBao granted with the current token, at its login or its last
// renewal: its whole life, and the number of its uses, 0 without a limit. Both are
// 0 without a token.
func (s *Session) Granted() (life time.Duration, uses int) {
	h := s.current.Load()
	if h == nil {
		return 0, 0
	}
	return h.grant.TTL, h.grant.NumUses
}

// Close ends a running attempt, waits for its goroutine and drops the token.
// Later calls of Token and Replace fail.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	s.current.Store(nil)
	s.mu.Unlock()
	s.end()
	s.running.Wait()
}

// errDelayed is the answer while no recovery may start.
func errDelayed() error {
	return fault.New(fault.RecoveryDelayed, opToken,
		"OpenBao rejected one token after another: check that tokens are not being revoked and that the role's policy still allows this provider's paths")
}

func errClosed() error {
	return &fault.Error{
		Cause:  fault.Canceled,
		Op:     opToken,
		Detail: "the provider is shutting down",
		Err:    context.Canceled,
	}
}
