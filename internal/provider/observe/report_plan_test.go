package observe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/socket"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/report"
)

// TestRetirementPlan: the plan is, field for field, what the transition makes of
// the published registry, whenever it is asked for.
func TestRetirementPlan(t *testing.T) {
	minimum := func(f *status.Facts, lowest int) {
		f.Metadata.Seen.MinDecryption = lowest
		for v := 1; v < lowest; v++ {
			delete(f.Metadata.Seen.CreatedAtUnix, v)
		}
	}
	cases := []struct {
		name    string
		facts   func(t *testing.T) status.Facts
		before  int
		removed []int
	}{
		{"plan-all-below-active", func(t *testing.T) status.Facts { return knowing(rotated(t)) }, 3, []int{1, 2}},
		{"plan-one", func(t *testing.T) status.Facts { return knowing(rotated(t)) }, 2, []int{1}},
		{"plan-nothing-to-do", func(t *testing.T) status.Facts { return knowing(retiredBelow(t, rotated(t), 3)) }, 3, []int{}},
		{"plan-while-starting", func(t *testing.T) status.Facts {
			f := knowing(rotated(t))
			f.Starting = true
			return f
		}, 2, []int{1}},
		{"plan-recovery", func(t *testing.T) status.Facts {
			f := failing(knowing(kmstest.Observed(t, rotated(t))), status.VersionsBlocked, "")
			minimum(&f, 3)
			return f
		}, 3, []int{1, 2}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var board status.Board
				f := c.facts(t)
				board.Store(status.New(f))
				h := ReportHandler(reportOptions(&board))
				path := fmt.Sprintf("/v1/retirement-plan?before-version=%d", c.before)
				code, body := ask(t, h, path)
				if code != 200 {
					t.Fatalf("code %d: %s", code, body)
				}
				got := decodeAs[report.RetirementPlan](t, f.Registry, body)
				next, _, err := f.Registry.Retire(f.Metadata.Seen, f.Rules, c.before)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got.RemovedVersions, c.removed) || got.BeforeVersion != c.before || got.StateHash != f.Registry.Hash() ||
					got.ActiveKeyIDHash != f.Registry.Active().Binding.KeyIDHash() || got.NextGeneration != next.Generation() || got.NextStateHash != next.Hash() {
					t.Errorf("plan %+v, the transition makes generation %d, %s", got, next.Generation(), next.Hash())
				}
				wantGolden(t, c.name, body)
				time.Sleep(kmstest.MaxStaleness) // synthetic time
				if _, again := ask(t, h, path); string(again) != string(body) {
					t.Errorf("later the plan is another one:\n%s\n%s", body, again)
				}
			})
		})
	}
}

func TestRetirementPlanRefused(t *testing.T) {
	cases := []struct {
		name   string
		facts  func(t *testing.T) status.Facts
		before int
		age    time.Duration
		code   int
		reason string
		words  string // of message and next step
	}{
		{"no registry", func(t *testing.T) status.Facts {
			return failing(status.Facts{}, status.MetadataReadFailed, fault.ClassOpenBaoSealed)
		}, 2, 0, 503, "starting", "unseal OpenBao"},
		{"what is active", func(t *testing.T) status.Facts { return knowing(rotated(t)) }, 4, 0, 409, "before_version_invalid", "name a version from 2 to 3"},
		{"pending", func(t *testing.T) status.Facts { return knowing(kmstest.Observed(t, rotated(t))) }, 2, 0, 409, "rotation_pending", "Transit version 4: it is pending"},
		{"not latest", func(t *testing.T) status.Facts {
			f := knowing(rotated(t))
			f.Metadata.Seen = seenMetadata(5)
			return f
		}, 2, 0, 409, "active_not_latest", "wait until this node has promoted the latest version"},
		{"drift", func(t *testing.T) status.Facts {
			f := failing(knowing(rotated(t)), status.IdentityDrift, "")
			f.Metadata.Seen.CreatedAtUnix[3]++
			return f
		}, 2, 0, 409, "identity_drift", "restore the original key"},
		{"recovery that does not reach far enough", func(t *testing.T) status.Facts {
			f := failing(knowing(rotated(t)), status.VersionsBlocked, "")
			f.Metadata.Seen.MinDecryption = 3
			return f
		}, 2, 0, 409, "versions_blocked", "Transit version 2: min_decryption_version 3"},
		{"probe failed", func(t *testing.T) status.Facts {
			return failing(knowing(rotated(t)), status.MetadataReadFailed, fault.ClassPolicyDenied)
		}, 2, 0, 409, "metadata_read_failed", "compare the policy"},
		{"login failed", func(t *testing.T) status.Facts {
			return failing(knowing(rotated(t)), status.AuthFailed, fault.ClassAuthFailed)
		}, 2, 0, 409, "auth_failed", "could not log in"},
		{"profile", func(t *testing.T) status.Facts { return failing(knowing(rotated(t)), status.ProfileInvalid, "") }, 2, 0, 409, "profile_invalid", "profile"},
		{"panic", func(t *testing.T) status.Facts {
			return failing(knowing(rotated(t)), status.ProbeFailed, fault.ClassPanic)
		}, 2, 0, 409, "probe_failed", "defect"},
		{"never probed", func(t *testing.T) status.Facts {
			f := knowing(rotated(t))
			f.Metadata = status.Metadata{}
			return f
		}, 2, 0, 409, "metadata_unverified", "wait for the next probe"},
		{"stale", func(t *testing.T) status.Facts { return knowing(rotated(t)) }, 2, kmstest.MaxStaleness + 1, 409, "status_stale", "status.statusMaxStaleness"},
		{"save outstanding", func(t *testing.T) status.Facts {
			f := knowing(rotated(t))
			f.Persistence.Degraded = true
			return f
		}, 2, 0, 409, "state_save_failed", "repair the storage"},
		{"conflict", func(t *testing.T) status.Facts {
			f := knowing(rotated(t))
			f.Persistence.Reason = status.StateConflict
			return f
		}, 2, 0, 409, "state_conflict", "restore the state file and the checkpoint"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var board status.Board
				board.Store(status.New(c.facts(t)))
				time.Sleep(c.age) // synthetic time
				code, body := ask(t, ReportHandler(reportOptions(&board)), fmt.Sprintf("/v1/retirement-plan?before-version=%d", c.before))
				got := decodeAs[report.Problem](t, board.Load().Registry(), body)
				if code != c.code || got.Reason != c.reason || !strings.Contains(got.Message+"; "+got.NextStep, c.words) {
					t.Errorf("%d %+v, want %d %s with %q", code, got, c.code, c.reason, c.words)
				}
			})
		})
	}
}

// TestALongRefusalIsCut: a registry may keep more versions than a sentence holds.
func TestALongRefusalIsCut(t *testing.T) {
	versions := make([]int, 1000)
	for i := range versions {
		versions[i] = 100_000 + i
	}
	got := refuseRetirement(&registry.Rejection{Problem: registry.VersionsBlocked, Versions: versions, Detail: "d", NextStep: "n"})
	body, err := report.Encode(got.problem)
	if err != nil {
		t.Fatal(err)
	}
	if d := decodeAs[report.Problem](t, nil, body); !strings.HasSuffix(d.Message, "(cut)") || d.NextStep != "n" {
		t.Errorf("%+v", d)
	}
	if got := refuseRetirement(io.EOF); got.code != 500 || got.problem.Reason != "unknown" || strings.Contains(got.problem.Message, "EOF") {
		t.Errorf("%d %+v", got.code, got.problem)
	}
}

func TestReportRefusesBadRequests(t *testing.T) {
	var board status.Board
	board.Store(status.New(knowing(rotated(t))))
	h := ReportHandler(reportOptions(&board))
	cases := []struct {
		path   string
		code   int
		reason string
		words  string
	}{
		{"/v1/retirement-plan", 400, "bad_query", "no before-version"},
		{"/v1/retirement-plan?", 400, "bad_query", "no before-version"},
		{"/v1/retirement-plan?before-version", 400, "bad_query", "not a decimal number"},
		{"/v1/retirement-plan?before-version=", 400, "bad_query", "not a decimal number"},
		{"/v1/retirement-plan?before-version=two", 400, "bad_query", "not a decimal number"},
		{"/v1/retirement-plan?before-version=0x3", 400, "bad_query", "not a decimal number"},
		{"/v1/retirement-plan?before-version=03", 400, "bad_query", "not a decimal number"},
		{"/v1/retirement-plan?before-version=%2B3", 400, "bad_query", "not a decimal number"},
		{"/v1/retirement-plan?before-version=3.0", 400, "bad_query", "not a decimal number"},
		{"/v1/retirement-plan?before-version=+3", 400, "bad_query", "not a decimal number"},
		{"/v1/retirement-plan?before-version=99999999999999999999", 400, "bad_query", "not a decimal number"},
		{"/v1/retirement-plan?before-version=4294967296", 400, "bad_query", "larger than a Transit version"},
		{"/v1/retirement-plan?before-version=1", 400, "bad_query", "below 2"},
		{"/v1/retirement-plan?before-version=0", 400, "bad_query", "below 2"},
		{"/v1/retirement-plan?before-version=-3", 400, "bad_query", "below 2"},
		{"/v1/retirement-plan?before-version=2&before-version=2", 400, "bad_query", "more than once"},
		{"/v1/retirement-plan?before-version=2&apply=true", 400, "bad_query", "a parameter other than"},
		{"/v1/retirement-plan?beforeVersion=2", 400, "bad_query", "no before-version"},
		{"/v1/retirement-plan?before-version=2;x", 400, "bad_query", "malformed"},
		{"/v1/retirement-plan?before-version=%zz", 400, "bad_query", "malformed"},
		{"/v1/report?x=1", 400, "bad_query", "takes no query"},
		{"/v1/report/", 404, "not_found", "nothing here"},
		{"/v1/retirement-plan/2", 404, "not_found", "before-version=N"},
		{"/", 404, "not_found", "/v1/report"},
		{"/v2/report", 404, "not_found", "/v1/report"},
		{"/metrics", 404, "not_found", "/v1/report"},
	}
	for _, c := range cases {
		t.Run(c.path, func(t *testing.T) {
			code, body := ask(t, h, c.path)
			got := decodeAs[report.Problem](t, board.Load().Registry(), body)
			if code != c.code || got.Reason != c.reason || !strings.Contains(got.Message+"; "+got.NextStep, c.words) {
				t.Errorf("%d %+v, want %d %s with %q", code, got, c.code, c.reason, c.words)
			}
		})
	}
}

// TestReportSocket serves the handler as the provider does, on a socket opened by
// the rules of the KMS socket.
func TestReportSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "report")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "report.sock")
	l, err := socket.Listen(socket.Options{Path: path, Mode: 0o660, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	var board status.Board
	board.Store(status.New(knowing(rotated(t))))
	server := ServeListener(t.Context(), l, ReportHandler(reportOptions(&board)))
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	call := func(method, path string) (int, []byte) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://node"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, body
	}
	code, body := call(http.MethodGet, "/v1/report")
	if d := decodeAs[report.NodeReport](t, board.Load().Registry(), body); code != 200 || !d.Readiness.Ready {
		t.Errorf("GET: %d %s", code, body)
	}
	if code, body := call(http.MethodHead, "/v1/report"); code != 200 || len(body) != 0 {
		t.Errorf("HEAD: %d %q", code, body)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		if code, _ := call(method, "/v1/retirement-plan?before-version=2"); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, code)
		}
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}
