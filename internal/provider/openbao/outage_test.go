package openbao

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// After a network or a peer has forgotten the idle connections, silently, they
// look as good as ever. One call finds out; the rest must not, one by one.
func TestStaleConnectionsFailOneCall(t *testing.T) {
	for name, c := range map[string]struct {
		how   func(*link)
		cause fault.Cause
	}{
		"swallowed":    {swallow, fault.TimedOut},
		"reset at use": {resetAtUse, fault.ConnectionFailed},
	} {
		t.Run(name, func(t *testing.T) {
			calm(t)
			o, g := behindGate(t, gather(16))
			conn := open(t, o)
			defer conn.Close()
			warm(t, conn, 16)
			used := g.forget(c.how)
			conn.timeout = 300 * time.Millisecond
			_, err := timed(t, t.Context(), conn, Encrypt, post(), conn.timeout)
			assertFault(t, err, c.cause, "")
			conn.timeout = o.Timeout
			for range 50 {
				if got, err := call(t, conn); err != nil || got != canaryBody {
					t.Fatalf("after the first: %q, %v", got, err)
				}
			}
			if n := used(); n != 1 {
				t.Errorf("%d stale connections were used, want 1", n)
			}
			wantState(t, conn, closed)
		})
	}
}

// With many callers at once each may have taken a stale connection before the
// first found out. None takes another, though there are more, and the breaker,
// which they opened, lets all through again after its first trial.
func TestStaleConnectionsUnderLoad(t *testing.T) {
	calm(t)
	const callers, stale = 8, 32
	o, g := behindGate(t, gather(stale))
	conn := open(t, o)
	defer conn.Close()
	warm(t, conn, stale)
	used := g.forget(swallow)
	conn.timeout = 500 * time.Millisecond
	start := time.Now()
	var group sync.WaitGroup
	var timedOut, failedFast atomic.Int32
	for range callers {
		group.Go(func() {
			for {
				got, err := call(t, conn)
				switch cause := fault.CauseOf(err); {
				case err == nil && got == canaryBody:
					return
				case cause == fault.TimedOut:
					timedOut.Add(1)
				case cause == fault.BreakerOpen:
					failedFast.Add(1)
					<-time.After(10 * time.Millisecond)
				default:
					t.Errorf("%q, %v", got, err)
					return
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d timed out, %d failed fast, all served after %v", timedOut.Load(), failedFast.Load(), time.Since(start))
	if n := used(); n > callers {
		t.Errorf("%d of %d stale connections were used, want at most one for each of %d callers", n, stale, callers)
	}
}

// A request that had to dial says nothing about connections that became idle
// since: they stay.
func TestProvenConnectionsStay(t *testing.T) {
	calm(t)
	var seen sync.Map // remote address → body
	release := make(chan struct{})
	arrived := make(chan string, 2)
	o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen.Store(r.RemoteAddr, true)
		arrived <- string(body)
		switch string(body) {
		case "held":
			<-release
		case "stalled":
			<-r.Context().Done()
		}
	})
	conn := open(t, o)
	defer conn.Close()
	ask := func(ctx context.Context, text string) error {
		body := NewBuffer(len(text))
		body.B = append(body.B, text...)
		answer, err := conn.Call(ctx, endpoint(t, conn, Encrypt), NewSecret(canaryToken), body)
		answer.Release()
		return err
	}
	held := make(chan error, 1)
	go func() { held <- ask(t.Context(), "held") }()
	<-arrived
	conn.timeout = 300 * time.Millisecond
	stalled := make(chan error, 1)
	go func() { stalled <- ask(t.Context(), "stalled") }()
	<-arrived
	close(release)
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	assertFault(t, <-stalled, fault.TimedOut, "")
	conn.timeout = o.Timeout
	if err := ask(t.Context(), "third"); err != nil {
		t.Fatal(err)
	}
	n := 0
	seen.Range(func(any, any) bool { n++; return true })
	if n != 2 {
		t.Errorf("three requests used %d connections, want 2", n)
	}
}

// A peer that is killed and comes back, again and again, under load: what the
// callers see, that each is told in time, that they are all served again
// within a cool-down, and that from then on not one call fails.
func TestRestartsUnderLoad(t *testing.T) {
	calm(t)
	const callers, restarts = 32, 3
	o, g := behindGate(t, echo)
	o.MaxConns = callers
	conn := open(t, o)
	defer conn.Close()
	var mu sync.Mutex
	counts := map[string]int{}
	var failures, late atomic.Int32
	// healedAt is when the breaker was last seen to have closed, nil during an
	// outage: no call that begins later may fail.
	var healedAt atomic.Pointer[time.Time]
	var worst atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	e := endpoint(t, conn, Encrypt)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				want := fmt.Sprintf(`{"caller":%d,"call":%d}`, i, n)
				body := NewBuffer(len(want))
				body.B = append(body.B, want...)
				start := time.Now()
				answer, err := conn.Call(t.Context(), e, NewSecret(canaryToken), body)
				for took := int64(time.Since(start)); ; {
					if old := worst.Load(); took <= old || worst.CompareAndSwap(old, took) {
						break
					}
				}
				mu.Lock()
				counts[fault.CauseOf(err).Text()]++
				mu.Unlock()
				switch cause := fault.CauseOf(err); cause {
				case fault.None:
					if string(answer.B) != want {
						t.Errorf("asked %s, answered %s", want, answer.B)
					}
					answer.Release()
				case fault.ConnectionFailed, fault.BreakerOpen:
					failures.Add(1)
					if at := healedAt.Load(); at != nil && start.After(*at) {
						late.Add(1)
					}
				default:
					t.Errorf("%v", err)
				}
				<-time.After(2 * time.Millisecond) // the pace of the load
			}
		})
	}
	served := func() int { mu.Lock(); defer mu.Unlock(); return counts[""] }
	for range restarts {
		before := served()
		eventually(t, "calls are served", func() bool { return served() > before+callers })
		healedAt.Store(nil)
		g.close()
		eventually(t, "the breaker opens", func() bool { return conn.BreakerState() == opened })
		failed := failures.Load()
		eventually(t, "calls fail fast", func() bool { return failures.Load() > failed+10*callers })
		g.open(t)
		back := time.Now()
		eventually(t, "the breaker closes", func() bool { return conn.BreakerState() == closed })
		healed := time.Since(back)
		if healed > breakerCoolDown+5*noise { // 32 handshakes on a busy machine
			t.Errorf("healed after %v, want at most the cool-down", healed)
		}
		now := time.Now()
		healedAt.Store(&now)
		before = served()
		eventually(t, "all callers are served again", func() bool { return served() > before+3*callers })
		if n := late.Load(); n != 0 {
			t.Errorf("%d calls failed after the breaker had closed", n)
		}
		t.Logf("healed %v after the peer's return", healed)
	}
	stop()
	group.Wait()
	t.Logf("longest call %v; %v", time.Duration(worst.Load()), counts)
	if took := time.Duration(worst.Load()); took > o.Timeout+noise {
		t.Errorf("a call took %v, want at most %v", took, o.Timeout)
	}
}

// A server that closes kept-alive connections when it likes, mostly after an
// answer: a few calls meet one that is just closing. Those fail; no encryption
// reaches the server twice, and none gets another's answer.
func TestConnectionsClosedAtRandom(t *testing.T) {
	calm(t)
	const callers, calls = 8, 100
	var arrived sync.Map // body → how often
	var failed atomic.Int32
	conn := open(t, peer(t, func(_ *testing.T, conn *tls.Conn, r *bufio.Reader) {
		for rand.IntN(5) != 0 {
			body, err := readRequest(r)
			if err != nil {
				return
			}
			n, _ := arrived.LoadOrStore(body, new(atomic.Int32))
			n.(*atomic.Int32).Add(1)
			fmt.Fprintf(conn, okHead+"Content-Length: %d\r\n\r\n%s", len(body), body)
		}
	}))
	defer conn.Close()
	e := endpoint(t, conn, Encrypt)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for n := range calls {
				want := fmt.Sprintf(`{"caller":%d,"call":%d}`, i, n)
				body := NewBuffer(len(want))
				body.B = append(body.B, want...)
				answer, err := conn.Call(t.Context(), e, NewSecret(canaryToken), body)
				if err != nil {
					failed.Add(1)
					if cause := fault.CauseOf(err); cause != fault.ConnectionFailed {
						t.Errorf("%v", err)
					}
					continue
				}
				if string(answer.B) != want {
					t.Errorf("asked %s, answered %s", want, answer.B)
				}
				answer.Release()
			}
		})
	}
	group.Wait()
	arrived.Range(func(body, n any) bool {
		if n := n.(*atomic.Int32).Load(); n != 1 {
			t.Errorf("%s arrived %d times", body, n)
		}
		return true
	})
	t.Logf("%d of %d calls failed", failed.Load(), callers*calls)
}
