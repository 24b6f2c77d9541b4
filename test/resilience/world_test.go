package resilience

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

const (
	// patience bounds every condition that has no bound of its own.
	patience = 60 * time.Second
	// noise is how much later than it should a call may end on a busy machine.
	noise = 400 * time.Millisecond
	// probeSlack is what Status may lag behind: one probe a second, and some time to make it.
	probeSlack = 1500 * time.Millisecond
	// statusLimit is how long a Status call may take: it waits for nothing, but for a processor.
	statusLimit = time.Second
)

// options say how a world is made. The zero value is one Transit with its default role, and a provider with quick probes.
type options struct {
	transit stack.TransitOptions
	// role are fields of the JWT role.
	role map[string]any
	// fields are changes to the provider's configuration.
	fields map[string]any
	// calm is for tests in which nothing may wait for long: openbao.timeout and the callers' deadlines are then so long that a busy machine
	// does not decide.
	calm bool
	// deadlines are the callers' own, in turn; nil is deadlines below. pause is between two calls of a caller; 0 is 250 ms, because
	// several worlds share the machine.
	deadlines []time.Duration
	pause     time.Duration
	// prepare runs after Transit is up and before the provider starts.
	prepare func(*world)
}

// deadlines that callers have unless a test says otherwise: an API server's default, and more.
var deadlines = []time.Duration{3 * time.Second, 4500 * time.Millisecond}

// world is a Transit, or a cluster of them, a provider, and a load on its KMS socket.
type world struct {
	t       *testing.T
	transit *stack.Transit
	// cluster is nil for a single server.
	cluster  *stack.TransitCluster
	provider *stack.Provider
	load     *load
	pid      int
	registry []byte
	phases   []*phase
	notes    []string
	// statusMayFail is set where the test restarts the provider.
	statusMayFail bool
}

// phase is a part of a test's time.
type phase struct {
	name  string
	began time.Time
	// fails are the codes, beside OK, that calls may end with.
	fails map[method][]codes.Code
	// What the servers and the provider had counted when the phase began.
	served served
	sent   int
	// elections is how often a server of the cluster had become active.
	elections int
}

// fails are the codes that one method may end with in a phase.
type fails struct {
	m     method
	codes []codes.Code
}

func may(m method, c ...codes.Code) fails { return fails{m, c} }

// newWorld starts a single Transit and a provider under load.
func newWorld(t *testing.T, o options) *world {
	t.Helper()
	if o.transit.Policy == "" {
		o.transit.Policy = policy.OpenBao(stack.DefaultMount, stack.DefaultKey)
	}
	w := &world{t: t, transit: stacktest.Transit(t, o.transit)}
	w.start(o)
	return w
}

// newClusterWorld starts three joined Transit servers behind a load balancer and a provider under load.
func newClusterWorld(t *testing.T, activeOnly bool, o options) (*world, *stack.Balancer) {
	t.Helper()
	o.transit.Policy = policy.OpenBao(stack.DefaultMount, stack.DefaultKey)
	w := &world{t: t, cluster: stacktest.TransitCluster(t, o.transit)}
	w.transit = w.cluster.Nodes()[0]
	started, err := w.cluster.Balance(activeOnly)
	balancer := stacktest.Balancer(t, started, err)
	o.fields = with(o.fields, map[string]any{"openbao.address": balancer.Address()})
	w.start(o)
	return w, balancer
}

// with is fields and more; fields win.
func with(fields, more map[string]any) map[string]any {
	all := maps.Clone(more)
	maps.Copy(all, fields)
	return all
}

func (w *world) start(o options) {
	w.t.Helper()
	if o.role != nil {
		w.must(w.transit.UpdateRole(w.t.Context(), o.role))
	}
	if o.prepare != nil {
		o.prepare(w)
	}
	if o.calm {
		o.fields = with(o.fields, map[string]any{"openbao.timeout": "4s"})
		o.deadlines = []time.Duration{4500 * time.Millisecond}
	}
	w.provider = stacktest.Provider(w.t, binary(w.t), w.transit, stack.ProviderConfig{Fields: o.fields})
	w.pid = w.provider.Pid()
	w.await("the provider is ready", patience, func() error { return isReady(w.t.Context(), w.provider) })
	w.registry = w.readRegistry()
	if o.deadlines == nil {
		o.deadlines = deadlines
	}
	if o.pause == 0 {
		o.pause = 250 * time.Millisecond
	}
	w.load = startLoad(w.t, w.provider, o.deadlines, o.pause)
	w.phase("steady")
	w.last(time.Second)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) readRegistry() []byte {
	w.t.Helper()
	content, err := os.ReadFile(w.provider.Files.State)
	w.must(err)
	return content
}

// phase begins a new phase: what is allowed to fail in it, and why it is called so.
func (w *world) phase(name string, f ...fails) *phase {
	w.t.Helper()
	p := &phase{name: name, began: time.Now(), fails: map[method][]codes.Code{}, served: w.served()}
	for _, each := range f {
		p.fails[each.m] = each.codes
	}
	if m, err := scrape(w.t.Context(), w.provider); err == nil {
		p.sent = m.sent()
	}
	p.elections = w.elections()
	w.phases = append(w.phases, p)
	return p
}

// elections is how often a server of the cluster has become active, 0 without a cluster.
func (w *world) elections() int {
	w.t.Helper()
	if w.cluster == nil {
		return 0
	}
	n, err := w.cluster.Elections()
	w.must(err)
	return n
}

// last lets the load run on for a while.
func (w *world) last(d time.Duration) {
	w.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.provider.Done():
		w.t.Fatal("the provider has ended")
	case <-w.t.Context().Done():
		w.t.Fatal("the test has ended")
	}
}

// await polls a condition until it is nil and says how long that took.
func (w *world) await(what string, bound time.Duration, condition func() error) time.Duration {
	w.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(w.t.Context(), bound)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := condition()
		if err == nil {
			return time.Since(began)
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("not within %v: %s: %v", bound, what, err)
		case <-ticker.C:
		}
	}
}

// seen waits until a call has ended with one of the codes since a moment.
func (w *world) seen(since time.Time, m method, want ...codes.Code) {
	w.t.Helper()
	w.seenOf(since, []method{m}, want...)
}

// seenOf waits until a call of any of the methods has ended with one of the codes since a moment.
func (w *world) seenOf(since time.Time, of []method, want ...codes.Code) {
	w.t.Helper()
	w.await(fmt.Sprintf("one of %v ends with %v", of, want), patience, func() error {
		for _, c := range w.load.done() {
			if slices.Contains(of, c.method) && c.began.After(since) && slices.Contains(want, c.code) {
				return nil
			}
		}
		return fmt.Errorf("none has")
	})
}

// healed waits until the provider is ready and nothing fails any more, after what was wrong has been put right at since; no call may fail
// later than bound after that. The phase that follows allows no failure.
func (w *world) healed(since time.Time, bound time.Duration) {
	w.t.Helper()
	w.load.startCounting()
	elections := w.elections()
	w.await("the provider has healed", bound+patience, func() error {
		if err := isReady(w.t.Context(), w.provider); err != nil {
			return err
		}
		if state := w.metrics().breaker(); state != 0 {
			return fmt.Errorf("the circuit breaker's state is %v", state)
		}
		return w.load.flowing(since)
	})
	after := map[method]time.Duration{encrypt: -1, decrypt: -1}
	lastFailure := time.Duration(0)
	for _, c := range w.load.done() {
		switch {
		case c.began.Before(since):
		case c.failed():
			lastFailure = max(lastFailure, c.ended.Sub(since))
		case after[c.method] < 0:
			after[c.method] = c.ended.Sub(since)
		case c.ended.Sub(since) < after[c.method]:
			after[c.method] = c.ended.Sub(since)
		}
	}
	unhealthy := w.load.lastUnhealthy(since)
	w.note("%s: first encrypt after %v, first decrypt after %v; last failure after %v, last unhealthy Status after %v (bound %v)",
		w.phases[len(w.phases)-1].name, short(after[encrypt]), short(after[decrypt]), short(lastFailure), short(unhealthy), bound)
	if w.elections() > elections {
		w.note("%s: the cluster lost its leader by itself, which bounds nothing", w.phases[len(w.phases)-1].name)
		bound = max(bound, time.Since(since))
	}
	if lastFailure > bound {
		w.t.Errorf("a call failed %v after everything was right again, at most %v is allowed", short(lastFailure), bound)
	}
	if unhealthy > bound+probeSlack {
		w.t.Errorf("Status was unhealthy %v after everything was right again, at most %v is allowed", short(unhealthy), bound+probeSlack)
	}
	w.phase("healthy")
	w.last(time.Second)
}

// note adds a line to what the test prints at its end.
func (w *world) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

func short(d time.Duration) string { return d.Round(time.Millisecond).String() }

var errNotYet = errors.New("not yet")

// writeFile replaces a file of the provider as a whole.
func (w *world) writeFile(file string, content []byte) {
	w.t.Helper()
	temporary := file + ".new"
	w.must(os.WriteFile(temporary, content, 0o600))
	w.must(os.Rename(temporary, file))
}
