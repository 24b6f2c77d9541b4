package status

import (
	"slices"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/registry"
)

func testRegistry(t testing.TB) *registry.Registry {
	t.Helper()
	s := identity.Scope{ProviderName: "p", ClusterID: "c", OpenBaoInstanceID: "i", TransitMountID: "m", KeyLineageID: "k"}
	r, err := registry.Bootstrap(s, s.Fingerprint("mount", "key"),
		registry.Metadata{Latest: 1, CreatedAtUnix: map[int]int64{1: 1715803200}}, 1715803300)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestJudge(t *testing.T) {
	r := testRegistry(t)
	now := time.Now()
	const limit = 2 * time.Minute
	healthy := Facts{
		Registry:     r,
		Metadata:     Metadata{ValidatedAt: now.Add(-time.Second)},
		Deep:         Deep{KeyID: r.Active().KeyID},
		MaxStaleness: limit,
	}
	edit := func(change func(*Facts)) Facts {
		f := healthy
		change(&f)
		return f
	}
	cases := []struct {
		name    string
		facts   Facts
		reasons []Reason
	}{
		{"healthy", healthy, nil},
		{"nothing known", Facts{}, []Reason{Starting}},
		{"starting with everything else good", edit(func(f *Facts) { f.Starting = true }), []Reason{Starting}},
		{"starting while OpenBao is away", Facts{Metadata: Metadata{Reason: MetadataReadFailed}}, []Reason{Starting, MetadataReadFailed}},
		{"never validated", edit(func(f *Facts) { f.Metadata.ValidatedAt = time.Time{} }), []Reason{MetadataUnverified}},
		{"exactly as old as allowed", edit(func(f *Facts) { f.Metadata.ValidatedAt = now.Add(-limit) }), nil},
		{"a nanosecond too old", edit(func(f *Facts) { f.Metadata.ValidatedAt = now.Add(-limit - 1) }), []Reason{StatusStale}},
		{"metadata probe failed", edit(func(f *Facts) { f.Metadata.Reason = IdentityDrift }), []Reason{IdentityDrift}},
		{"no deep probe yet", edit(func(f *Facts) { f.Deep = Deep{} }), []Reason{DeepProbePending}},
		{"deep probe of another key", edit(func(f *Facts) { f.Deep.KeyID = "obk2.other" }), []Reason{DeepProbePending}},
		{"deep probe failed", edit(func(f *Facts) { f.Deep.Reason = DeepProbeFailed }), []Reason{DeepProbeFailed}},
		{"one code from both probes", edit(func(f *Facts) { f.Metadata.Reason, f.Deep.Reason = AuthFailed, AuthFailed }), []Reason{AuthFailed}},
		{"save failed", edit(func(f *Facts) { f.Persistence = Persistence{Reason: StateSaveFailed, Degraded: true} }), []Reason{StateSaveFailed}},
		{"save failed, exception holds", edit(func(f *Facts) { f.Persistence.Degraded = true }), nil},
		{"a probe that says stale, and is", edit(func(f *Facts) { f.Metadata = Metadata{ValidatedAt: now.Add(-time.Hour), Reason: StatusStale} }), []Reason{StatusStale}},
		{"all at once", edit(func(f *Facts) {
			f.Persistence.Reason = StateConflict
			f.Metadata = Metadata{ValidatedAt: now.Add(-time.Hour), Reason: ProfileInvalid}
			f.Deep.Reason = DeepProbeInvalid
		}), []Reason{StateConflict, ProfileInvalid, DeepProbeInvalid, StatusStale}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := New(c.facts).Judge(now)
			if !slices.Equal(got.Reasons, c.reasons) {
				t.Errorf("reasons %q, want %q", got.Reasons, c.reasons)
			}
			if healthy := len(c.reasons) == 0; got.Healthy != healthy || (got.Active != nil) != healthy {
				t.Errorf("healthy %v, active %v, want %v", got.Healthy, got.Active, healthy)
			}
		})
	}
}

// TestASuccessNeverClearsTheOtherProbesFailure names the rule of design:
// kms-service, status.
func TestASuccessNeverClearsTheOtherProbesFailure(t *testing.T) {
	r := testRegistry(t)
	now := time.Now()
	f := Facts{Registry: r, MaxStaleness: time.Minute, Metadata: Metadata{ValidatedAt: now},
		Deep: Deep{KeyID: r.Active().KeyID, Reason: DeepProbeFailed}}
	f.Metadata = Metadata{ValidatedAt: now.Add(time.Second)}
	if New(f).Judge(now).Healthy {
		t.Error("a metadata success cleared a deep failure")
	}
	f.Deep.Reason = ""
	f.Metadata.Reason = MetadataReadFailed
	if New(f).Judge(now).Healthy {
		t.Error("a deep success cleared a metadata failure")
	}
}

func TestBoard(t *testing.T) {
	var b Board
	if got := b.Load().Judge(time.Now()).Reasons; !slices.Equal(got, []Reason{Starting}) {
		t.Errorf("an empty board says %q", got)
	}
	if got := b.Load().RotationState(); got != "unknown" {
		t.Errorf("rotation state %q, want unknown", got)
	}
	v := New(Facts{Registry: testRegistry(t)})
	b.Store(v)
	if b.Load() != v {
		t.Error("the board does not return what was stored")
	}
	if got := v.RotationState(); got != "active" {
		t.Errorf("rotation state %q, want active", got)
	}
}

func TestJudgeDoesNotAllocate(t *testing.T) {
	r := testRegistry(t)
	now := time.Now()
	for name, v := range map[string]*View{
		"healthy": New(Facts{Registry: r, MaxStaleness: time.Hour, Metadata: Metadata{ValidatedAt: now}, Deep: Deep{KeyID: r.Active().KeyID}}),
		"stale":   New(Facts{Registry: r, Metadata: Metadata{ValidatedAt: now.Add(-time.Hour)}}),
	} {
		if n := testing.AllocsPerRun(100, func() { v.Judge(now) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
