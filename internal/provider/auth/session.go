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

const (
	// minLoginTimeout bounds a login when auth.loginTimeout is 0 and
	// openbao.timeout is shorter.
	minLoginTimeout = 5 * time.Second
	// Delays after failed logins: doubled each time, from the first to the last.
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
	// recoveryInterval is the least time between the starts of two recoveries.
	recoveryInterval = 5 * time.Second

	opToken = "get an OpenBao token"
)

// Observer is told of logins and recoveries. Its methods must not block.
type Observer interface {
	// LoginDone is told openbao.StatusOK or the fault.Class of the failure.
	LoginDone(status string)
	// RecoveryDone is told the same of a login after a rejected token.
	RecoveryDone(status string)
}

// Options configure a Session.
type Options struct {
	// Login makes the logins. Required.
	Login Login
	// Window is auth.loginBeforeTokenExpiry.
	Window time.Duration
	// LoginTimeout is auth.loginTimeout; 0 means the larger of RequestTimeout
	// and 5 s.
	LoginTimeout time.Duration
	// RequestTimeout is openbao.timeout.
	RequestTimeout time.Duration
	// Logger gets the events auth.login and auth.recovery; nil for none.
	Logger *slog.Logger
	// Observer is told of every login; nil for nobody.
	Observer Observer
}

// Session is the one OpenBao token that all callers share (design: openbao,
// auth). It lives in memory only. Its methods may be called from many
// goroutines at once.
//
// At most one login runs at a time. It belongs to the Session and not to the
// caller that needed it: a caller that gives up cancels nothing.
type Session struct {
	login    Login
	window   time.Duration
	timeout  time.Duration
	log      *slog.Logger
	observer Observer

	// life ends with Close, and every login with it.
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	// current is the token in use, nil for none. Read without a lock, written
	// under mu.
	current atomic.Pointer[held]

	mu sync.Mutex
	// attempt is the running login, nil for none.
	attempt *attempt
	// next is the earliest moment at which a login may start.
	next time.Time
	// backoff is the delay after the last failed login, 0 after a success.
	backoff time.Duration
	// failure is why the last login failed, nil after a success.
	failure error
	// rejected says that OpenBao rejected the last token and that no login has
	// succeeded since.
	rejected bool
	// recovered is when the login of the last recovery started.
	recovered time.Time
	closed    bool
}

// held is a token with its times, which carry Go's monotonic reading: setting
// the clock changes nothing.
type held struct {
	token   openbao.Secret
	refresh time.Time // from here on a new login is wanted
	expiry  time.Time // from here on the token is not used
}

// attempt is one login. token and err are set before done is closed.
type attempt struct {
	done     chan struct{}
	recovery bool
	token    openbao.Secret
	err      error
}

// NewSession returns a Session without a token; the first caller causes the
// first login. Close must be called.
func NewSession(o Options) *Session {
	s := &Session{
		login:    o.Login,
		window:   o.Window,
		timeout:  o.LoginTimeout,
		log:      o.Logger,
		observer: o.Observer,
	}
	if s.timeout == 0 {
		s.timeout = max(o.RequestTimeout, minLoginTimeout)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Token returns the shared token. A valid one is returned at once, also while
// its replacement is under way; otherwise the caller waits for the shared login
// as long as its ctx allows.
//
// Failures are *fault.Error: the failed login's own cause, also for calls
// during the delay after it; fault.RecoveryDelayed while the next recovery is
// not allowed; the context's error if ctx ended first.
func (s *Session) Token(ctx context.Context) (openbao.Secret, error) {
	if h := s.current.Load(); h != nil {
		now := time.Now()
		if now.Before(h.refresh) {
			return h.token, nil
		}
		if now.Before(h.expiry) {
			// Whether a login could be started does not matter here: this token
			// is good, and each later call asks again.
			_, _ = s.join(now)
			return h.token, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return openbao.Secret{}, fault.Wrap(fault.CauseOf(err), opToken, err)
	}
	a, err := s.join(time.Now())
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

// Discard drops a token that OpenBao answered with 401 or 403, if it is still
// the current one: of many callers with one rejected token, the first starts
// the recovery and the others share it. The next Token logs in, or answers
// fault.RecoveryDelayed if the last recovery started less than 5 s ago.
func (s *Session) Discard(token openbao.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.current.Load()
	if h == nil || h.token != token {
		return
	}
	s.current.Store(nil)
	s.rejected = true
	if !s.recovered.IsZero() {
		s.delayUntil(s.recovered.Add(recoveryInterval))
	}
}

// Remaining is how long the current token is still used; 0 without one.
func (s *Session) Remaining() time.Duration {
	h := s.current.Load()
	if h == nil {
		return 0
	}
	return max(0, time.Until(h.expiry))
}

// Close ends a running login, waits for its goroutine and drops the token.
// Later calls of Token fail.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	s.current.Store(nil)
	s.mu.Unlock()
	s.end()
	s.running.Wait()
}

// join returns the running login, or starts one if that is allowed at now, or
// says why it is not.
func (s *Session) join(now time.Time) (*attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed()
	}
	if s.attempt != nil {
		return s.attempt, nil
	}
	// A login may have ended between the caller's look at the token and here.
	if h := s.current.Load(); h != nil && now.Before(h.refresh) {
		return finished(h.token), nil
	}
	if now.Before(s.next) {
		return nil, s.delayed()
	}
	a := &attempt{done: make(chan struct{}), recovery: s.rejected}
	if a.recovery {
		s.recovered = now
	}
	s.attempt = a
	// The goroutine ends with the login, which ends with life or its timeout.
	s.running.Go(func() { s.run(a) })
	return a, nil
}

func finished(token openbao.Secret) *attempt {
	a := &attempt{done: make(chan struct{}), token: token}
	close(a.done)
	return a
}

// delayed is the answer while no login may start. The caller holds mu.
func (s *Session) delayed() error {
	if s.failure != nil {
		return s.failure
	}
	return fault.New(fault.RecoveryDelayed, opToken,
		"OpenBao rejected one token after another: check that the role's policy still allows this provider's paths")
}

// delayUntil moves the earliest next login to t, never back. The caller holds mu.
func (s *Session) delayUntil(t time.Time) {
	if t.After(s.next) {
		s.next = t
	}
}

func errClosed() error {
	return &fault.Error{
		Cause:  fault.Canceled,
		Op:     opToken,
		Detail: "the provider is shutting down",
		Err:    context.Canceled,
	}
}
