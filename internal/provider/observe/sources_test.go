package observe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/status"
)

func TestCredentialsAreAskedAtEachScrape(t *testing.T) {
	m := NewMetrics(testBuild, &status.Board{})
	for _, name := range []string{"auth_method_info", "token_ttl_seconds", "certificate_ttl_seconds", "circuit_breaker_state"} {
		if got := scrape(t, m); strings.Contains(got, namespace+"_"+name) {
			t.Errorf("%s has a value before anything is watched:\n%s", name, ours(got))
		}
	}
	type left struct {
		d     time.Duration
		known bool
	}
	var token, certificate left
	m.WatchAuth("cert",
		func() (time.Duration, bool) { return token.d, token.known },
		func() (time.Duration, bool) { return certificate.d, certificate.known })
	cases := []struct {
		token, certificate left
		want               string
		absent             string
	}{
		{left{time.Minute, false}, left{time.Minute, false}, `openbao_kms_auth_method_info{method="cert"} 1`, "ttl_seconds"},
		{left{90 * time.Second, true}, left{}, `openbao_kms_token_ttl_seconds 90`, "certificate_ttl_seconds"},
		{left{1500 * time.Millisecond, true}, left{36 * time.Hour, true}, `openbao_kms_certificate_ttl_seconds 129600`, "token_ttl_seconds 1\n"},
		{left{0, true}, left{-time.Hour, true}, `openbao_kms_token_ttl_seconds 0`, "ttl_seconds -"},
		{left{}, left{-time.Hour, true}, `openbao_kms_certificate_ttl_seconds 0`, "token_ttl"},
	}
	for _, c := range cases {
		token, certificate = c.token, c.certificate
		got := scrape(t, m)
		if !series(got, c.want) || strings.Contains(got, c.absent) {
			t.Errorf("token %v, certificate %v: want %s and no %s in:\n%s", c.token, c.certificate, c.want, c.absent, ours(got))
		}
	}
	m.WatchAuth("jwt", func() (time.Duration, bool) { return time.Second, true }, nil)
	got := scrape(t, m)
	if !series(got, `openbao_kms_auth_method_info{method="jwt"} 1`) || !series(got, `openbao_kms_token_ttl_seconds 1`) ||
		strings.Contains(got, "certificate_ttl") || strings.Contains(got, `method="cert"`) {
		t.Errorf("with jwt:\n%s", ours(got))
	}
}

func TestBreakerState(t *testing.T) {
	m := NewMetrics(testBuild, &status.Board{})
	var state int
	m.WatchBreaker(func() int { return state })
	for state = range 3 {
		if got := scrape(t, m); !series(got, fmt.Sprintf("openbao_kms_circuit_breaker_state %d", state)) {
			t.Errorf("state %d is exported as:\n%s", state, ours(got))
		}
	}
	for _, state = range []int{-1, 3} {
		if got := scrape(t, m); strings.Contains(got, "circuit_breaker_state") {
			t.Errorf("state %d, which is none, is exported:\n%s", state, ours(got))
		}
	}
}

// A defect in what a scrape asks must fail the scrape and not the process.
func TestAPanicFailsTheScrape(t *testing.T) {
	broken := true
	m := NewMetrics(testBuild, &status.Board{})
	m.WatchBreaker(func() int {
		if broken {
			panic(canary)
		}
		return 0
	})
	w := httptest.NewRecorder()
	MetricsHandler(m).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), canary) || !strings.Contains(w.Body.String(), "report this as a defect") {
		t.Errorf("/metrics answers %d: %s; want 500 that says what to do and not the panic's value", w.Code, w.Body)
	}
	broken = false
	if got := scrape(t, m); !series(got, "openbao_kms_circuit_breaker_state 0") {
		t.Errorf("after the defect is gone:\n%s", ours(got))
	}
}
