package observe

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The states of the circuit breaker, as openbao_kms_circuit_breaker_state has
// them.
const (
	breakerClosed = iota
	breakerHalfOpen
	breakerOpen
)

// sourceCollector asks at each scrape for what changes by itself: what is left
// of the credentials, and the breaker. The sources are set when the connection to
// OpenBao is made, which is after the first scrapes; until then there is no
// series.
type sourceCollector struct {
	auth    atomic.Pointer[authSource]
	breaker atomic.Pointer[func() int]
}

type authSource struct {
	method                   string
	tokenTTL, certificateTTL func() (time.Duration, bool)
}

var (
	authMethodDesc     = describe("auth_method_info", "How the provider logs in to OpenBao; always 1.", "method")
	tokenTTLDesc       = describe("token_ttl_seconds", "Time until the OpenBao token ends; 0 when it has ended.")
	certificateTTLDesc = describe("certificate_ttl_seconds", "Time until the client certificate ends; 0 when it has ended.")
	breakerDesc        = describe("circuit_breaker_state", "Circuit breaker of calls to OpenBao: 0 closed, 1 half-open, 2 open.")
)

// WatchAuth lets the metrics tell how the provider logs in and how long its
// credentials last. method is "jwt" or "cert"; anything else reads "unknown".
// Both functions are called at each scrape, from any goroutine, and must not
// block. False means that the time is not known, and the metric has no series;
// a token that was lost is not unknown but has nothing left, so that an alert on
// a low value sees it. certificateTTL may be nil.
func (m *Metrics) WatchAuth(method string, tokenTTL, certificateTTL func() (time.Duration, bool)) {
	if !authMethods[method] {
		method = unknown
	}
	m.sources.auth.Store(&authSource{method, tokenTTL, certificateTTL})
}

// WatchBreaker lets the metrics tell the circuit breaker's state: 0 closed, 1
// half-open, 2 open. state is called at each scrape, from any goroutine, and must
// not block. A state that is none of these has no series.
func (m *Metrics) WatchBreaker(state func() int) { m.sources.breaker.Store(&state) }

// Describe is part of prometheus.Collector.
func (c *sourceCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{authMethodDesc, tokenTTLDesc, certificateTTLDesc, breakerDesc} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *sourceCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	left := func(d *prometheus.Desc, ttl func() (time.Duration, bool)) {
		if ttl == nil {
			return
		}
		if t, known := ttl(); known {
			gauge(d, max(0, t).Seconds())
		}
	}
	if a := c.auth.Load(); a != nil {
		gauge(authMethodDesc, 1, a.method)
		left(tokenTTLDesc, a.tokenTTL)
		left(certificateTTLDesc, a.certificateTTL)
	}
	if state := c.breaker.Load(); state != nil {
		switch s := (*state)(); s {
		case breakerClosed, breakerHalfOpen, breakerOpen:
			gauge(breakerDesc, float64(s))
		}
	}
}
