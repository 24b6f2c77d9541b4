package doctor

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// listener is a port of loopback where something listens until the test ends.
func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestOpenBaoInOrder is the first row of every table here: nothing is wrong.
func TestOpenBaoInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	r := examine(t, w)
	passes(t, r, "openbao.reachable", "clock.skew")
	expect(t, r, "openbao.tls", command.Pass, "", "valid until "+time.Now().UTC().AddDate(1, 0, 0).Format("2006"))
	expect(t, r, "auth.material", command.Pass, "", "the JWT is valid until ")
	expect(t, r, "auth.login", command.Pass, "", "a token for 1h")
	passes(t, r, "auth.policy")
	expect(t, r, "transit.key", command.Pass, "", "latest version is 1")
	passes(t, r, "transit.profile", "transit.upsert")
	expect(t, r, "transit.roundtrip", command.Pass, "", "version 1")
	onlyFails(t, r)
	if r.Provider == nil || r.Provider.Name != stack.ProviderName || r.Provider.Version != "v0.0.0-test" {
		t.Errorf("the report is about %+v", r.Provider)
	}
}

// TestOpenBaoOutOfReach breaks the way to OpenBao. What needs an answer is skipped, what does not goes on.
func TestOpenBaoOutOfReach(t *testing.T) {
	t.Parallel()
	shared := stacktest.Transit(t, stack.TransitOptions{Mount: mount, Key: key})
	silent, refusing := listener(t), listener(t)
	must(t, refusing.Close())
	for _, c := range []struct {
		name, address, reason string
		words                 []string
	}{
		{"no such name", "https://doctor.invalid:8200", "openbao_dns_failed", []string{"could not be resolved", "correct the host in openbao.address"}},
		{"nothing listens", "https://" + refusing.Addr().String(), "openbao_connection_failed", []string{"nothing listens there", "start OpenBao"}},
		{"no answer", "https://" + silent.Addr().String(), "timeout", []string{"openbao.timeout (500ms)", "check the network path"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNode(t, shared, worldOptions{fields: map[string]any{"openbao.address": c.address, "openbao.timeout": "500ms"}})
			r := examine(t, w)
			expect(t, r, "openbao.reachable", command.Fail, c.reason, c.words...)
			onlyFails(t, r, "openbao.reachable")
			passes(t, r, "config.valid", "auth.material")
			for _, id := range []string{"openbao.tls", "clock.skew", "auth.login"} {
				skippedBecause(t, r, id, "openbao.reachable")
			}
			skippedBecause(t, r, "auth.policy", "openbao.reachable") // the root of it
		})
	}
	t.Run("sealed", func(t *testing.T) {
		w := newNode(t, shared, worldOptions{direct: true})
		must(t, shared.Seal(t.Context()))
		r := examine(t, w)
		expect(t, r, "openbao.reachable", command.Fail, "openbao_sealed", "OpenBao is sealed", "unseal it")
		onlyFails(t, r, "openbao.reachable")
		passes(t, r, "clock.skew")
		skippedBecause(t, r, "auth.login", "openbao.reachable")
		must(t, shared.Unseal(t.Context()))
		passes(t, examine(t, w), "openbao.reachable", "auth.login", "transit.roundtrip")
	})
	t.Run("stopped", func(t *testing.T) {
		w := newNode(t, shared, worldOptions{direct: true})
		must(t, shared.Stop())
		r := examine(t, w)
		expect(t, r, "openbao.reachable", command.Fail, "openbao_connection_failed", "nothing listens there")
		onlyFails(t, r, "openbao.reachable")
		must(t, shared.Restart(t.Context()))
	})
}

// skippedBecause holds a skipped check against one of the checks that it names.
func skippedBecause(t *testing.T, r *command.Report, id, because string) {
	t.Helper()
	c := checkOf(t, r, id)
	for _, other := range c.SkippedBecause {
		if c.Result == command.Skip && other == because {
			return
		}
	}
	t.Errorf("%s is %s because of %v, want skip because of %s: %s", id, c.Result, c.SkippedBecause, because, told(c))
}

// TestOpenBaoAnswersOtherwise has a server tell what the real one cannot be made to.
func TestOpenBaoAnswersOtherwise(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	for _, c := range []struct {
		name   string
		status int
		body   string
		result command.Result
		reason string
		words  []string
	}{
		{"not initialised", 200, `{"initialized":false,"sealed":true,"standby":true}`, command.Fail, "openbao_not_initialized", []string{"not initialised", "never initialised again"}},
		{"a standby", 200, `{"initialized":true,"sealed":false,"standby":true}`, command.Pass, "", []string{"standby"}},
		{"another service", 404, `not found`, command.Pass, "", []string{"does not tell OpenBao's state"}},
		{"a redirect", 307, ``, command.Fail, "openbao_unavailable", []string{"redirect", "HTTP 307"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := w.proxy.Override("/sys/health", func(rw http.ResponseWriter, _ *http.Request) {
				rw.WriteHeader(c.status)
				fmt.Fprint(rw, c.body)
			})
			defer end()
			r := examine(t, w)
			expect(t, r, "openbao.reachable", c.result, c.reason, c.words...)
			if c.result == command.Fail {
				onlyFails(t, r, "openbao.reachable")
			} else {
				onlyFails(t, r)
			}
		})
	}
}

// TestClock has OpenBao's answer tell another time.
func TestClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	for _, c := range []struct {
		name   string
		off    time.Duration // how far OpenBao's clock is ahead
		leeway string        // "" for the default, 30s
		result command.Result
		words  []string
	}{
		{"a little", 3 * time.Second, "", command.Pass, nil},
		{"ahead", -12 * time.Second, "", command.Warn, []string{"about 12s ahead of OpenBao's", "synchronise"}},
		{"behind", 12 * time.Second, "", command.Warn, []string{"behind OpenBao's"}},
		{"too far ahead", -5 * time.Minute, "", command.Fail, []string{"about 5m ahead of OpenBao's", "more than auth.jwt.clockSkewLeeway (30s) allows"}},
		{"too far behind", 40 * time.Second, "", command.Fail, []string{"behind OpenBao's", "auth.jwt.clockSkewLeeway"}},
		{"a small leeway", 6 * time.Second, "2s", command.Fail, []string{"auth.jwt.clockSkewLeeway (2s)"}},
		{"a large leeway", 40 * time.Second, "2m", command.Warn, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.configure(t, map[string]any{"auth.jwt.clockSkewLeeway": nil})
			if c.leeway != "" {
				w.configure(t, map[string]any{"auth.jwt.clockSkewLeeway": c.leeway})
			}
			end := w.proxy.Override("/sys/health", func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Date", time.Now().Add(c.off).UTC().Format(http.TimeFormat))
				fmt.Fprint(rw, `{"initialized":true,"sealed":false,"standby":false}`)
			})
			defer end()
			r := examine(t, w)
			reason := "clock_skew"
			if c.result == command.Pass {
				reason = ""
				onlyFails(t, r)
			} else {
				onlyFails(t, r, "clock.skew")
			}
			expect(t, r, "clock.skew", c.result, reason, c.words...)
		})
	}
	t.Run("not told", func(t *testing.T) {
		end := w.proxy.Override("/sys/health", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header()["Date"] = nil
			fmt.Fprint(rw, `{"initialized":true,"sealed":false,"standby":false}`)
		})
		defer end()
		r := examine(t, w)
		expect(t, r, "clock.skew", command.Skip, "", "does not tell its time")
		onlyFails(t, r)
	})
}
