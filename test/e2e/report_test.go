package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/report"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// TestNodeReport: what the report socket tells through a rotation is what the
// state file, readiness and OpenBao say, and nothing can be changed through it.
func TestNodeReport(t *testing.T) {
	t.Parallel()
	tr := transit(t)
	p := stacktest.Provider(t, binary(t), tr, stack.ProviderConfig{Fields: map[string]any{
		"status.probeInterval": "200ms", "rotation.activationDelay": "8s", "rotation.requireStableObservationCount": 2,
	}})
	eventuallyReady(t, p)
	socket := reportClient(p)
	if info, err := os.Stat(p.Files.ReportSocket); err != nil || info.Mode() != os.ModeSocket|0o660 {
		t.Errorf("the report socket is %v, %v; want mode 0660", info.Mode(), err)
	}

	first := nodeReport(t, socket)
	state := registryOf(t, p)
	if !first.Readiness.Ready || first.Registry.StateHash != state.Hash || first.Registry.Generation != state.Generation {
		t.Errorf("the report says ready %v, generation %d, hash %s; the file has %d, %s",
			first.Readiness.Ready, first.Registry.Generation, first.Registry.StateHash, state.Generation, state.Hash)
	}
	if first.Preflight.Result != report.Pass || first.Preflight.Confidence != report.ConfidenceLimited {
		t.Errorf("preflight is %s with confidence %s: %+v", first.Preflight.Result, first.Preflight.Confidence, first.Preflight.Checks)
	}

	if _, err := tr.Rotate(t.Context(), tr.Key()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pending version is stable and its promotion estimated", func() error {
		r := nodeReport(t, socket)
		if r.Rotation.State != report.RotationPending || !r.Rotation.Pending.Stable || r.Rotation.Pending.EstimatedPromotion == "" {
			return fmt.Errorf("rotation is %+v", r.Rotation)
		}
		if r.ActiveKey.TransitVersion != 1 || r.Rotation.Pending.TransitVersion != 2 || r.Rotation.Pending.Required != 2 {
			t.Errorf("active %+v, pending %+v", r.ActiveKey, r.Rotation.Pending)
		}
		return nil
	})
	if code, body := get(t, socket, "/v1/retirement-plan?before-version=2"); code != http.StatusConflict || !strings.Contains(body, "nextStep") {
		t.Errorf("a plan during a rotation: %d %s", code, body)
	}
	eventuallyActive(t, p, 2)

	code, body := get(t, socket, "/v1/retirement-plan?before-version=2")
	if code != http.StatusOK {
		t.Fatalf("a plan after the rotation: %d %s", code, body)
	}
	plan, err := report.Decode[report.RetirementPlan]([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	state = registryOf(t, p)
	if !slices.Equal(plan.RemovedVersions, []int{1}) || plan.StateHash != state.Hash || plan.NextGeneration != state.Generation+1 {
		t.Errorf("the plan is %+v, the state %d %s", plan, state.Generation, state.Hash)
	}
	if again := registryOf(t, p); again.Hash != state.Hash {
		t.Error("asking for a plan changed the state")
	}

	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://node/v1/report", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := socket.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s is answered with %d", method, resp.StatusCode)
		}
	}

	if err := tr.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventuallyReason(t, p, "metadata_read_failed")
	sealed := nodeReport(t, socket)
	if sealed.Readiness.Ready || sealed.Readiness.MetadataErrorClass != "openbao_sealed" || sealed.Preflight.Result != report.Fail {
		t.Errorf("under a sealed OpenBao: %+v, preflight %s", sealed.Readiness, sealed.Preflight.Result)
	}
	if sealed.ActiveKey.TransitVersion != 2 {
		t.Errorf("the active key is forgotten: %+v", sealed.ActiveKey)
	}

	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(p.Files.ReportSocket); !os.IsNotExist(err) {
		t.Errorf("the report socket stays behind: %v", err)
	}
}

func reportClient(p *stack.Provider) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", p.Files.ReportSocket)
		},
	}}
}

func get(t *testing.T, client *http.Client, path string) (code int, body string) {
	t.Helper()
	resp, err := client.Get("http://node" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func nodeReport(t *testing.T, client *http.Client) *report.NodeReport {
	t.Helper()
	_, body := get(t, client, "/v1/report")
	r, err := report.Decode[report.NodeReport]([]byte(body))
	if err != nil {
		t.Fatalf("the report cannot be decoded: %v\n%s", err, body)
	}
	return r
}
