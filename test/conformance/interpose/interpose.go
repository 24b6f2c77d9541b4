// Package interpose stands between a provider and a real Transit: a loopback HTTPS server that passes every request on, except where a
// test holds one back or answers it itself. So a test can make OpenBao slow or wrong at a chosen moment, which a real server cannot be
// made to be, while everything else stays real (design: testing, real servers).
//
// It imitates nothing of Transit: what it does not pass on, the test has written. It keeps and logs no body. Only tests use it.
package interpose

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Upstream is the server that requests are passed on to.
type Upstream struct {
	// Address is its URL.
	Address string
	// Roots and ServerName are what its certificate is held against.
	Roots      *x509.CertPool
	ServerName string
	// Certificate is what the proxy shows instead: from an authority that the provider trusts, for a name that it expects.
	Certificate tls.Certificate
}

// Proxy is a running one. Its methods may be called from many goroutines at once.
type Proxy struct {
	server   *httptest.Server
	upstream string
	client   *http.Transport
	// ended is closed first when the test ends: what is held then goes on.
	ended chan struct{}

	mu       sync.Mutex
	rules    []*rule
	observer func(r *http.Request, body []byte)
}

// rule is one exception from passing on.
type rule struct {
	// part is what the path must contain.
	part string
	// left is how many requests it still applies to; negative for any number.
	left  int
	serve func(w http.ResponseWriter, r *http.Request, pass func())
}

// Start starts a proxy that ends with the test.
func Start(t testing.TB, u Upstream) *Proxy {
	t.Helper()
	p := &Proxy{
		upstream: strings.TrimSuffix(u.Address, "/"),
		client:   &http.Transport{TLSClientConfig: &tls.Config{RootCAs: u.Roots, ServerName: u.ServerName}},
		ended:    make(chan struct{}),
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.TLS = &tls.Config{Certificates: []tls.Certificate{u.Certificate}}
	// A client that gives up, or does not like the certificate, is part of what is tested.
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.StartTLS()
	t.Cleanup(func() {
		close(p.ended)
		p.server.Close()
		p.client.CloseIdleConnections()
	})
	return p
}

// Stop closes the port and every connection, as a server that ends does. Nothing listens there then.
func (p *Proxy) Stop() {
	_ = p.server.Listener.Close()
	p.server.CloseClientConnections()
}

// Address is the proxy's URL.
func (p *Proxy) Address() string { return p.server.URL }

// ServeHTTP is part of http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The body is read first: only then does the server notice that the client has gone.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	observer := p.observer
	p.mu.Unlock()
	if observer != nil {
		observer(r, body)
	}
	pass := func() { p.pass(w, r, body) }
	r.Body = io.NopCloser(bytes.NewReader(body))
	if rule := p.take(r.URL.Path); rule != nil {
		rule.serve(w, r, pass)
		return
	}
	pass()
}

// take finds the newest rule for a path and uses one of its times.
func (p *Proxy) take(path string) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.rules) - 1; i >= 0; i-- {
		r := p.rules[i]
		if r.left == 0 || !strings.Contains(path, r.part) {
			continue
		}
		if r.left > 0 {
			r.left--
		}
		return r
	}
	return nil
}

// pass sends the request on and copies the answer. A server that cannot be reached is a connection that breaks.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, body []byte) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.upstream+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out.Header = r.Header.Clone()
	answer, err := p.client.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

func (p *Proxy) add(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
}

// Handle lets h answer the next requests whose path contains part, as many as times says; a negative number is all from now on. The
// newest rule for a path wins.
func (p *Proxy) Handle(part string, times int, h http.HandlerFunc) {
	p.add(&rule{part: part, left: times, serve: func(w http.ResponseWriter, r *http.Request, _ func()) { h(w, r) }})
}

// Override lets h answer every request whose path contains part until end is called.
func (p *Proxy) Override(part string, h http.HandlerFunc) (end func()) {
	r := &rule{part: part, left: -1, serve: func(w http.ResponseWriter, r *http.Request, _ func()) { h(w, r) }}
	p.add(r)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		r.left = 0
	}
}

// Observe lets a test see every request from now on before anything is done with it. It must not change it or keep the body.
func (p *Proxy) Observe(observer func(r *http.Request, body []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observer = observer
}

// Answer answers the next requests whose path contains part with a status and a body, as Handle does.
func (p *Proxy) Answer(part string, times, status int, body string) {
	p.Handle(part, times, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// Held are requests that wait.
type Held struct {
	rule     *rule
	proxy    *Proxy
	released chan struct{}
	release  sync.Once

	mu      sync.Mutex
	waiting int
}

// Hold keeps the next requests whose path contains part waiting, as many as times says; a negative number is all from now on. Those whose
// client goes away are dropped, the others are passed on by Release.
func (p *Proxy) Hold(part string, times int) *Held {
	h := &Held{proxy: p, released: make(chan struct{})}
	h.rule = &rule{part: part, left: times, serve: h.serve}
	p.add(h.rule)
	return h
}

func (h *Held) serve(_ http.ResponseWriter, r *http.Request, pass func()) {
	h.count(1)
	defer h.count(-1)
	select {
	case <-h.released:
		pass()
	case <-r.Context().Done():
	case <-h.proxy.ended:
	}
}

func (h *Held) count(by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting += by
}

// Waiting is how many requests wait now.
func (h *Held) Waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}

// Await waits until so many requests wait.
func (h *Held) Await(ctx context.Context, n int) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for h.Waiting() != n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d requests are held back, %d were expected: %w", h.Waiting(), n, ctx.Err())
		case <-ticker.C:
		}
	}
	return nil
}

// Release passes on what waits and holds nothing more. It may be called more than once.
func (h *Held) Release() {
	h.release.Do(func() {
		h.proxy.mu.Lock()
		h.rule.left = 0
		h.proxy.mu.Unlock()
		close(h.released)
	})
}

// Large is a JSON answer of at least so many bytes that goes on beyond them.
func Large(bytes int) string {
	return `{"data":{"filler":"` + strings.Repeat("A", bytes) + `"}}`
}

// LoadCertificate reads the pair of PEM files that a proxy shows.
func LoadCertificate(certFile, keyFile string) (tls.Certificate, error) {
	return tls.LoadX509KeyPair(certFile, keyFile)
}
