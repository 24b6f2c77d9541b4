package reporter

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/report"
)

// healthy is the report of a node on which all is well.
func healthy(t testing.TB) *report.NodeReport { return golden(t, "node-healthy.json") }

// golden reads one of package report's documents.
func golden(t testing.TB, name string) *report.NodeReport {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "..", "report", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.Decode[report.NodeReport](doc)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// provider serves a report socket as a test tells it to. Its goroutines are no
// part of a synctest bubble when it is made outside one.
type provider struct {
	path string

	mu       sync.Mutex
	told     *report.NodeReport
	answer   http.HandlerFunc // nil: as a provider does
	planned  func(w http.ResponseWriter, before int)
	requests []string
	server   *http.Server
	// starts asks the goroutine that starts it, which is outside of any bubble, as
	// what it starts then is.
	starts  chan struct{}
	started chan error
}

// newProvider starts one that tells r.
func newProvider(t testing.TB, r *report.NodeReport) *provider {
	t.Helper()
	// A test's own directory has a path too long for a socket.
	dir, err := os.MkdirTemp("", "bk")
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{path: filepath.Join(dir, "report.sock"), told: r,
		starts: make(chan struct{}), started: make(chan error)}
	go func() {
		for range p.starts {
			p.started <- p.listen()
		}
	}()
	t.Cleanup(func() {
		close(p.starts)
		p.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p.start(t)
	return p
}

func (p *provider) start(t testing.TB) {
	t.Helper()
	p.starts <- struct{}{}
	if err := <-p.started; err != nil {
		t.Fatal(err)
	}
}

func (p *provider) listen() error {
	l, err := net.Listen("unix", p.path)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: p}
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	go func() { _ = server.Serve(l) }()
	return nil
}

// stop closes and removes the socket, as a provider does that ends.
func (p *provider) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.server.Close()
}

// change changes the report.
func (p *provider) change(edit func(*report.NodeReport)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = p.told.DeepCopy()
	edit(p.told)
}

// answers makes it answer everything in another way.
func (p *provider) answers(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = h
}

// count is how many requests there were for a path.
func (p *provider) count(uri string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		if r == uri {
			n++
		}
	}
	return n
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests = append(p.requests, r.URL.RequestURI())
	told, answer, planned := p.told.DeepCopy(), p.answer, p.planned
	probes := time.Duration(len(p.requests)) * time.Second
	p.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, r)
	case r.URL.Path == "/v1/report":
		moveTimes(told, probes)
		code := http.StatusOK
		if told.Registry == nil {
			code = http.StatusServiceUnavailable
		}
		write(w, code, told)
	case r.URL.Path == "/v1/retirement-plan":
		before, err := strconv.Atoi(r.URL.Query().Get("before-version"))
		if err != nil {
			panic(err)
		}
		if planned != nil {
			planned(w, before)
			return
		}
		write(w, http.StatusOK, planOf(told, before))
	}
}

// moveTimes makes a report later, as every report is than the one before it.
func moveTimes(r *report.NodeReport, by time.Duration) {
	o := &r.Observations
	times := []*report.Time{&r.GeneratedAt, &o.Metadata.ProbedAt, &o.Metadata.ValidatedAt, &o.DeepProbe.ProbedAt, &o.State.ConfirmedAt}
	if o.Metadata.Seen != nil {
		times = append(times, &o.Metadata.Seen.At)
	}
	for _, t := range times {
		if at, ok := t.Time(); ok {
			*t = report.At(at.Add(by))
		}
	}
}

// planOf is the plan of a node: it removes nothing, so that it is well-formed for
// every version.
func planOf(r *report.NodeReport, before int) *report.RetirementPlan {
	return &report.RetirementPlan{
		APIVersion: report.APIVersion, Kind: report.KindRetirementPlan,
		BeforeVersion: before, RemovedVersions: []int{}, ActiveKeyIDHash: r.ActiveKey.KeyIDHash,
		StateHash: r.Registry.StateHash, NextGeneration: r.Registry.Generation, NextStateHash: r.Registry.StateHash,
	}
}

func write(w http.ResponseWriter, code int, document any) {
	doc, err := json.Marshal(document)
	if err != nil {
		panic(fmt.Sprintf("encoding a document: %v", err))
	}
	w.WriteHeader(code)
	_, _ = w.Write(append(doc, '\n'))
}
