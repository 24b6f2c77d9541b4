package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baokms/baokms/internal/provider/status"
)

// Views gives the current status view, never nil. *status.Board is one.
type Views interface{ Load() *status.View }

// viewCollector turns the current view into metrics at each scrape. What is not
// known yet has no series: a zero would look like an answer.
type viewCollector struct{ views Views }

var (
	readyDesc      = describe("ready", "1 while the provider is healthy: what Status and /ready answer.")
	unreadyDesc    = describe("unready_reason", "Reasons why the provider is not healthy; always 1.", "reason")
	keyIDHashDesc  = describe("status_key_id_hash", "Hash of the active key_id; always 1.", "hash")
	keyVersionDesc = describe("key_version", "Active Transit key version.")
	cacheAgeDesc   = describe("status_cache_age_seconds", "Time since metadata was last validated.")
	rotationDesc   = describe("rotation_state", "State of the key's rotation; always 1.", "state")
	generationDesc = describe("registry_generation", "Generation of the published key registry.")
	degradedDesc   = describe("rotation_persistence_degraded", "1 while a failed save of the key registry is outstanding.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// Describe is part of prometheus.Collector.
func (c *viewCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{readyDesc, unreadyDesc, keyIDHashDesc, keyVersionDesc, cacheAgeDesc, rotationDesc, generationDesc, degradedDesc} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *viewCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	v := c.views.Load()
	verdict := v.Judge(time.Now())
	gauge(readyDesc, number(verdict.Healthy))
	for _, reason := range verdict.Reasons {
		gauge(unreadyDesc, 1, okOrReason(string(reason)))
	}
	if r := v.Registry(); r != nil {
		active := r.Active()
		gauge(keyIDHashDesc, 1, active.Binding.KeyIDHash())
		gauge(keyVersionDesc, float64(active.TransitVersion))
		gauge(generationDesc, float64(r.Generation()))
	}
	if !v.Facts().Metadata.ValidatedAt.IsZero() {
		gauge(cacheAgeDesc, verdict.Age.Seconds())
	}
	gauge(rotationDesc, 1, v.RotationState())
	gauge(degradedDesc, number(v.Facts().Persistence.Degraded))
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
