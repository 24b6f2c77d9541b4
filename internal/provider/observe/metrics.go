package observe

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/baokms/baokms/internal/provider/version"
)

const namespace = "openbao_kms"

// buckets resolve 100 µs to 5 s: from a Status to openbao.timeout and beyond.
var buckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}

// Metrics are all metrics of one provider, in a registry of their own (design:
// observability, metrics). Its methods are safe for concurrent use and never
// block.
type Metrics struct {
	registry *prometheus.Registry

	kms     *KMSMetrics
	openbao *OpenBaoMetrics
	auth    authMetrics
	sources sourceCollector

	metadata       *prometheus.CounterVec
	socketRestarts prometheus.Counter
}

// NewMetrics makes the metrics. Those that describe the key and its rotation are
// read from views when they are scraped, so they cannot differ from what Status
// answers.
func NewMetrics(build version.Info, views Views) *Metrics {
	m := &Metrics{
		registry:       prometheus.NewRegistry(),
		auth:           newAuthMetrics(),
		metadata:       counters("transit_metadata_observation_total", "Metadata probes by outcome: ok or a reason code.", "status"),
		socketRestarts: counter("socket_restarts_total", "Sockets of an earlier process that were found unserved and removed."),
	}
	m.kms = newKMSMetrics()
	m.openbao = newOpenBaoMetrics()
	for _, status := range append(slices.Sorted(maps.Keys(reasons)), ok) {
		m.metadata.WithLabelValues(status)
	}

	m.registry.MustRegister(
		buildInfo(build), m.metadata, m.socketRestarts,
		guarded{&viewCollector{views: views}, readyDesc},
		guarded{&m.sources, breakerDesc},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.registry.MustRegister(m.kms.all()...)
	m.registry.MustRegister(m.openbao.all()...)
	m.registry.MustRegister(m.auth.all()...)
	return m
}

// handler serves the metrics in Prometheus' formats.
func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// KMS is what the KMS service reports to.
func (m *Metrics) KMS() *KMSMetrics { return m.kms }

// OpenBao is what the connection to OpenBao reports to.
func (m *Metrics) OpenBao() *OpenBaoMetrics { return m.openbao }

// MetadataObserved counts one metadata probe: status is "ok" or a reason code,
// anything else counts as "unknown".
func (m *Metrics) MetadataObserved(status string) {
	m.metadata.WithLabelValues(okOrReason(status)).Inc()
}

// SocketRestarted counts the removal of a socket that nobody served.
func (m *Metrics) SocketRestarted() { m.socketRestarts.Inc() }

// guarded turns a panic while collecting into a failed scrape. The Prometheus
// library collects in goroutines of its own, where a panic would end the
// provider and with it this node's decryption.
type guarded struct {
	prometheus.Collector
	desc *prometheus.Desc // one of the collector's
}

// Collect is part of prometheus.Collector. The panic's value may hold anything
// and is dropped.
func (g guarded) Collect(ch chan<- prometheus.Metric) {
	defer func() {
		if recover() != nil {
			ch <- prometheus.NewInvalidMetric(g.desc, errors.New("a panic while collecting: report this as a defect"))
		}
	}()
	g.Collector.Collect(ch)
}

func buildInfo(b version.Info) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "The running binary; always 1.",
		ConstLabels: prometheus.Labels{
			"version": b.Version, "commit": b.Commit, "build_date": b.BuildDate, "dirty": strconv.FormatBool(b.Dirty),
		},
	})
	g.Set(1)
	return g
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}
