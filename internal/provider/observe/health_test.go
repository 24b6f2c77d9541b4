package observe

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
	"github.com/baokms/baokms/internal/provider/status"
)

// get asks a handler and returns the code and the JSON object.
func get(t *testing.T, h http.Handler, path string) (int, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		t.Fatalf("%s is %q (%d %s), want JSON", path, ct, w.Code, w.Body)
	}
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	return w.Code, got
}

func TestReady(t *testing.T) {
	type object = map[string]any
	type list = []any
	r := kmstest.Bootstrapped(t)
	pending := kmstest.Observed(t, r)
	cases := []struct {
		name string
		view func() *status.View
		age  time.Duration
		code int
		want object
	}{
		{
			name: "no view yet",
			code: 503,
			want: object{"status": "not_ready", "healthz": "starting", "cache_age_ms": nil, "stale": false, "rotation_state": "unknown", "reasons": list{"starting"}},
		},
		{
			name: "healthy",
			view: func() *status.View { return kmstest.Healthy(r) },
			age:  1500 * time.Millisecond,
			code: 200,
			want: object{"status": "ready", "healthz": "ok", "cache_age_ms": 1500.0, "stale": false, "rotation_state": "active", "reasons": list{}},
		},
		{
			name: "healthy with a degraded persistence",
			view: func() *status.View {
				f := kmstest.Facts(pending)
				f.Persistence.Degraded = true
				return status.New(f)
			},
			code: 200,
			want: object{"status": "ready", "healthz": "ok", "cache_age_ms": 0.0, "stale": false, "rotation_state": "pending", "reasons": list{}, "persistence_degraded": true},
		},
		{
			name: "at the edge of staleness",
			view: func() *status.View { return kmstest.Healthy(r) },
			age:  kmstest.MaxStaleness,
			code: 200,
			want: object{"status": "ready", "healthz": "ok", "cache_age_ms": 120000.0, "stale": false, "rotation_state": "active", "reasons": list{}},
		},
		{
			name: "stale",
			view: func() *status.View { return kmstest.Healthy(r) },
			age:  kmstest.MaxStaleness + time.Millisecond,
			code: 503,
			want: object{"status": "not_ready", "healthz": "status_stale", "cache_age_ms": 120001.0, "stale": true, "rotation_state": "active", "reasons": list{"status_stale"}},
		},
		{
			name: "both probes failed",
			view: func() *status.View {
				f := kmstest.Facts(r)
				f.Metadata.Reason, f.Metadata.Class = status.MetadataReadFailed, fault.ClassOpenBaoSealed
				f.Deep.Reason, f.Deep.Class = status.DeepProbeFailed, fault.ClassTimeout
				return status.New(f)
			},
			age:  time.Second,
			code: 503,
			want: object{"status": "not_ready", "healthz": "metadata_read_failed", "cache_age_ms": 1000.0, "stale": false, "rotation_state": "active",
				"reasons": list{"metadata_read_failed", "deep_probe_failed"}, "metadata_error_class": "openbao_sealed", "deep_error_class": "timeout"},
		},
		{
			name: "save failed",
			view: func() *status.View {
				f := kmstest.Facts(r)
				f.Persistence = status.Persistence{Reason: status.StateSaveFailed, Degraded: true}
				return status.New(f)
			},
			code: 503,
			want: object{"status": "not_ready", "healthz": "state_save_failed", "cache_age_ms": 0.0, "stale": false, "rotation_state": "active",
				"reasons": list{"state_save_failed"}, "persistence_degraded": true},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var board status.Board
				if c.view != nil {
					board.Store(c.view())
				}
				time.Sleep(c.age) // synthetic time
				code, got := get(t, HealthHandler(&board), "/ready")
				if code != c.code || !reflect.DeepEqual(got, c.want) {
					t.Errorf("/ready = %d %v,\nwant %d %v", code, got, c.code, c.want)
				}
				if code, got := get(t, HealthHandler(&board), "/live"); code != 200 || !reflect.DeepEqual(got, object{"status": "live"}) {
					t.Errorf("/live = %d %v, want 200 whatever /ready says", code, got)
				}
			})
		})
	}
}

func TestReadyShowsNoIdentity(t *testing.T) {
	r := kmstest.Bootstrapped(t)
	var board status.Board
	board.Store(kmstest.Healthy(r))
	w := httptest.NewRecorder()
	HealthHandler(&board).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
	for _, secret := range []string{r.Active().KeyID, kmstest.Scope.TransitMountID, kmstest.Scope.KeyLineageID} {
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("/ready holds %q:\n%s", secret, w.Body)
		}
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q, want no-store", got)
	}
}
