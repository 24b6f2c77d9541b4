package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// script is a Login that does what the test says. Each success gives another
// token: "canary-1", "canary-2", …
type script struct {
	takes     time.Duration
	ttl       time.Duration
	renewable bool
	err       error
	panic     bool
	// renew answers a renewal after renewTakes; nil refuses it.
	renew      func(token openbao.Secret, increment time.Duration) (Grant, error)
	renewTakes time.Duration

	mu               sync.Mutex // guards the above once a session has the script
	logins, renewals atomic.Int32
}

// change changes the script while its session may be asking it.
func (s *script) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *script) Method() string { return "jwt" }

// scriptUses is how often each token of a script's login may be used.
const scriptUses = 9

func (s *script) Login(ctx context.Context) (Grant, error) {
	n := s.logins.Add(1)
	var takes time.Duration
	s.change(func() { takes = s.takes })
	if err := pause(ctx, takes, "log in to OpenBao"); err != nil {
		return Grant{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.panic {
		panic("canary")
	}
	if s.err != nil {
		return Grant{}, s.err
	}
	return Grant{Token: openbao.NewSecret(fmt.Sprintf("canary-%d", n)), TTL: s.ttl, Renewable: s.renewable, NumUses: scriptUses}, nil
}

func (s *script) Renew(ctx context.Context, token openbao.Secret, increment time.Duration) (Grant, error) {
	s.renewals.Add(1)
	var takes time.Duration
	s.change(func() { takes = s.renewTakes })
	if err := pause(ctx, takes, "renew the OpenBao token"); err != nil {
		return Grant{}, err
	}
	var renew func(openbao.Secret, time.Duration) (Grant, error)
	s.change(func() { renew = s.renew })
	if renew == nil {
		return Grant{}, status(403)
	}
	return renew(token, increment)
}

// pause is what a request to a slow OpenBao takes.
func pause(ctx context.Context, d time.Duration, op string) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.CauseOf(ctx.Err()), op, ctx.Err())
	}
}

// status is a failure that OpenBao answered.
func status(code int) error {
	f := fault.New(fault.Unavailable, "renew the OpenBao token", "it said no")
	f.HTTPStatus = code
	return f
}

func newSession(t *testing.T, login Login, window time.Duration) *Session {
	t.Helper()
	s := NewSession(Options{Login: login, Window: window, RequestTimeout: 2 * time.Second})
	t.Cleanup(s.Close)
	return s
}

// want asks for a token and compares it. It may be called from any goroutine.
func want(t *testing.T, s *Session, token string) openbao.Secret {
	t.Helper()
	got, err := s.Token(t.Context())
	if err != nil {
		t.Errorf("no token: %v", err)
	}
	if got.Reveal() != token {
		t.Errorf("token is %q, want %q", got.Reveal(), token)
	}
	return got
}

// replace rejects a token and compares the one that takes its place.
func replace(t *testing.T, s *Session, rejected openbao.Secret, token string) openbao.Secret {
	t.Helper()
	got, err := s.Replace(t.Context(), rejected)
	if err != nil {
		t.Errorf("no token: %v", err)
	}
	if got.Reveal() != token {
		t.Errorf("token is %q, want %q", got.Reveal(), token)
	}
	return got
}

func wantLogins(t *testing.T, l *script, n int32) {
	t.Helper()
	if got := l.logins.Load(); got != n {
		t.Fatalf("%d logins, want %d", got, n)
	}
}

func TestTokenIsReplacedInsideTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour}
		s := newSession(t, login, 5*time.Minute)
		want(t, s, "canary-1")
		login.change(func() { login.takes = time.Second })
		time.Sleep(55*time.Minute - time.Nanosecond)
		want(t, s, "canary-1")
		wantLogins(t, login, 1)

		// From the window's first moment on one login runs; all go on at once.
		time.Sleep(time.Nanosecond)
		start := time.Now()
		for range 100 {
			want(t, s, "canary-1")
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("callers with a valid token waited %v", waited)
		}
		synctest.Wait()
		wantLogins(t, login, 2)
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, s, "canary-2")
		wantLogins(t, login, 2)
		if left := s.Remaining(); left != time.Hour-time.Second {
			t.Errorf("%v left, want an hour from the request on", left)
		}
	})
}

func TestPastTheEndCallersShareOneLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, takes: 2 * time.Second}
		s := newSession(t, login, 5*time.Minute)
		for round := range 2 {
			start := time.Now()
			var group sync.WaitGroup
			for range 100 {
				group.Go(func() { want(t, s, fmt.Sprintf("canary-%d", round+1)) })
			}
			group.Wait()
			if waited := time.Since(start); waited != 2*time.Second {
				t.Errorf("callers waited %v, want 2s", waited)
			}
			wantLogins(t, login, int32(round+1))
			if s.Remaining() != time.Hour-2*time.Second {
				t.Errorf("%v left", s.Remaining())
			}
			time.Sleep(time.Hour - 2*time.Second)
			if s.Remaining() != 0 {
				t.Errorf("%v left at the end", s.Remaining())
			}
		}
	})
}

func TestACallerThatGivesUpCancelsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, takes: 3 * time.Second}
		s := newSession(t, login, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := s.Token(ctx)
		assertFault(t, err, fault.DeadlineExceeded, "get an OpenBao token")
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("it waited %v beyond its deadline", waited)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = s.Token(ctx)
		assertFault(t, err, fault.Canceled, "get an OpenBao token")
		_, err = s.Token(ctx)
		assertFault(t, err, fault.Canceled, "get an OpenBao token")

		want(t, s, "canary-1")
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("the token was there after %v, want 3s", waited)
		}
		wantLogins(t, login, 1)
	})
}

func TestShortTokensMakeNoLoop(t *testing.T) {
	for _, c := range []struct{ ttl, window, after time.Duration }{
		{time.Hour, 5 * time.Minute, 55 * time.Minute},
		{8 * time.Minute, 5 * time.Minute, 3 * time.Minute},
		{5*time.Minute + time.Second, 5 * time.Minute, 30*time.Second + time.Second/10},
		{5 * time.Minute, 5 * time.Minute, 150 * time.Second},
		{10 * time.Second, 5 * time.Minute, 5 * time.Second},
		{time.Second, 5 * time.Minute, 500 * time.Millisecond},
		{time.Hour, 0, time.Hour},
	} {
		if got := refreshAfter(c.ttl, c.window); got != c.after {
			t.Errorf("a life of %v with a window of %v: replaced after %v, want %v", c.ttl, c.window, got, c.after)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: 10 * time.Second}
		s := newSession(t, login, 5*time.Minute)
		for range 10000 {
			if _, err := s.Token(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := login.logins.Load(); n < 19 || n > 20 {
			t.Errorf("%d logins in 100 s with tokens of 10 s, want one per half life", n)
		}
	})
}

func TestLoginTimeout(t *testing.T) {
	for _, c := range []struct{ login, request, want time.Duration }{
		{0, 2 * time.Second, 5 * time.Second},
		{0, 7 * time.Second, 7 * time.Second},
		{time.Second, 7 * time.Second, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			login := &script{takes: time.Hour}
			s := NewSession(Options{Login: login, LoginTimeout: c.login, RequestTimeout: c.request})
			defer s.Close()
			start := time.Now()
			_, err := s.Token(t.Context())
			assertFault(t, err, fault.TimedOut, "auth.loginTimeout ("+c.want.String()+")")
			if errors.Is(err, context.DeadlineExceeded) {
				t.Error("the login's own timeout looks like the caller's deadline")
			}
			if took := time.Since(start); took != c.want {
				t.Errorf("it took %v, want %v", took, c.want)
			}
		})
	}
}

func TestSettingTheClockChangesNothing(t *testing.T) {
	s := newSession(t, &script{ttl: time.Hour}, time.Minute)
	want(t, s, "canary-1")
	// Times without a monotonic reading compare by the wall clock.
	if h := s.current.Load(); !strings.Contains(h.expiry.String(), " m=") || !strings.Contains(h.refresh.String(), " m=") {
		t.Errorf("the token's end %v carries no monotonic reading", h.expiry)
	}
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := &script{ttl: time.Hour, takes: 3 * time.Second}
		s := NewSession(Options{Login: login, RequestTimeout: time.Second})
		failed := make(chan error, 1)
		go func() {
			_, err := s.Token(t.Context())
			failed <- err
		}()
		time.Sleep(time.Second)
		s.Close() // synctest fails if a goroutine is left
		assertFault(t, <-failed, fault.Canceled, "shutting down")
		_, err := s.Token(t.Context())
		assertFault(t, err, fault.Canceled, "shutting down")
		wantLogins(t, login, 1)

		s = NewSession(Options{Login: &script{ttl: time.Hour}})
		want(t, s, "canary-1")
		s.Close()
		s.Close()
		if s.Remaining() != 0 {
			t.Error("the token outlives Close")
		}
		_, err = s.Token(t.Context())
		assertFault(t, err, fault.Canceled, "shutting down")
	})
}

// counts is an Observer.
type counts struct {
	mu   sync.Mutex
	list []string
}

func (c *counts) add(s string) { c.mu.Lock(); defer c.mu.Unlock(); c.list = append(c.list, s) }

func (c *counts) LoginDone(status string)    { c.add("login " + status) }
func (c *counts) RenewalDone(status string)  { c.add("renewal " + status) }
func (c *counts) RecoveryDone(status string) { c.add("recovery " + status) }

func TestWhatIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		seen := &counts{}
		login := &script{ttl: time.Hour, panic: true, takes: 20 * time.Millisecond}
		s := NewSession(Options{Login: login, Logger: slog.New(slog.NewTextHandler(&log, nil)), Observer: seen})
		defer s.Close()
		_, err := s.Token(t.Context())
		assertFault(t, err, fault.Panicked, "panicked")
		login.change(func() { login.panic, login.err = false, errors.New("canary") })
		time.Sleep(firstBackoff)
		_, err = s.Token(t.Context())
		if fault.CauseOf(err) != fault.Unknown {
			t.Errorf("a foreign error became %v", err)
		}
		assertClean(t, err.Error())
		login.change(func() { login.err = nil })
		time.Sleep(2 * firstBackoff)
		token := want(t, s, "canary-3")
		replace(t, s, token, "canary-4")
		synctest.Wait()
		if got := strings.Join(seen.list, ", "); got != "login panic, login unknown, login ok, login ok, recovery ok" {
			t.Errorf("observed %q", got)
		}
		for _, line := range []string{
			"level=WARN msg=auth.login operation=jwt_login duration_ms=20 error_class=panic",
			"level=INFO msg=auth.login operation=jwt_login duration_ms=20 status=ok",
			"level=INFO msg=auth.recovery operation=jwt_login duration_ms=20 status=ok",
		} {
			if !strings.Contains(log.String(), line) {
				t.Errorf("the log has no line with %q:\n%s", line, &log)
			}
		}
		assertClean(t, log.String())
	})
}

// The same over a connection: what counts is what reaches OpenBao.
func TestHundredCallersMakeOneRequest(t *testing.T) {
	var requests atomic.Int32
	conn := server(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = io.WriteString(w, `{"auth":{"client_token":"canary-1","lease_duration":3600}}`)
	})
	file := filepath.Join(t.TempDir(), "jwt")
	writeJWT(t, file, goodJWT(t, "x"), 0o600)
	s := newSession(t, NewJWT(conn, JWTOptions{MountPath: canaryMount, Role: canaryRole, File: file}), time.Minute)
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			if got, err := s.Token(t.Context()); err != nil || got.Reveal() != "canary-1" {
				t.Errorf("%v", err)
			}
		})
	}
	group.Wait()
	if n := requests.Load(); n != 1 {
		t.Errorf("%d logins reached the server, want 1", n)
	}
}

func BenchmarkToken(b *testing.B) {
	s := NewSession(Options{Login: &script{ttl: time.Hour}, Window: time.Minute})
	defer s.Close()
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := s.Token(b.Context()); err != nil {
				b.Error(err)
			}
		}
	})
}
