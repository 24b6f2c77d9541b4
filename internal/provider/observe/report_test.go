package observe

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/report"
)

const testDeepInterval = 5 * time.Minute

func reportOptions(views Views) ReportOptions {
	return ReportOptions{Views: views, ProviderName: kmstest.Scope.ProviderName, Version: "v1.2.3", Fingerprint: kmstest.Scope.Fingerprint("transit", "k8s")}
}

// seenMetadata is what OpenBao says in these tests.
func seenMetadata(latest int) registry.Metadata {
	md := registry.Metadata{Latest: latest, CreatedAtUnix: map[int]int64{}, MinDecryption: 1}
	for v := 1; v <= latest; v++ {
		md.CreatedAtUnix[v] = kmstest.CreatedAt(v)
	}
	return md
}

// rotated is a registry with versions 1 and 2 retired and 3 active.
func rotated(t testing.TB) *registry.Registry {
	t.Helper()
	r := kmstest.Bootstrapped(t)
	for range 2 {
		r = kmstest.Promoted(t, kmstest.Observed(t, r))
	}
	return r
}

// retiredBelow is r after an operator's retirement.
func retiredBelow(t testing.TB, r *registry.Registry, before int) *registry.Registry {
	t.Helper()
	next, _, err := r.Retire(seenMetadata(r.Active().TransitVersion), registry.Rules{StableObservations: 3, RejectRollback: true}, before)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// knowing are the facts of a healthy provider that has just probed everything.
func knowing(r *registry.Registry) status.Facts {
	now := time.Now()
	entries := r.Entries()
	return status.Facts{
		Registry: r,
		Metadata: status.Metadata{ValidatedAt: now, ProbedAt: now, SeenAt: now,
			Seen: seenMetadata(entries[len(entries)-1].TransitVersion)},
		Deep:         status.Deep{KeyID: r.Active().KeyID, ProbedAt: now},
		Persistence:  status.Persistence{ConfirmedAt: now},
		Rules:        registry.Rules{StableObservations: 3, RejectRollback: true},
		MaxStaleness: kmstest.MaxStaleness,
		DeepInterval: testDeepInterval,
	}
}

// failing is f after a metadata probe that failed at once.
func failing(f status.Facts, reason status.Reason, class fault.Class) status.Facts {
	f.Metadata.ProbedAt = time.Now()
	f.Metadata.Reason, f.Metadata.Class = reason, class
	return f
}

// ask asks a handler and returns the code and the body.
func ask(t *testing.T, h http.Handler, path string) (int, []byte) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: header %s is %q, want %q", path, name, got, want)
		}
	}
	return w.Code, w.Body.Bytes()
}

// decodeAs reads an answer as the node reporter would, and fails when it holds
// anything that a report must not.
func decodeAs[D report.Document](t *testing.T, r *registry.Registry, body []byte) *D {
	t.Helper()
	d, err := report.Decode[D](body)
	if err != nil {
		t.Fatalf("%v:\n%s", err, body)
	}
	s := kmstest.Scope
	forbidden := []string{s.ClusterID, s.OpenBaoInstanceID, s.OpenBaoNamespace, s.TransitMountID, s.KeyLineageID, "k8s", "obk2.", "/"}
	if r != nil {
		for _, e := range r.Entries() {
			forbidden = append(forbidden, e.KeyID)
		}
	}
	for _, f := range forbidden {
		// A slash is in apiVersion, and where a next step names the endpoint itself.
		text := strings.NewReplacer(report.APIVersion, "", "/v1/", "", s.ProviderName, "").Replace(string(body))
		if strings.Contains(text, f) {
			t.Errorf("the answer holds %q:\n%s", f, body)
		}
	}
	return d
}

// wantGolden holds an answer against its file, indented for reviewers.
func wantGolden(t *testing.T, name string, body []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "report", name+".json")
	if *update {
		if err := os.WriteFile(file, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if indented.String() != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, indented.String(), want)
	}
}

// TestReport has a golden file for every state that a node can be in. Time begins
// at 2000-01-01T00:00:00Z.
func TestReport(t *testing.T) {
	sealed := fault.ClassOpenBaoSealed
	cases := []struct {
		name string
		view func(t *testing.T) *status.View // nil: nothing was published yet
		// age is how long after that is asked.
		age    time.Duration
		code   int
		ready  bool
		result report.Result
		failed string // the checks that fail
	}{
		{name: "nothing-known", code: 503, result: report.Unknown},
		{name: "starting-without-registry", code: 503, result: report.Fail, failed: "transit.key", view: func(t *testing.T) *status.View {
			return status.New(failing(status.Facts{Starting: true}, status.MetadataReadFailed, sealed))
		}},
		{name: "starting-fresh-node-refused", code: 503, result: report.Fail, failed: "registry.metadata", view: func(t *testing.T) *status.View {
			f := failing(status.Facts{Starting: true}, status.StateUnavailable, "")
			f.Metadata.Seen, f.Metadata.SeenAt = seenMetadata(4), time.Now()
			return status.New(f)
		}},
		{name: "starting", code: 200, result: report.Unknown, view: func(t *testing.T) *status.View {
			f := knowing(rotated(t))
			f.Starting = true
			return status.New(f)
		}},
		{name: "healthy", age: 12 * time.Second, code: 200, ready: true, result: report.Pass, view: func(t *testing.T) *status.View {
			return status.New(knowing(rotated(t)))
		}},
		{name: "healthy-after-retirement", age: time.Second, code: 200, ready: true, result: report.Pass, view: func(t *testing.T) *status.View {
			f := knowing(retiredBelow(t, rotated(t), 3))
			f.Metadata.Seen.MinDecryption = 3
			delete(f.Metadata.Seen.CreatedAtUnix, 1)
			delete(f.Metadata.Seen.CreatedAtUnix, 2)
			return status.New(f)
		}},
		{name: "pending", age: time.Second, code: 200, ready: true, result: report.Pass, view: func(t *testing.T) *status.View {
			return status.New(knowing(kmstest.Observed(t, rotated(t))))
		}},
		{name: "stable-without-countdown", age: time.Second, code: 200, ready: true, result: report.Pass, view: func(t *testing.T) *status.View {
			f := knowing(kmstest.Observed(t, rotated(t)))
			f.Rules.StableObservations = 1
			return status.New(f)
		}},
		{name: "stable-with-countdown", age: 29 * time.Second, code: 200, ready: true, result: report.Pass, view: func(t *testing.T) *status.View {
			f := knowing(kmstest.Observed(t, rotated(t)))
			f.Rules.StableObservations = 1
			f.PromotionAt = time.Now().Add(2*time.Minute + time.Millisecond)
			return status.New(f)
		}},
		{name: "degraded", age: time.Second, code: 200, ready: true, result: report.Warn, view: func(t *testing.T) *status.View {
			f := knowing(kmstest.Observed(t, rotated(t)))
			f.Persistence.Degraded = true
			return status.New(f)
		}},
		{name: "save-failed", age: time.Second, code: 200, result: report.Fail, failed: "registry.state registry.checkpoint status.consistency", view: func(t *testing.T) *status.View {
			f := knowing(rotated(t))
			f.Persistence.Reason, f.Persistence.Degraded = status.StateSaveFailed, true
			return status.New(f)
		}},
		{name: "state-conflict", age: time.Second, code: 200, result: report.Fail, failed: "registry.state registry.checkpoint status.consistency", view: func(t *testing.T) *status.View {
			f := knowing(rotated(t))
			f.Persistence.Reason = status.StateConflict
			return status.New(f)
		}},
		{name: "state-unreadable", age: time.Second, code: 200, result: report.Fail, failed: "registry.state registry.checkpoint status.consistency", view: func(t *testing.T) *status.View {
			f := knowing(rotated(t))
			f.Persistence.Reason = status.StateUnavailable
			return status.New(f)
		}},
		{name: "drift", age: time.Second, code: 200, result: report.Fail, failed: "registry.metadata status.consistency", view: func(t *testing.T) *status.View {
			f := failing(knowing(rotated(t)), status.IdentityDrift, "")
			f.Metadata.Seen.CreatedAtUnix[2]++
			return status.New(f)
		}},
		{name: "blocked", age: time.Second, code: 200, result: report.Fail, failed: "registry.metadata status.consistency", view: func(t *testing.T) *status.View {
			f := failing(knowing(rotated(t)), status.VersionsBlocked, "")
			f.Metadata.Seen.MinDecryption = 3
			return status.New(f)
		}},
		{name: "encryption-blocked", age: time.Second, code: 200, result: report.Fail, failed: "registry.metadata status.consistency", view: func(t *testing.T) *status.View {
			f := failing(knowing(kmstest.Observed(t, rotated(t))), status.EncryptionBlocked, "")
			f.Metadata.Seen.MinEncryption = 4
			return status.New(f)
		}},
		{name: "upsert-allowed", age: time.Second, code: 200, result: report.Fail, failed: "transit.upsert status.consistency", view: func(t *testing.T) *status.View {
			return status.New(failing(knowing(rotated(t)), status.UpsertAllowed, ""))
		}},
		{name: "profile-invalid", age: time.Second, code: 200, result: report.Fail, failed: "transit.profile status.consistency", view: func(t *testing.T) *status.View {
			return status.New(failing(knowing(rotated(t)), status.ProfileInvalid, ""))
		}},
		{name: "policy-narrowed", age: time.Second, code: 200, result: report.Fail, failed: "transit.key transit.roundtrip status.consistency", view: func(t *testing.T) *status.View {
			f := failing(knowing(rotated(t)), status.MetadataReadFailed, fault.ClassPolicyDenied)
			f.Deep.Reason, f.Deep.Class = status.DeepProbeFailed, fault.ClassPolicyDenied
			return status.New(f)
		}},
		{name: "probe-panicked", age: time.Second, code: 200, result: report.Fail, failed: "status.consistency", view: func(t *testing.T) *status.View {
			return status.New(failing(knowing(rotated(t)), status.ProbeFailed, fault.ClassPanic))
		}},
		{name: "promoted-and-not-proved", age: time.Second, code: 200, result: report.Fail, failed: "status.consistency", view: func(t *testing.T) *status.View {
			before := kmstest.Observed(t, rotated(t))
			f := knowing(kmstest.Promoted(t, before))
			f.Deep.KeyID = before.Active().KeyID
			return status.New(f)
		}},
		{name: "stale", age: kmstest.MaxStaleness + time.Second, code: 200, result: report.Fail, failed: "status.consistency", view: func(t *testing.T) *status.View {
			return status.New(knowing(rotated(t)))
		}},
		{name: "stale-for-long", age: time.Hour, code: 200, result: report.Fail, failed: "transit.key status.consistency", view: func(t *testing.T) *status.View {
			return status.New(failing(knowing(rotated(t)), status.MetadataReadFailed, fault.ClassOpenBaoConnection))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var board status.Board
				if c.view != nil {
					board.Store(c.view(t))
				}
				time.Sleep(c.age) // synthetic time
				code, body := ask(t, ReportHandler(reportOptions(&board)), "/v1/report")
				d := decodeAs[report.NodeReport](t, board.Load().Registry(), body)
				if code != c.code || d.Readiness.Ready != c.ready || d.Preflight.Result != c.result {
					t.Errorf("code %d, ready %v, preflight %s, want %d, %v, %s", code, d.Readiness.Ready, d.Preflight.Result, c.code, c.ready, c.result)
				}
				var failed []string
				for _, check := range d.Preflight.Checks {
					if check.Result == report.Fail {
						failed = append(failed, check.ID)
					}
				}
				if got := strings.Join(failed, " "); got != c.failed {
					t.Errorf("failed checks %q, want %q", got, c.failed)
				}
				wantGolden(t, c.name, body)
			})
		})
	}
}

// TestReportTellsOneView: a report is made from one view although another is
// published meanwhile, and every request is answered from the current one.
func TestReportTellsOneView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var board status.Board
		h := ReportHandler(reportOptions(&board))
		r := rotated(t)
		for range 3 {
			board.Store(status.New(knowing(r)))
			_, body := ask(t, h, "/v1/report")
			d := decodeAs[report.NodeReport](t, r, body)
			if d.Registry.StateHash != r.Hash() || d.Registry.Generation != r.Generation() || d.ActiveKey.KeyIDHash != r.Active().Binding.KeyIDHash() {
				t.Errorf("report of %+v with %+v, want generation %d", d.Registry, d.ActiveKey, r.Generation())
			}
			if r.Pending() != nil {
				r = kmstest.Promoted(t, r)
			} else {
				r = kmstest.Observed(t, r)
			}
		}
	})
}

// TestTheCountdownDoesNotMove: what is estimated stays, while time passes, and
// names the moment at which the delay ends.
func TestTheCountdownDoesNotMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var board status.Board
		f := knowing(kmstest.Observed(t, rotated(t)))
		f.Rules.StableObservations = 1
		f.MaxStaleness = time.Hour
		f.PromotionAt = time.Now().Add(2 * time.Minute)
		board.Store(status.New(f))
		h := ReportHandler(reportOptions(&board))
		for range 10 {
			_, body := ask(t, h, "/v1/report")
			d := decodeAs[report.NodeReport](t, f.Registry, body)
			if got := d.Rotation.Pending.EstimatedPromotion; got != "2000-01-01T00:02:00Z" {
				t.Errorf("at %s the promotion is estimated for %s", d.GeneratedAt, got)
			}
			time.Sleep(17*time.Second + 333*time.Millisecond) // past the end
		}
	})
}

// TestMomentsCountFromNow: what counts of a moment is its distance to now, which
// is monotonic, and not what the wall clock showed at it.
func TestMomentsCountFromNow(t *testing.T) {
	now := time.Now()
	for _, d := range []time.Duration{-90 * time.Second, 0, 2 * time.Minute} {
		if got := onClock(now.Add(d), now); got.Sub(now) != d || report.At(got) != report.At(now.Add(d)) {
			t.Errorf("%v from now is told as %v from now", d, got.Sub(now))
		}
	}
	if !onClock(time.Time{}, now).IsZero() || !roundedUp(time.Time{}).IsZero() {
		t.Error("no moment has become one")
	}
	second := now.Truncate(time.Second)
	for at, want := range map[time.Time]time.Time{second: second, second.Add(1): second.Add(time.Second), second.Add(time.Second - 1): second.Add(time.Second)} {
		if got := roundedUp(at); !got.Equal(want) {
			t.Errorf("%v is rounded up to %v, want %v", at, got, want)
		}
	}
}

func TestClipped(t *testing.T) {
	for offset := range 5 { // the cut falls within a character, or between two
		got := clipped(strings.Repeat("x", offset) + strings.Repeat("é, ", 700))
		if len(got) > maxReportText || !utf8.ValidString(got) || !strings.HasSuffix(got, "é … (cut)") {
			t.Errorf("%d bytes that end in %q", len(got), got[len(got)-20:])
		}
	}
	if got := clipped("short"); got != "short" {
		t.Errorf("%q", got)
	}
}
