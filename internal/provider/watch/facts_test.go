package watch

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/observe"
	"github.com/baokms/baokms/internal/provider/status"
	nodereport "github.com/baokms/baokms/internal/report"
)

func (n *node) facts() status.Facts { return n.board.Load().Facts() }

// report is what the node's report socket tells, read as a node reporter does.
func (n *node) report() *nodereport.NodeReport {
	n.t.Helper()
	h := observe.ReportHandler(observe.ReportOptions{
		Views: n.board, ProviderName: testScope.ProviderName, Version: "v0", Fingerprint: testScope.Fingerprint("m", "k"),
	})
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/v1/report", nil))
	d, err := nodereport.Decode[nodereport.NodeReport](answer.Body.Bytes())
	if err != nil {
		n.t.Fatalf("%v\n%s", err, answer.Body)
	}
	return d
}

func since(t *testing.T, what string, at time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(at); at.IsZero() || got != want {
		t.Errorf("%s was %v ago, want %v", what, got, want)
	}
}

// TestWhatTheReportNeeds follows the facts beside the verdict: what was seen, and
// when.
func TestWhatTheReportNeeds(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.set(func(b *bao) { b.key.MinDecryption, b.key.MinEncryption, b.key.MinAvailable = 1, 1, 0 })
		n.probes(1)
		f := n.facts()
		since(t, "validation", f.Metadata.ValidatedAt, 0)
		since(t, "the probe", f.Metadata.ProbedAt, 0)
		since(t, "what it saw", f.Metadata.SeenAt, 0)
		since(t, "the look at the files", f.Persistence.ConfirmedAt, 0)
		since(t, "the deep probe", f.Deep.ProbedAt, testProbe) // at start
		if md := f.Metadata.Seen; md.Latest != 1 || md.MinDecryption != 1 || md.MinEncryption != 1 || md.MinAvailable != 0 || md.CreatedAtUnix[1] != 1715803200 {
			t.Errorf("seen %+v", md)
		}
		if f.Rules.StableObservations != testCount || !f.Rules.RejectRollback || f.DeepInterval != testDeep || f.MaxStaleness != testStaleness {
			t.Errorf("rules %+v, deep interval %v, staleness %v", f.Rules, f.DeepInterval, f.MaxStaleness)
		}

		// A read that fails leaves what was seen before, and its age.
		b.set(func(b *bao) { b.readErr = failed(fault.Sealed) })
		n.probes(2)
		f = n.facts()
		since(t, "validation", f.Metadata.ValidatedAt, 2*testProbe)
		since(t, "the probe", f.Metadata.ProbedAt, 0)
		since(t, "what was seen", f.Metadata.SeenAt, 2*testProbe)
		since(t, "the look at the files", f.Persistence.ConfirmedAt, 2*testProbe)
		// So does a key that has not the profile.
		b.set(func(b *bao) { b.readErr, b.key.Exportable, b.key.Latest = nil, true, 1 })
		n.probes(1)
		f = n.facts()
		since(t, "the probe", f.Metadata.ProbedAt, 0)
		since(t, "what was seen", f.Metadata.SeenAt, 3*testProbe)

		b.set(func(b *bao) { b.key.Exportable = false })
		n.probes(1)
		n.wantHealthy(1)
		if f = n.facts(); f.Metadata.Class != fault.ClassNone {
			t.Errorf("class %q after a good probe", f.Metadata.Class)
		}
		since(t, "what was seen", f.Metadata.SeenAt, 0)

		// A discovery that is refused counts as the last probe, and has seen.
		time.Sleep(time.Second)
		b.set(func(b *bao) { b.key.MinAvailable = 2 })
		if err := n.watch.Discover(t.Context(), unknownKeyID()); fault.CauseOf(err) != fault.DiscoveryFailed {
			t.Fatalf("discovery: %v", err)
		}
		f = n.facts()
		since(t, "the discovery", f.Metadata.ProbedAt, 0)
		since(t, "what it saw", f.Metadata.SeenAt, 0)
		since(t, "validation", f.Metadata.ValidatedAt, time.Second)
		if f.Metadata.Seen.MinAvailable != 2 {
			t.Errorf("seen %+v", f.Metadata.Seen)
		}
	})
}

// TestTheReportOfARotation: pending, counted, stable with a countdown that starts
// when the count is durable, and promoted at its end.
func TestTheReportOfARotation(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		if d := n.report(); !d.Readiness.Ready || d.Rotation.State != nodereport.RotationActive || d.Preflight.Result != nodereport.Pass || d.Registry.Checkpoint != nodereport.CheckpointConfirmed {
			t.Fatalf("%+v", d)
		}
		b.rotate()
		for count := 1; count <= testCount; count++ {
			n.probes(1)
			p := n.report().Rotation.Pending
			if p == nil || p.TransitVersion != 2 || p.Observations != count || p.Required != testCount || p.Stable != (count == testCount) {
				t.Fatalf("after %d probes: %+v", count, p)
			}
			if (p.EstimatedPromotion != "") != p.Stable {
				t.Errorf("after %d probes the promotion is estimated for %q", count, p.EstimatedPromotion)
			}
		}
		due := nodereport.At(time.Now().Add(testDelay))
		time.Sleep(testDelay - time.Second)
		d := n.report()
		if got := d.Rotation.Pending.EstimatedPromotion; got != due {
			t.Errorf("the promotion is estimated for %s, want %s", got, due)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		d = n.report()
		if d.Rotation.Pending != nil || d.ActiveKey.TransitVersion != 2 || !d.Readiness.Ready {
			t.Errorf("at the end of the delay: %+v, active %+v", d.Rotation, d.ActiveKey)
		}
		if !n.facts().PromotionAt.IsZero() {
			t.Error("the countdown is still there after the promotion")
		}
	})
}

// TestTheReportOfAFailedSave: outstanding, then confirmed anew.
func TestTheReportOfAFailedSave(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		b.rotate()
		n.probes(1)
		n.breakStateFile()
		n.probes(5)
		// The exception looks at both files at each probe.
		since(t, "the look at the files", n.facts().Persistence.ConfirmedAt, 0)
		d := n.report()
		if !d.Readiness.Ready || !d.Readiness.PersistenceDegraded || d.Registry.Checkpoint != nodereport.CheckpointOutstanding || d.Preflight.Result != nodereport.Warn {
			t.Errorf("%+v, %+v, preflight %s", d.Readiness, d.Registry, d.Preflight.Result)
		}
		n.repair()
		n.probes(1)
		d = n.report()
		if d.Readiness.PersistenceDegraded || d.Registry.Checkpoint != nodereport.CheckpointConfirmed || d.Rotation.Pending.Observations != 2 {
			t.Errorf("after the repair: %+v, %+v", d.Readiness, d.Registry)
		}
	})
}

// TestPolicyNarrowed: what the auth layer answers while it holds a denied
// operation back reads as the probe's own failure, with the class that names the
// policy, and not as a login that failed.
func TestPolicyNarrowed(t *testing.T) {
	withNode(t, func(t *testing.T, n *node, b *bao) {
		for _, cause := range []fault.Cause{fault.PolicyDenied, fault.DenialDelayed} {
			b.set(func(b *bao) { b.readErr = failed(cause) })
			n.probes(1)
			n.wantReasons(status.MetadataReadFailed)
			if got := n.facts().Metadata.Class; got != fault.ClassPolicyDenied {
				t.Errorf("metadata class %q, want %q", got, fault.ClassPolicyDenied)
			}
			b.set(func(b *bao) { b.readErr, b.upsertErr = nil, failed(cause) })
			n.probes(1)
			n.wantReasons(status.UpsertCheckFailed)
			if got := n.facts().Metadata.Class; got != fault.ClassPolicyDenied {
				t.Errorf("upsert class %q, want %q", got, fault.ClassPolicyDenied)
			}
			b.set(func(b *bao) { b.upsertErr, b.deepErr = nil, failed(cause) })
			time.Sleep(testDeep)
			synctest.Wait()
			n.wantReasons(status.DeepProbeFailed)
			if got := n.facts().Deep.Class; got != fault.ClassPolicyDenied {
				t.Errorf("deep class %q, want %q", got, fault.ClassPolicyDenied)
			}
			b.set(func(b *bao) { b.deepErr = nil })
			n.probes(1)
			n.wantHealthy(1)
		}
		// A token that is not accepted is a matter of the login.
		for _, cause := range []fault.Cause{fault.Unauthenticated, fault.RecoveryDelayed, fault.LoginRejected} {
			b.set(func(b *bao) { b.readErr = failed(cause) })
			n.probes(1)
			n.wantReasons(status.AuthFailed)
		}
	})
}
