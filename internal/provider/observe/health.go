package observe

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/status"
)

// readiness is the answer of /ready (design: observability, endpoints).
type readiness struct {
	// Status is "ready" or "not_ready".
	Status string `json:"status"`
	// Healthz is what the KMS Status answers: "ok" or the first reason.
	Healthz string `json:"healthz"`
	// CacheAgeMS is how long ago metadata was validated, in milliseconds; null
	// if it never was.
	CacheAgeMS *int64 `json:"cache_age_ms"`
	// Stale is set when that is longer ago than status.statusMaxStaleness.
	Stale bool `json:"stale"`
	// RotationState is "active", "pending" or "unknown".
	RotationState string `json:"rotation_state"`
	// Reasons say why the provider is not ready; never null.
	Reasons []status.Reason `json:"reasons"`
	// The classes of the last failed probes, while they have failed.
	MetadataErrorClass fault.Class `json:"metadata_error_class,omitempty"`
	DeepErrorClass     fault.Class `json:"deep_error_class,omitempty"`
	// PersistenceDegraded is set while a failed save is outstanding.
	PersistenceDegraded bool `json:"persistence_degraded,omitempty"`
}

// readinessOf judges a view at a moment.
func readinessOf(v *status.View, now time.Time) readiness {
	verdict, facts := v.Judge(now), v.Facts()
	r := readiness{
		Status:              "ready",
		Healthz:             ok,
		Stale:               verdict.Stale,
		RotationState:       v.RotationState(),
		Reasons:             []status.Reason{},
		MetadataErrorClass:  facts.Metadata.Class,
		DeepErrorClass:      facts.Deep.Class,
		PersistenceDegraded: facts.Persistence.Degraded,
	}
	if !facts.Metadata.ValidatedAt.IsZero() {
		age := verdict.Age.Milliseconds()
		r.CacheAgeMS = &age
	}
	if !verdict.Healthy {
		r.Status = "not_ready"
		r.Healthz = string(verdict.Reasons[0])
		r.Reasons = verdict.Reasons
	}
	return r
}

// HealthHandler serves /live and /ready. /live is 200 as long as the process
// answers; /ready is 200 or 503 after the current view.
func HealthHandler(views Views) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "live"})
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		r := readinessOf(views.Load(), time.Now())
		code := http.StatusOK
		if r.Status != "ready" {
			code = http.StatusServiceUnavailable
		}
		writeJSON(w, code, r)
	})
	return mux
}

// MetricsHandler serves /metrics.
func MetricsHandler(m *Metrics) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.handler())
	return mux
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "the answer cannot be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// A reader that went away is no concern of ours.
	_, _ = w.Write(append(b, '\n'))
}
