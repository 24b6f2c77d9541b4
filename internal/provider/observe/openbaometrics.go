package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// operations are all requests that the provider ever sends to OpenBao (design:
// observability, metrics).
var operations = []string{
	"jwt_login", "cert_login", "token_renew_self", "transit_metadata_read", "transit_disable_upsert_read",
	"transit_encrypt", "transit_decrypt", "capabilities_self",
}

// OpenBaoMetrics count requests to OpenBao. The map is filled once and only
// read afterwards.
type OpenBaoMetrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec

	byOperation map[string]operationMetrics
}

type operationMetrics struct {
	name      string
	succeeded prometheus.Counter
	duration  prometheus.Observer
}

func newOpenBaoMetrics() *OpenBaoMetrics {
	m := &OpenBaoMetrics{
		requests:    counters("openbao_requests_total", "Requests to OpenBao by operation and outcome: ok or an error class.", "operation", "status"),
		durations:   histograms("openbao_duration_seconds", "Time that OpenBao took to answer.", "operation"),
		byOperation: make(map[string]operationMetrics, len(operations)),
	}
	for _, name := range operations {
		m.byOperation[name] = m.resolve(name)
	}
	return m
}

func (m *OpenBaoMetrics) resolve(operation string) operationMetrics {
	return operationMetrics{
		name:      operation,
		succeeded: m.requests.WithLabelValues(operation, ok),
		duration:  m.durations.WithLabelValues(operation),
	}
}

func (m *OpenBaoMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.durations}
}

// RequestDone counts one request to OpenBao that ended after took.
// operation is one of design/observability's, status is "ok" or an error class;
// anything else counts as "unknown".
func (m *OpenBaoMetrics) RequestDone(operation, status string, took time.Duration) {
	om, known := m.byOperation[operation]
	if !known {
		om = m.resolve(unknown)
	}
	om.duration.Observe(took.Seconds())
	if status == ok {
		om.succeeded.Inc()
		return
	}
	m.requests.WithLabelValues(om.name, okOrClass(status)).Inc()
}
