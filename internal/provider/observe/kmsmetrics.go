package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/internal/provider/fault"
)

// The KMS v2 methods, by their index in KMSMetrics.
const (
	methodStatus = iota
	methodEncrypt
	methodDecrypt
	methodCount
)

var methodNames = [methodCount]string{"Status", "Encrypt", "Decrypt"}

func methodIndex(method string) int {
	switch method {
	case "Encrypt":
		return methodEncrypt
	case "Decrypt":
		return methodDecrypt
	}
	return methodStatus
}

// codeCount is the number of gRPC codes.
const codeCount = int(codes.Unauthenticated) + 1

// KMSMetrics count what the KMS service does. The children of every method and
// code are resolved once, so a request looks nothing up.
type KMSMetrics struct {
	requests   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	inFlight   *prometheus.GaugeVec
	rejections *prometheus.CounterVec
	panics     *prometheus.CounterVec
	aadErrors  *prometheus.CounterVec
	keyIDs     *prometheus.CounterVec

	methods [methodCount]methodMetrics
}

type methodMetrics struct {
	requests   [codeCount]prometheus.Counter
	duration   prometheus.Observer
	inFlight   prometheus.Gauge
	rejections prometheus.Counter
	panics     prometheus.Counter
}

func newKMSMetrics() *KMSMetrics {
	m := &KMSMetrics{
		requests:   counters("grpc_requests_total", "KMS v2 requests by method and gRPC code.", "method", "status"),
		durations:  histograms("grpc_duration_seconds", "Time to answer a KMS v2 request.", "method"),
		inFlight:   gauges("grpc_in_flight", "KMS v2 requests being answered.", "method"),
		rejections: counters("grpc_concurrency_rejections_total", "KMS v2 requests refused because the method's cap was reached.", "method"),
		panics:     counters("panic_recoveries_total", "Panics that were turned into an Internal error.", "method"),
		aadErrors:  counters("aad_validation_errors_total", "Decrypt requests whose annotations or associated data were refused.", "reason"),
		keyIDs:     counters("decrypt_key_id_errors_total", "Decrypt requests whose key_id was refused.", "reason"),
	}
	for i, name := range methodNames {
		mm := &m.methods[i]
		for code := range codeCount {
			mm.requests[code] = m.requests.WithLabelValues(name, codes.Code(code).String())
		}
		mm.duration = m.durations.WithLabelValues(name)
		mm.inFlight = m.inFlight.WithLabelValues(name)
		mm.rejections = m.rejections.WithLabelValues(name)
		mm.panics = m.panics.WithLabelValues(name)
	}
	for _, class := range aadClasses {
		m.aadErrors.WithLabelValues(string(class))
	}
	for _, class := range keyIDClasses {
		m.keyIDs.WithLabelValues(string(class))
	}
	return m
}

// The classes that the two Decrypt error counters split by.
var (
	aadClasses   = []fault.Class{fault.ClassAADMissing, fault.ClassAADMismatch, fault.ClassAnnotationInvalid}
	keyIDClasses = []fault.Class{fault.ClassKeyIDMalformed, fault.ClassKeyIDUnknown, fault.ClassMetadataRefresh}
)

func (m *KMSMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.durations, m.inFlight, m.rejections, m.panics, m.aadErrors, m.keyIDs}
}

// RequestStarted counts a request in flight. method is Status, Encrypt or
// Decrypt; a RequestDone must follow.
func (m *KMSMetrics) RequestStarted(method string) {
	m.methods[methodIndex(method)].inFlight.Inc()
}

// RequestRejected counts a request that met the method's cap and was never
// started.
func (m *KMSMetrics) RequestRejected(method string) {
	mm := &m.methods[methodIndex(method)]
	mm.rejections.Inc()
	mm.requests[codes.ResourceExhausted].Inc()
}

// RequestDone counts a started request that was answered with code after took.
// class is empty for a success.
func (m *KMSMetrics) RequestDone(method string, code codes.Code, class fault.Class, took time.Duration) {
	mm := &m.methods[methodIndex(method)]
	mm.inFlight.Dec()
	mm.duration.Observe(took.Seconds())
	if int(code) >= codeCount {
		code = codes.Unknown
	}
	mm.requests[code].Inc()
	if class != fault.ClassNone {
		m.failed(mm, method, class)
	}
}

func (m *KMSMetrics) failed(mm *methodMetrics, method string, class fault.Class) {
	if class == fault.ClassPanic {
		mm.panics.Inc()
	}
	if methodIndex(method) != methodDecrypt {
		return
	}
	switch class {
	case fault.ClassAADMissing, fault.ClassAADMismatch, fault.ClassAnnotationInvalid:
		m.aadErrors.WithLabelValues(string(class)).Inc()
	case fault.ClassKeyIDMalformed, fault.ClassKeyIDUnknown, fault.ClassMetadataRefresh:
		m.keyIDs.WithLabelValues(string(class)).Inc()
	}
}
