package observe

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/provider/version"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var testBuild = version.Info{Version: "v1.2.3", Commit: "abc", BuildDate: "2026-11-30T00:00:00Z", Dirty: true}

// scrape returns the exposition's lines.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	MetricsHandler(m).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("/metrics answers %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// ours keeps the provider's own metrics and blanks the one value that depends
// on the clock.
func ours(exposition string) string {
	var b strings.Builder
	for line := range strings.Lines(exposition) {
		if strings.Contains(line, namespace+"_") {
			b.WriteString(cacheAge.ReplaceAllString(line, "$1 AGE"))
		}
	}
	return b.String()
}

var cacheAge = regexp.MustCompile(`(?m)^(openbao_kms_status_cache_age_seconds) .*$`)

// series reports whether a scrape has exactly this line.
func series(exposition, line string) bool {
	return strings.Contains("\n"+exposition, "\n"+line+"\n")
}

func TestExposition(t *testing.T) {
	var board status.Board
	board.Store(kmstest.Healthy(kmstest.Registry(t)))
	m := NewMetrics(testBuild, &board)

	m.KMS().RequestStarted("Status")
	m.KMS().RequestDone("Status", codes.OK, fault.ClassNone, 200*time.Microsecond)
	m.KMS().RequestStarted("Decrypt")
	m.KMS().RequestDone("Decrypt", codes.InvalidArgument, fault.ClassAADMismatch, 2*time.Millisecond)
	m.KMS().RequestStarted("Encrypt")
	m.KMS().RequestRejected("Encrypt")
	m.OpenBao().RequestDone("transit_encrypt", "ok", 10*time.Millisecond)
	m.OpenBao().RequestDone("transit_decrypt", "openbao_sealed", 6*time.Second)
	m.LoginDone("auth_failed")
	m.RenewalDone("openbao_sealed")
	m.RecoveryDone("ok")
	m.MetadataObserved("upsert_allowed")
	m.SocketRestarted()
	m.WatchAuth("cert", ttl(90*time.Second), ttl(48*time.Hour))
	m.WatchBreaker(func() int { return 2 })

	got := scrape(t, m)
	golden(t, "exposition.golden", ours(got))
	for _, other := range []string{"go_goroutines", "process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds", "go_gc_duration_seconds_count"} {
		if !strings.Contains(got, "\n"+other) {
			t.Errorf("no %s: the Go or process collector is missing", other)
		}
	}
}

func ttl(d time.Duration) func() (time.Duration, bool) {
	return func() (time.Duration, bool) { return d, true }
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("%s differs; -update rewrites it. Got:\n%s", path, got)
	}
}

func TestBucketsResolveTheRange(t *testing.T) {
	if first, last := buckets[0], buckets[len(buckets)-1]; first != 0.0001 || last != 5 {
		t.Errorf("buckets go from %v to %v seconds, want 0.0001 to 5", first, last)
	}
	for i := 1; i < len(buckets); i++ {
		if ratio := buckets[i] / buckets[i-1]; ratio <= 1 || ratio > 2.51 {
			t.Errorf("bucket %v follows %v", buckets[i], buckets[i-1])
		}
	}
}

// The gauges of the key are read from the view at each scrape: the old series
// are gone at once.
func TestViewMetricsFollowTheView(t *testing.T) {
	var board status.Board
	m := NewMetrics(testBuild, &board)

	got := scrape(t, m)
	for _, absent := range []string{"status_key_id_hash", "key_version", "registry_generation", "status_cache_age_seconds"} {
		if strings.Contains(got, namespace+"_"+absent) {
			t.Errorf("%s has a value before there is a view", absent)
		}
	}
	if !series(got, `openbao_kms_rotation_state{state="unknown"} 1`) || !series(got, `openbao_kms_rotation_persistence_degraded 0`) {
		t.Errorf("before a view:\n%s", ours(got))
	}
	if !series(got, `openbao_kms_ready 0`) || !series(got, `openbao_kms_unready_reason{reason="starting"} 1`) {
		t.Errorf("before a view it is not starting:\n%s", ours(got))
	}

	r := kmstest.Bootstrapped(t)
	board.Store(kmstest.Healthy(r))
	first := r.Active().Binding.KeyIDHash()
	got = scrape(t, m)
	for _, want := range []string{
		`openbao_kms_status_key_id_hash{hash="` + first + `"} 1`, `openbao_kms_key_version 1`,
		`openbao_kms_registry_generation 1`, `openbao_kms_rotation_state{state="active"} 1`, `openbao_kms_ready 1`,
	} {
		if !series(got, want) {
			t.Errorf("no %s in:\n%s", want, ours(got))
		}
	}

	if strings.Contains(got, "openbao_kms_unready_reason") {
		t.Errorf("a healthy provider has a reason:\n%s", ours(got))
	}

	r = kmstest.Observed(t, r)
	facts := kmstest.Facts(r)
	facts.Persistence.Degraded = true
	facts.Metadata.ValidatedAt = time.Now().Add(-time.Hour)
	board.Store(status.New(facts))
	got = scrape(t, m)
	for _, want := range []string{
		`openbao_kms_key_version 1`, `openbao_kms_registry_generation 2`,
		`openbao_kms_rotation_state{state="pending"} 1`, `openbao_kms_rotation_persistence_degraded 1`,
		`openbao_kms_ready 0`, `openbao_kms_unready_reason{reason="status_stale"} 1`,
	} {
		if !series(got, want) {
			t.Errorf("no %s in:\n%s", want, ours(got))
		}
	}
	if !regexp.MustCompile(`(?m)^openbao_kms_status_cache_age_seconds 360\d\.`).MatchString(got) {
		t.Errorf("the cache is not an hour old in:\n%s", ours(got))
	}
	if strings.Count(got, "openbao_kms_rotation_state{") != 1 {
		t.Errorf("more than one rotation state in:\n%s", ours(got))
	}

	r = kmstest.Promoted(t, r)
	board.Store(kmstest.Healthy(r))
	got = scrape(t, m)
	if strings.Contains(got, first) || !series(got, `openbao_kms_status_key_id_hash{hash="`+r.Active().Binding.KeyIDHash()+`"} 1`) {
		t.Errorf("the promoted key's hash is not the only one in:\n%s", ours(got))
	}
	if strings.Contains(got, r.Active().KeyID) {
		t.Error("a raw key_id is exported")
	}
}

func TestKMSMetrics(t *testing.T) {
	m := NewMetrics(testBuild, &status.Board{})
	k := m.KMS()
	for range 3 {
		k.RequestStarted("Encrypt")
	}
	k.RequestDone("Encrypt", codes.Internal, fault.ClassPanic, time.Millisecond)
	k.RequestRejected("Decrypt")
	for _, class := range []fault.Class{fault.ClassAADMissing, fault.ClassAnnotationInvalid, fault.ClassKeyIDMalformed, fault.ClassKeyIDUnknown, fault.ClassMetadataRefresh} {
		k.RequestStarted("Decrypt")
		k.RequestDone("Decrypt", codes.InvalidArgument, class, time.Millisecond)
	}
	// The same class of another method is no Decrypt error.
	k.RequestStarted("Status")
	k.RequestDone("Status", codes.Code(99), fault.ClassKeyIDUnknown, time.Millisecond)
	got := scrape(t, m)
	for _, want := range []string{
		`openbao_kms_grpc_in_flight{method="Encrypt"} 2`,
		`openbao_kms_grpc_in_flight{method="Decrypt"} 0`,
		`openbao_kms_panic_recoveries_total{method="Encrypt"} 1`,
		`openbao_kms_panic_recoveries_total{method="Decrypt"} 0`,
		`openbao_kms_grpc_concurrency_rejections_total{method="Decrypt"} 1`,
		`openbao_kms_grpc_requests_total{method="Decrypt",status="ResourceExhausted"} 1`,
		`openbao_kms_grpc_requests_total{method="Decrypt",status="InvalidArgument"} 5`,
		`openbao_kms_grpc_requests_total{method="Encrypt",status="Internal"} 1`,
		`openbao_kms_grpc_requests_total{method="Status",status="Unknown"} 1`,
		`openbao_kms_grpc_duration_seconds_count{method="Decrypt"} 5`,
		`openbao_kms_aad_validation_errors_total{reason="aad_missing"} 1`,
		`openbao_kms_aad_validation_errors_total{reason="annotation_invalid"} 1`,
		`openbao_kms_aad_validation_errors_total{reason="aad_mismatch"} 0`,
		`openbao_kms_decrypt_key_id_errors_total{reason="key_id_malformed"} 1`,
		`openbao_kms_decrypt_key_id_errors_total{reason="key_id_unknown"} 1`,
		`openbao_kms_decrypt_key_id_errors_total{reason="key_metadata_refresh_failed"} 1`,
	} {
		if !series(got, want) {
			t.Errorf("no %s in:\n%s", want, ours(got))
		}
	}
}

// Labels stay within their lists whatever a caller says.
func TestLabelsAreBounded(t *testing.T) {
	m := NewMetrics(testBuild, &status.Board{})
	m.OpenBao().RequestDone("v1/secret-mount/encrypt", "vault says no", time.Millisecond)
	m.OpenBao().RequestDone("jwt_login", "vault says no", time.Millisecond)
	m.LoginDone("role secret-role not found")
	m.RenewalDone("role secret-role not found")
	m.RecoveryDone("role secret-role not found")
	m.WatchAuth("secret-mount", ttl(time.Second), nil)
	m.MetadataObserved("secret-mount")
	got := scrape(t, m)
	if strings.Contains(got, "secret") || strings.Contains(got, "vault says") {
		t.Errorf("free text is a label in:\n%s", ours(got))
	}
	for _, want := range []string{
		`openbao_kms_openbao_requests_total{operation="unknown",status="unknown"} 1`,
		`openbao_kms_openbao_requests_total{operation="jwt_login",status="unknown"} 1`,
		`openbao_kms_auth_login_total{status="unknown"} 1`,
		`openbao_kms_auth_renewal_total{status="unknown"} 1`,
		`openbao_kms_auth_recovery_total{status="unknown"} 1`,
		`openbao_kms_auth_method_info{method="unknown"} 1`,
		`openbao_kms_transit_metadata_observation_total{status="unknown"} 1`,
	} {
		if !series(got, want) {
			t.Errorf("no %s in:\n%s", want, ours(got))
		}
	}
}

func TestErrorClassesOfTheTableAreLabels(t *testing.T) {
	for c := fault.Cause(0); c < 100; c++ {
		if class := string(c.Class()); class != "" && okOrClass(class) != class {
			t.Errorf("cause %d has class %q, which is no label", c, class)
		}
	}
}

func BenchmarkRequestDone(b *testing.B) {
	k := NewMetrics(testBuild, &status.Board{}).KMS()
	b.ReportAllocs()
	for b.Loop() {
		k.RequestStarted("Encrypt")
		k.RequestDone("Encrypt", codes.OK, fault.ClassNone, time.Millisecond)
	}
}
