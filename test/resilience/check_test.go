package resilience

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The checks that every test makes in the end.

// finish ends the load, prints what was measured and makes the checks that every test makes.
func (w *world) finish() {
	w.t.Helper()
	w.load.stop()
	w.phase("end")
	w.excuseElections()
	w.report()
	w.checkCodes()
	w.checkDeadlines()
	w.checkStatus()
	w.await("nothing is in flight", 10*time.Second, func() error {
		m, err := scrape(w.t.Context(), w.provider)
		if n := m.sum("openbao_kms_grpc_in_flight"); err == nil && n != 0 {
			err = fmt.Errorf("%v calls are", n)
		}
		return err
	})
	if !bytes.Equal(w.readRegistry(), w.registry) {
		w.t.Error("the registry on disk is not what it was")
	}
	if w.provider.Pid() != w.pid {
		w.t.Error("the provider is another process")
	}
	log, err := os.ReadFile(w.provider.Files.Log)
	w.must(err)
	if bytes.Contains(log, []byte("panic")) {
		w.t.Error("the provider's log speaks of a panic")
	}
}

// excuseElections allows what a failover may show in a phase in which the cluster has lost its leader without anybody having taken it away:
// the machine was too busy for it.
func (w *world) excuseElections() {
	for i, p := range w.phases[:len(w.phases)-1] {
		if len(p.fails) > 0 || w.phases[i+1].elections == p.elections {
			continue
		}
		w.note("%s: the cluster lost its leader by itself", p.name)
		for _, f := range failover() {
			p.fails[f.m] = f.codes
		}
	}
}

// checkCodes holds every failed call against the phases that it touched.
func (w *world) checkCodes() {
	w.t.Helper()
	bad := map[string]int{}
	for _, c := range w.load.done() {
		if !c.failed() {
			continue
		}
		allowed := false
		var touched []string
		for i, p := range w.phases[:len(w.phases)-1] {
			if c.ended.Before(p.began) || !c.began.Before(w.phases[i+1].began) {
				continue
			}
			touched = append(touched, p.name)
			allowed = allowed || slices.Contains(p.fails[c.method], c.code)
		}
		if !allowed {
			bad[fmt.Sprintf("%s in %q ended with %v: %s", c.method, strings.Join(touched, "+"), c.code, c.text)]++
		}
	}
	for what, n := range bad {
		w.t.Errorf("%d × %s", n, what)
	}
}

// checkDeadlines holds every call against its own deadline, as its caller saw it and as the provider did: it must have ended a call by
// itself, and not only have been left by its caller.
func (w *world) checkDeadlines() {
	w.t.Helper()
	longest := time.Duration(0)
	for _, c := range w.load.done() {
		if took := c.ended.Sub(c.began); took > c.deadline+noise {
			w.t.Errorf("%s with a deadline of %v took %v", c.method, c.deadline, short(took))
		}
		longest = max(longest, c.deadline)
	}
	for _, bucket := range []struct {
		label string
		bound time.Duration
	}{{"1", time.Second}, {"2.5", 2500 * time.Millisecond}, {"5", 5 * time.Second}} {
		if bucket.bound < longest+noise {
			continue
		}
		m := w.metrics()
		const name = "openbao_kms_grpc_duration_seconds"
		within, all := m.sum(name+"_bucket", `le="`+bucket.label+`"`), m.sum(name+"_count")
		if within != all || all == 0 {
			w.t.Errorf("the provider says that %v of %v calls took longer than %v, callers had %v", all-within, all, bucket.bound, longest)
		}
		return
	}
	w.t.Errorf("no bucket of the metrics is above the longest deadline %v", longest)
}

// checkStatus: Status answers, and at once, whatever OpenBao does. A test that restarts the provider has a time without anybody to ask.
func (w *world) checkStatus() {
	w.t.Helper()
	w.load.mu.Lock()
	defer w.load.mu.Unlock()
	for _, s := range w.load.statuses {
		if s.err != nil && !w.statusMayFail {
			w.t.Errorf("Status failed: %v", s.err)
		}
		if s.took > statusLimit {
			w.t.Errorf("Status took %v", short(s.took))
		}
	}
	if len(w.load.statuses) == 0 {
		w.t.Error("nobody asked for Status")
	}
}
