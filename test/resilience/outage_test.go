package resilience

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/test/stack/stacktest"
)

// unreachable is what callers may see while OpenBao answers nothing or that it cannot.
func unreachable(more ...codes.Code) []fails {
	return []fails{
		may(encrypt, append(more, codes.Unavailable, codes.FailedPrecondition)...),
		may(decrypt, append(more, codes.Unavailable)...),
	}
}

// openBreaker bounds the requests that are sent in d to an OpenBao that cannot be reached: those under way when it goes, five until the
// breaker opens, and one trial a second; the callers that had leave before it opened come on top.
func openBreaker(d time.Duration) int { return 2*callers + 5 + int(d/time.Second) + 1 }

func TestSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{calm: true})
	sealed := w.phase("sealed", unreachable()...)
	w.must(w.transit.Seal(t.Context()))
	w.seen(sealed.began, decrypt, codes.Unavailable)
	w.last(5 * time.Second)
	w.phase("unsealed", unreachable()...)
	w.must(w.transit.Unseal(t.Context()))
	w.healed(time.Now(), 2500*time.Millisecond)
	w.atMost("logins: the token outlives the seal", w.since(sealed).logins, 0)
	w.finish()
}

// TestStoppedAndRestarted: nothing listens, then a sealed server does, then all is well.
func TestStoppedAndRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{calm: true})
	stopped := w.phase("stopped", unreachable()...)
	w.must(w.transit.Stop())
	// Until it had ended it may have answered.
	gone, sent := time.Now(), w.sentNow()
	w.seen(stopped.began, decrypt, codes.Unavailable)
	w.last(6 * time.Second)
	if state := w.metrics().breaker(); state < 1 {
		t.Errorf("the circuit breaker's state is %v while nothing listens", state)
	}
	w.atMost("requests sent while nothing listens", w.sentNow()-sent, openBreaker(time.Since(gone)))
	w.phase("restarted, sealed", unreachable()...)
	w.must(w.transit.StartSealed(t.Context()))
	w.last(2 * time.Second)
	w.phase("unsealed", unreachable()...)
	w.must(w.transit.Unseal(t.Context()))
	w.healed(time.Now(), 3500*time.Millisecond)
	w.atMost("logins: the token outlives the restart", w.since(stopped).logins, 0)
	w.finish()
}

// TestStoppedForLongerThanATokenLives: when OpenBao comes back there is no token. Logins do not pass the breaker; they have delays of their
// own, so that many providers do not log in all at once.
func TestStoppedForLongerThanATokenLives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{calm: true, role: map[string]any{"token_ttl": "4s"}})
	gone := []fails{
		may(encrypt, codes.Unavailable, codes.FailedPrecondition),
		may(decrypt, codes.Unavailable),
	}
	w.phase("stopped", gone...)
	w.must(w.transit.Stop())
	w.last(8 * time.Second)
	m := w.metrics()
	// The first at half a token's life, then delays of 1, 2, 4 s.
	tried := int(m.sum("openbao_kms_auth_login_total") - m.sum("openbao_kms_auth_login_total", `status="ok"`))
	w.atMost("logins tried while nothing listens", tried, 4)
	if tried < 2 {
		t.Errorf("%d logins failed: the token outlived the outage", tried)
	}
	restarted := w.phase("restarted", gone...)
	w.must(w.transit.Restart(t.Context()))
	// The next login may be 8 s away.
	w.healed(time.Now(), 9500*time.Millisecond)
	// Those at half a token's life follow. Before OpenBao had stopped, one more of these may have reached it.
	w.atMost("logins that reached the server again", w.since(restarted).logins, 1+int(time.Since(restarted.began)/(2*time.Second)))
	w.finish()
}

// TestFrozen: a server that takes connections and answers nothing, and callers with less patience than openbao.timeout.
func TestFrozen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{deadlines: []time.Duration{1500 * time.Millisecond, 2 * time.Second}})
	before, err := holdingsOf(t.Context(), w.provider)
	w.must(err)
	frozen := w.phase("frozen", unreachable(codes.DeadlineExceeded)...)
	w.must(syscall.Kill(w.transit.Pid(), syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(w.transit.Pid(), syscall.SIGCONT) })
	w.last(10 * time.Second)
	during, err := holdingsOf(t.Context(), w.provider)
	w.must(err)
	w.note("before: %v; after 10 s: %v", before, during)
	// A trial that timed out gives its connection up: what waits is the callers before the breaker opened, at most.
	w.atMost("sockets after 10 s", during.sockets, before.sockets+8)
	w.atMost("requests sent while frozen", w.sentNow()-frozen.sent, openBreaker(time.Since(frozen.began)))
	thawed := w.phase("thawed", unreachable(codes.DeadlineExceeded)...)
	w.must(syscall.Kill(w.transit.Pid(), syscall.SIGCONT))
	// A trial that was sent to the frozen server may take openbao.timeout to end, and the cool-down follows.
	w.healed(thawed.began, 4500*time.Millisecond)
	w.finish()
}

// TestAnotherCA: a server that shows a certificate of another CA is refused whatever it says, also when the new CA is put into
// openbao.caCertFile: that file is read at the start only, so the operator restarts the provider. With the new CA in the file beside the
// old one *before* the server changes, and the providers restarted one by one, nothing fails.
func TestAnotherCA(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{calm: true})
	old, configured := w.transit.CA(), w.transit.CAFile()
	w.phase("another CA", unreachable()...)
	strange := stacktest.CA(t)
	w.must(w.transit.Stop())
	// Until it had ended it may have answered.
	gone, sent := time.Now(), w.sentNow()
	w.must(w.transit.RestartWithCA(t.Context(), strange))
	// Of what is sent, all fails in the handshake. What the breaker keeps back is told with that failure in the log.
	handshakes := func() int {
		return int(w.metrics().sum("openbao_kms_openbao_requests_total", `status="openbao_tls_failed"`))
	}
	refused := func(before int) {
		t.Helper()
		w.await("handshakes fail", patience, func() error {
			if handshakes() < before+3 {
				return errNotYet
			}
			return nil
		})
		if err := isReady(t.Context(), w.provider); err == nil {
			t.Error("/ready says ready with a server that is refused")
		}
	}
	refused(0)
	before := w.served()
	w.last(2 * time.Second)
	w.atMost("requests tried with the wrong server", w.sentNow()-sent, openBreaker(time.Since(gone)))
	if log := string(readFile(w, w.provider.Files.Log)); !strings.Contains(log, "no certificate in openbao.caCertFile has signed the server's") {
		t.Error("the log does not say why the server is refused")
	}

	// Both CAs in the file: no change without a restart.
	both := append(readFile(w, configured), readFile(w, strange.CertFile())...)
	w.phase("CA file changed", unreachable()...)
	w.writeFile(configured, both)
	refused(handshakes())
	if got := w.served(); got != before {
		t.Errorf("something of the provider reached a server that it must not trust: %+v", got.minus(before))
	}

	restarted := w.phase("provider restarted", unreachable()...)
	w.must(w.provider.Restart(t.Context()))
	w.pid = w.provider.Pid()
	w.healed(restarted.began, 8*time.Second)

	// Prepared like this, the way back is free: the same file holds for a server of the old CA.
	w.phase("the old CA again", unreachable()...)
	w.must(w.transit.RestartWithCA(t.Context(), old))
	w.healed(time.Now(), 3500*time.Millisecond)
	w.statusMayFail = true
	w.finish()
}

func readFile(w *world, name string) []byte {
	w.t.Helper()
	content, err := os.ReadFile(name)
	w.must(err)
	return content
}
