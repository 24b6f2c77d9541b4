package auth_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/transit"
)

type call func(context.Context, *transit.Client) error

// load makes calls of one kind with a deadline of their own until stop, and
// hands each result to check.
func load(t *testing.T, group *sync.WaitGroup, stop <-chan struct{}, c *transit.Client, every time.Duration, fn call, check func(error, time.Duration)) {
	t.Helper()
	const patience = 5 * time.Second
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(every):
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			start := time.Now()
			err := fn(ctx, c)
			took := time.Since(start)
			cancel()
			if took > patience {
				t.Errorf("a call outlasted its deadline of %v: %v", patience, took)
			}
			check(err, took)
		}
	})
}

// Whatever happens to tokens, policies, logins and the JWT, the invariants hold
// that world watches, and all heals when the world does.
func TestStormsHeal(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, rand.New(rand.NewPCG(seed, 4))) })
		})
	}
}

// A storm that once lost count of the delays.
func TestStormWithAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { storm(t, rand.New(rand.NewPCG(1006, 9))) })
}

func storm(t *testing.T, random *rand.Rand) {
	w := newWorld(t)
	c, session := w.client(time.Minute)
	defer session.Close()
	stop := make(chan struct{})
	var group sync.WaitGroup
	var mu sync.Mutex
	failed := map[fault.Cause]int{}
	calls := []call{encrypt, decrypt, upsert}
	for i := range 9 {
		load(t, &group, stop, c, time.Duration(500+100*i)*time.Millisecond, calls[i%3], func(err error, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			failed[fault.CauseOf(err)]++
		})
	}
	for range 60 {
		time.Sleep(time.Duration(random.IntN(40_000)) * time.Millisecond)
		upset(w, random)
	}
	// The world is well again.
	w.do(func() {
		w.sealed, w.refuse, w.noRenew, w.latency = false, 0, false, time.Millisecond
		w.ttl, w.maxTTL = time.Hour, 24*time.Hour
		clear(w.denied)
	})
	w.writeJWT(time.Now().Add(1000 * time.Hour))
	// The longest delay of a recovery, and a login's after that.
	time.Sleep(5*time.Minute + 30*time.Second)
	mu.Lock()
	for cause, n := range failed {
		if !stormCauses[cause] {
			t.Errorf("%d calls ended with %q", n, cause.Text())
		}
	}
	clear(failed)
	mu.Unlock()
	time.Sleep(time.Minute)
	close(stop)
	group.Wait()
	if failed[fault.None] == 0 || len(failed) != 1 {
		t.Errorf("after the world is well calls ended with %v", failed)
	}
}

// stormCauses are what calls may end with while the world is upset.
var stormCauses = map[fault.Cause]bool{
	fault.None: true, fault.PolicyDenied: true, fault.DenialDelayed: true, fault.RecoveryDelayed: true,
	fault.LoginRejected: true, fault.Sealed: true, fault.RateLimited: true, fault.Unavailable: true,
	fault.TimedOut: true, fault.DeadlineExceeded: true, fault.BreakerOpen: true,
}

// upset makes one thing worse or better.
func upset(w *world, random *rand.Rand) {
	some := func(d ...time.Duration) time.Duration { return d[random.IntN(len(d))] }
	operation := []string{"encrypt", "decrypt", "upsert"}[random.IntN(3)]
	switch random.IntN(9) {
	case 0, 1:
		w.revoke()
	case 2:
		w.do(func() { w.denied[operation] = !w.denied[operation] })
	case 3:
		w.do(func() { clear(w.denied) })
	case 4:
		refuse := []int{0, 0, 400, 429, 500}[random.IntN(5)]
		w.do(func() { w.refuse = refuse })
	case 5:
		w.writeJWT(time.Now().Add(some(-time.Hour, time.Hour, time.Hour)))
	case 6:
		w.do(func() { w.sealed = random.IntN(3) == 0 })
	case 7:
		latency := some(0, time.Millisecond, 300*time.Millisecond, 1900*time.Millisecond, 2500*time.Millisecond)
		w.do(func() { w.latency = latency })
	case 8:
		ttl, most := some(3*time.Second, 30*time.Second, 70*time.Second, time.Hour), some(time.Minute, 3*time.Minute, time.Hour)
		w.do(func() { w.ttl, w.maxTTL, w.noRenew = ttl, most, random.IntN(4) == 0 })
	}
}

// A denied Encrypt costs an allowed Decrypt nothing but the wait for the shared
// login, also while no login succeeds (design: overview, invariant 8).
func TestDecryptDoesNotSufferFromADeniedEncrypt(t *testing.T) {
	for name, refuse := range map[string]func(*world){
		"logins succeed":     func(*world) {},
		"logins are refused": func(w *world) { w.do(func() { w.refuse = 400 }) },
		"the JWT is expired": func(w *world) { w.writeJWT(time.Now().Add(-time.Hour)) },
		"logins are slow":    func(w *world) { w.do(func() { w.latency = 1500 * time.Millisecond }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.ttl = 2 * time.Hour
				c, session := w.client(5 * time.Minute)
				defer session.Close()
				if err := decrypt(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				w.do(func() { w.denied["encrypt"] = true })
				refuse(w)
				stop := make(chan struct{})
				var group sync.WaitGroup
				for range 4 {
					load(t, &group, stop, c, time.Second, decrypt, func(err error, took time.Duration) {
						if most := 2*w.latency + time.Millisecond; err != nil || took > most {
							t.Errorf("a decrypt took %v, want at most %v, and ended with %v", took, most, err)
						}
					})
					load(t, &group, stop, c, 700*time.Millisecond, encrypt, func(err error, _ time.Duration) {
						switch fault.CauseOf(err) {
						case fault.PolicyDenied, fault.DenialDelayed, fault.RecoveryDelayed, fault.LoginRejected:
						default:
							t.Errorf("an encrypt ended with %v", err)
						}
					})
				}
				time.Sleep(20 * time.Minute)
				close(stop)
				group.Wait()
				// At 0, 5, 15, 35, 75, 155 and 315 s, and every five minutes from then on.
				if n := len(w.recoveries); name == "logins succeed" && n != 9 {
					t.Errorf("%d recoveries in twenty minutes, want 9", n)
				}
			})
		})
	}
}

// A hundred callers whose token is revoked at once: one login, and one retry
// for each that was rejected.
func TestRevokedUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c, session := w.client(time.Minute)
		defer session.Close()
		if err := decrypt(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		w.revoke()
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				if err := []call{encrypt, decrypt}[i%2](t.Context(), c); err != nil {
					t.Errorf("a call failed: %v", err)
				}
			})
		}
		group.Wait()
		if len(w.logins) != 2 || len(w.recoveries) != 1 {
			t.Errorf("%d logins and %d recoveries, want 2 and 1", len(w.logins), len(w.recoveries))
		}
	})
}

// Tokens of seconds whose longest life is reached again and again, for a quarter of an
// hour: no call fails, and logins keep to their share of a life.
func TestShortLivesUnderLoad(t *testing.T) {
	for _, c := range []struct {
		ttl, most, window time.Duration
		logins, renewals  int // at most
	}{
		{4 * time.Second, 10 * time.Second, 5 * time.Minute, 451, 0},
		{time.Minute, 3 * time.Minute, 10 * time.Second, 7, 80},
		{time.Minute, time.Hour, 59 * time.Second, 1, 151},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.ttl, w.maxTTL = c.ttl, c.most
			client, session := w.client(c.window)
			defer session.Close()
			stop := make(chan struct{})
			var group sync.WaitGroup
			for range 2 {
				load(t, &group, stop, client, 250*time.Millisecond, decrypt, func(err error, took time.Duration) {
					if err != nil || took > 2*w.latency {
						t.Errorf("a decrypt took %v and ended with %v", took, err)
					}
				})
			}
			time.Sleep(15 * time.Minute)
			close(stop)
			group.Wait()
			if len(w.logins) > c.logins || w.renewals > c.renewals || len(w.recoveries) != 0 {
				t.Errorf("a life of %v up to %v with a window of %v: %d logins, %d renewals, %d recoveries; want at most %d, %d and 0",
					c.ttl, c.most, c.window, len(w.logins), w.renewals, len(w.recoveries), c.logins, c.renewals)
			}
		})
	}
}

// While Encrypt is denied and no login gets an answer, Decrypt goes on: it waits
// for the recovery's first login and for none after it.
func TestDecryptGoesOnWhileLoginsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c, session := w.client(time.Minute)
		defer session.Close()
		if err := decrypt(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		w.do(func() { w.hang, w.denied["encrypt"] = true, true })
		stop := make(chan struct{})
		var group sync.WaitGroup
		load(t, &group, stop, c, time.Second, encrypt, func(error, time.Duration) {})
		failed := 0
		for range 600 {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // an API server's
			if decrypt(ctx, c) != nil {
				failed++
			}
			cancel()
			time.Sleep(200 * time.Millisecond)
		}
		if failed > 1 {
			t.Errorf("%d decryptions failed, each after 3 s; want the one that meets the first login", failed)
		}
		close(stop)
		group.Wait()
	})
}

// A time without any token, because logins fail, is no time without rejections:
// the delays between recoveries, which world watches, go on where they were.
func TestALoginOutageIsNoQuietTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.ttl, w.maxTTL, w.noRenew = 2*time.Minute, 2*time.Minute, true
		c, session := w.client(10 * time.Second)
		defer session.Close()
		encrypting := func(d, every time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				_ = encrypt(ctx, c)
				cancel()
			}
		}
		w.do(func() { w.denied["encrypt"] = true })
		encrypting(10*time.Minute, time.Second)
		w.do(func() { w.refuse = 400 })
		encrypting(13*time.Minute, time.Second)
		w.do(func() { w.refuse = 0 })
		encrypting(10*time.Minute, 50*time.Millisecond)
		w.do(func() {
			if n := len(w.recoveries); n < 6 || n > 12 {
				t.Errorf("%d recoveries", n)
			}
		})
	})
}
