package diagnose

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/backend"
	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/securefile"
)

// noon is when these tests take place.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// jwtExam is an examination with a way to OpenBao that nobody uses.
func jwtExam() *exam {
	return &exam{
		now: func() time.Time { return noon },
		way: &backend.Backend{},
		config: &config.Config{Auth: config.Auth{Method: config.MethodJWT, JWT: &config.JWTAuth{
			ClockSkewLeeway: config.Duration(30 * time.Second), MinRemainingTTL: config.Duration(2 * time.Minute), JWTFile: "/secret/place/jwt",
		}}},
	}
}

func TestSkew(t *testing.T) {
	for _, c := range []struct {
		name            string
		asked, answered time.Duration // this host's clock, after OpenBao's full second
		ahead, slack    time.Duration
	}{
		{"in the middle of the second", 500 * time.Millisecond, 500 * time.Millisecond, 0, 500 * time.Millisecond},
		{"a slow answer", 0, 2 * time.Second, 500 * time.Millisecond, 1500 * time.Millisecond},
		{"ahead", time.Minute, time.Minute, 59500 * time.Millisecond, 500 * time.Millisecond},
		{"behind", -time.Minute, -time.Minute, -60500 * time.Millisecond, 500 * time.Millisecond},
		{"a clock that was set back meanwhile", time.Second, 0, 500 * time.Millisecond, 500 * time.Millisecond},
	} {
		ahead, slack := skew(noon.Add(c.asked), noon.Add(c.answered), noon)
		if ahead != c.ahead || slack != c.slack {
			t.Errorf("%s: %v ahead, give or take %v; want %v and %v", c.name, ahead, slack, c.ahead, c.slack)
		}
	}
}

func TestClockBounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		method string
		leeway time.Duration
		off    time.Duration // beyond what whole seconds can hide
		want   command.Result
		words  string
	}{
		{"jwt, at the warning's bound", config.MethodJWT, 30 * time.Second, 5 * time.Second, command.Pass, ""},
		{"jwt, above it", config.MethodJWT, 30 * time.Second, 5*time.Second + time.Millisecond, command.Warn, "about 6s ahead of OpenBao's"},
		{"jwt, at the leeway", config.MethodJWT, 30 * time.Second, 30 * time.Second, command.Warn, ""},
		{"jwt, above it", config.MethodJWT, 30 * time.Second, 30*time.Second + time.Millisecond, command.Fail, "more than auth.jwt.clockSkewLeeway (30s) allows"},
		{"jwt without leeway", config.MethodJWT, 0, time.Millisecond, command.Fail, "auth.jwt.clockSkewLeeway (0s)"},
		{"cert, at the limit", config.MethodCert, 0, 30 * time.Second, command.Warn, ""},
		{"cert, above it", config.MethodCert, 0, 31 * time.Second, command.Fail, "(30s)"},
	} {
		for _, behind := range []bool{false, true} {
			e := jwtExam()
			e.config.Auth.Method, e.config.Auth.JWT.ClockSkewLeeway = c.method, config.Duration(c.leeway)
			at := noon.Add(time.Second + c.off) // the second may have been at its end
			words := c.words
			if behind {
				at = noon.Add(-c.off)
				words = strings.Replace(words, "ahead of", "behind", 1)
			}
			e.health = &openbao.Health{Date: noon, AskedAt: at, AnsweredAt: at}
			f := checkClock(t.Context(), e)
			if got := resultOf(f); got != c.want || !strings.Contains(f.message, words) {
				t.Errorf("%s (behind %v): %s %q, want %s %q", c.name, behind, got, f.message, c.want, words)
			}
		}
	}
}

func resultOf(f finding) command.Result {
	if f.result == "" {
		return command.Pass
	}
	return f.result
}

func TestCertificateEndIsTold(t *testing.T) {
	const (
		day       = 24 * time.Hour
		fortnight = 14 * day
		year      = 365 * day
	)
	for _, c := range []struct {
		certificate, authority time.Duration // from noon on; 0 for one that is not known
		life                   time.Duration // of both
		want                   command.Result
		reason, text           string
	}{
		{fortnight, 0, year, command.Pass, "", "OpenBao's certificate is valid until 2026-03-15T12:00:00Z"},
		{2 * fortnight, fortnight, year, command.Pass, "", "OpenBao's certificate is valid until 2026-03-15T12:00:00Z"},
		{fortnight - time.Second, 2 * fortnight, year, command.Warn, "certificate_expires_soon",
			"OpenBao's certificate ends in 13 days, at 2026-03-15T11:59:59Z: no provider can reach OpenBao then"},
		{90 * time.Minute, 0, year, command.Warn, "certificate_expires_soon", "OpenBao's certificate ends in 1h30m, at 2026-03-01T13:30:00Z: no provider can reach OpenBao then"},
		{2 * fortnight, 90 * time.Minute, year, command.Warn, "authority_expires_soon",
			"the authority in openbao.caCertFile that OpenBao's certificate is from ends in 1h30m, at 2026-03-01T13:30:00Z: no provider can reach OpenBao then"},
		{day, 0, 3 * day, command.Pass, "", "OpenBao's certificate is valid until 2026-03-02T12:00:00Z"},
		{day - time.Minute, 0, 3 * day, command.Warn, "certificate_expires_soon", "OpenBao's certificate ends in 23h59m, at 2026-03-02T11:59:00Z: no provider can reach OpenBao then"},
	} {
		e := jwtExam()
		e.health = &openbao.Health{CertificateEnd: noon.Add(c.certificate), CertificateLife: c.life, AuthorityLife: c.life}
		if c.authority != 0 {
			e.health.AuthorityEnd = noon.Add(c.authority)
		}
		if f := checkTLS(t.Context(), e); resultOf(f) != c.want || f.reason != c.reason || f.message != c.text {
			t.Errorf("%v and %v left: %s %q %q, want %s %q", c.certificate, c.authority, resultOf(f), f.reason, f.message, c.want, c.text)
		}
	}
}

// TestAnswerWithoutHealth: an HTTP error is an answer over a good connection.
func TestAnswerWithoutHealth(t *testing.T) {
	redirect := fault.New(fault.Unavailable, "ask", "it answered with a redirect: set openbao.address")
	redirect.HTTPStatus = 307
	broken := fault.New(fault.ConnectionFailed, "ask", "it broke: check")
	for err, want := range map[*fault.Error]command.Result{redirect: command.Pass, broken: command.Skip} {
		e := jwtExam()
		e.healthErr = err
		if f := checkTLS(t.Context(), e); resultOf(f) != want {
			t.Errorf("%v: openbao.tls is %s, want %s", err, resultOf(f), want)
		}
		if f := checkClock(t.Context(), e); resultOf(f) != command.Skip || len(f.because) != 1 || f.because[0] != openbaoReachable {
			t.Errorf("%v: clock.skew is %+v", err, f)
		}
	}
}

func TestTell(t *testing.T) {
	login := fault.New(fault.LoginRejected, "log in to OpenBao", "OpenBao refused the login: compare the role")
	login.HTTPStatus = 400
	for _, c := range []struct {
		err           error
		message, next string
	}{
		{login, "the provider could not log in to OpenBao: OpenBao refused the login (HTTP 400)", "compare the role"},
		{fault.New(fault.DNSFailed, "", "correct the host"), "OpenBao's host name could not be resolved", "correct the host"},
		{fault.New(fault.LoginRejected, "", "claim exp: it has expired: replace the file"), "the provider could not log in to OpenBao: claim exp: it has expired", "replace the file"},
		{fault.Wrap(fault.Canceled, "read", context.Canceled), "the caller cancelled the request", "run the command again; if that does not help, see OpenBao's log and the network path"},
		{fmt.Errorf("wrapped: %w", login), "the provider could not log in to OpenBao: OpenBao refused the login (HTTP 400)", "compare the role"},
		{errors.New("https://secret.example"), "the KMS provider failed for a reason that it does not know", "report this as a defect"},
	} {
		if message, next := tell(c.err); message != c.message || next != c.next {
			t.Errorf("%v: %q and %q, want %q and %q", c.err, message, next, c.message, c.next)
		}
	}
	if f := failure(login); f.reason != "auth_failed" || f.result != command.Fail {
		t.Errorf("a refused login is %+v", f)
	}
}

func TestNoWay(t *testing.T) {
	file := &securefile.Error{What: "CA certificate file", Path: "/secret/place/ca", Problem: "has mode 0666", Fix: "run chmod 0644 on it"}
	for _, c := range []struct {
		err                   error
		reason, message, next string
	}{
		{fmt.Errorf("openbao.caCertFile: %w", file), reasonCAFile, "the file in openbao.caCertFile has mode 0666", "run chmod 0644 on it"},
		{errors.New("openbao.caCertFile: PEM block 2 is damaged: copy the file again"), reasonCAFile, "openbao.caCertFile: PEM block 2 is damaged", "copy the file again"},
		{errors.New("openbao.address: plain HTTP is refused: use https"), reasonAddress, "openbao.address: plain HTTP is refused", "use https"},
	} {
		e := jwtExam()
		e.way, e.wayErr = nil, c.err
		e.config.OpenBao.CACertFile = "/secret/place/ca"
		f := checkTLS(t.Context(), e)
		if want := failed(c.reason, c.message, c.next); f.reason != want.reason || f.message != want.message || f.nextStep != want.nextStep || f.result != command.Fail {
			t.Errorf("%v: %+v, want %+v", c.err, f, want)
		}
		for _, check := range []func(context.Context, *exam) finding{checkReachable, checkClock} {
			if f := check(t.Context(), e); f.result != command.Skip || len(f.because) != 1 || f.because[0] != openbaoTLS {
				t.Errorf("%v: what needs the way is %+v", c.err, f)
			}
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1400 * time.Millisecond: "1s", 5 * time.Minute: "5m", 5*time.Minute + 3*time.Second: "5m3s", time.Hour: "1h0m",
		26*time.Hour + 40*time.Second: "26h1m", 48 * time.Hour: "2 days", 14*24*time.Hour - time.Second: "13 days",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is told as %q, want %q", d, got, want)
		}
	}
}
