package doctor

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/diagnose"
	"github.com/baokms/baokms/test/stack"
)

// stepwise makes a provider observe once at each start and not again: so a test
// says itself when what is observed.
var stepwise = map[string]any{
	"status.probeInterval":                   "12h",
	"status.deepProbeInterval":               "12h",
	"status.statusMaxStaleness":              "24h",
	"rotation.activationDelay":               "1h",
	"rotation.requireStableObservationCount": 3,
}

// looks are the commands that only look at the key and its rotation, with the
// requests to OpenBao that each may make.
var looks = []struct {
	name string
	run  func(context.Context, diagnose.Options) *command.Report
	may  []string
}{
	{"verify-key", diagnose.VerifyKey, onlyReads},
	{"rotation-plan", diagnose.RotationPlan, onlyReads},
	{"verify-rotation", diagnose.VerifyRotation, append(slices.Clone(onlyReads), "update "+mount+"/encrypt/"+key, "update "+mount+"/decrypt/"+key)},
}

var onlyReads = []string{"update " + stack.JWTMount + "/login", "read " + mount + "/keys/" + key, "read " + mount + "/config/keys"}

// rotationReports are the three commands' answers at one moment.
type rotationReports struct{ key, plan, verify *command.Report }

// lookAtRotation runs the three commands and asserts that none of them changes a
// byte of the state or asks OpenBao for anything but what it may. The provider
// of w must be one that does nothing by itself.
func lookAtRotation(t *testing.T, w *world) rotationReports {
	t.Helper()
	state := filepath.Dir(w.files.State)
	var all []*command.Report
	for _, look := range looks {
		before := tree(t, state)
		seen, err := w.transit.Audited(0)
		must(t, err)
		r := examineWith(t, w, look.run)
		if after := tree(t, state); !maps.Equal(before, after) {
			t.Errorf("%s changed the state:\nbefore %v\nafter  %v", look.name, before, after)
		}
		asked, err := w.transit.Audited(len(seen))
		must(t, err)
		for _, a := range asked {
			if request := a.Operation + " " + a.Path; !slices.Contains(look.may, request) {
				t.Errorf("%s asked OpenBao for %q", look.name, request)
			}
		}
		all = append(all, r)
	}
	return rotationReports{all[0], all[1], all[2]}
}

// result asserts how all three ended.
func (r rotationReports) result(t *testing.T, want command.Result) {
	t.Helper()
	for _, each := range []*command.Report{r.key, r.plan, r.verify} {
		if each.Result != want {
			t.Errorf("%s is %s, want %s: %+v", each.Kind, each.Result, want, each.Checks)
		}
	}
}

// snapshots asserts the versions with what the node and OpenBao say of each:
// "1 retired agrees".
func (r rotationReports) snapshots(t *testing.T, compared bool, want ...string) {
	t.Helper()
	for _, each := range []*command.Report{r.key, r.plan, r.verify} {
		if each.Registry == nil {
			t.Errorf("%s has no registry", each.Kind)
			continue
		}
		var got []string
		for _, s := range each.Registry.Snapshots {
			got = append(got, strings.TrimRight(fmt.Sprintf("%d %s %s", s.TransitVersion, s.State, s.InTransit), " "))
		}
		if each.Registry.ComparedWithTransit != compared || (each.Transit != nil) != compared || !slices.Equal(got, want) {
			t.Errorf("%s: compared %v, versions %q, want %v %q", each.Kind, each.Registry.ComparedWithTransit, got, compared, want)
		}
	}
}

// rotation asserts where the node stands and what is ahead of it: the words come
// in this order.
func (r rotationReports) rotation(t *testing.T, state string, active int, ahead ...string) {
	t.Helper()
	for _, each := range []*command.Report{r.plan, r.verify} {
		if each.Rotation.State != state || each.Rotation.ActiveVersion != active {
			t.Errorf("%s: %s with version %d active, want %s with %d", each.Kind, each.Rotation.State, each.Rotation.ActiveVersion, state, active)
		}
		var text strings.Builder
		for _, e := range each.Rotation.Ahead {
			fmt.Fprintf(&text, "%s [%s]\n", e.What, e.When)
		}
		rest := text.String()
		for _, words := range ahead {
			_, after, found := strings.Cut(rest, words)
			if !found {
				t.Errorf("%s: %q is not ahead, or not in this order:\n%s", each.Kind, words, text.String())
				break
			}
			rest = after
		}
	}
}

// observations asserts how far the pending version is.
func (r rotationReports) observations(t *testing.T, version, count int, stable bool) {
	t.Helper()
	for _, each := range []*command.Report{r.plan, r.verify} {
		if p := each.Rotation.Pending; p == nil || p.TransitVersion != version || p.Observations != count || p.Required != 3 || p.Stable != stable {
			t.Errorf("%s: pending is %+v, want version %d with %d observations, stable %v", each.Kind, p, version, count, stable)
		}
	}
}

func (w *world) rotate(t *testing.T, want int) {
	t.Helper()
	if latest, err := w.transit.Rotate(t.Context(), key); err != nil || latest != want {
		t.Fatalf("rotated to %d, %v, want %d", latest, err, want)
	}
}

// observe restarts the provider, which makes one observation.
func (w *world) observe(t *testing.T) {
	t.Helper()
	if w.provider != nil {
		w.stop(t)
	}
	w.serve(t)
}

// promote lets a provider with short intervals run until a version is active, and
// stops it.
func (w *world) promote(t *testing.T, version int) {
	t.Helper()
	if w.provider != nil {
		w.stop(t)
	}
	before := maps.Clone(w.fields)
	w.configure(t, map[string]any{"status.probeInterval": "100ms", "rotation.activationDelay": "100ms"})
	w.serve(t)
	await(t, fmt.Sprintf("version %d is active", version), func() error {
		r := diagnose.RotationPlan(t.Context(), w.options())
		if r.Rotation.ActiveVersion != version {
			return fmt.Errorf("version %d is", r.Rotation.ActiveVersion)
		}
		return nil
	})
	w.stop(t)
	w.configure(t, before)
}

// TestARotationAsItIsTold follows a key through its rotation, with what the three
// commands say at each step.
func TestARotationAsItIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{fields: maps.Clone(stepwise)})

	// A node before its first start has no registry, and none is shown.
	r := lookAtRotation(t, w)
	for _, each := range []*command.Report{r.key, r.plan, r.verify} {
		if each.Registry != nil || len(each.Transit.Versions) != 1 || each.Transit.Versions[0].Known {
			t.Errorf("%s of a fresh node tells %+v and %+v", each.Kind, each.Registry, each.Transit)
		}
	}
	r.rotation(t, "unknown", 0, "first key registry is written, with version 1 active", "at the provider's start")

	w.serve(t)
	r = lookAtRotation(t, w)
	r.result(t, command.Pass)
	r.snapshots(t, true, "1 active agrees")
	r.rotation(t, "active", 1, "nothing until the key is rotated in OpenBao")
	if r.verify.Confidence != "limited" || len(r.verify.CannotKnow) == 0 || r.plan.Confidence != "" {
		t.Errorf("confidence is %q and %q, unknown %q", r.verify.Confidence, r.plan.Confidence, r.verify.CannotKnow)
	}
	passes(t, r.verify, "transit.roundtrip", "status.consistency", "registry.checkpoint")

	// Rotated, and not yet seen.
	w.rotate(t, 2)
	r = lookAtRotation(t, w)
	r.result(t, command.Pass)
	r.snapshots(t, true, "1 active agrees")
	r.rotation(t, "active", 1, "version 2 is seen and becomes pending", "at the next metadata probe, within 12h",
		"2 good metadata probes later, 12h apart", "version 2 becomes active", "at the earliest 25h from now")
	if v := r.key.Transit.Versions; len(v) != 2 || !v[0].Known || v[1].Known {
		t.Errorf("OpenBao's versions are %+v", v)
	}

	w.observe(t)
	r = lookAtRotation(t, w)
	r.result(t, command.Pass)
	r.snapshots(t, true, "1 active agrees", "2 pending agrees")
	r.observations(t, 2, 1, false)
	r.rotation(t, "pending", 1, "the last of 2 good metadata probes, 12h apart", "at the earliest 13h from now")

	// Nobody is there to promote it, and which key the node gives out is not known.
	w.stop(t)
	r = lookAtRotation(t, w)
	r.rotation(t, "pending", 1, "waits for a provider", "until one runs", "at most 12h apart, the first at the provider's start", "at the earliest 1h after the provider's start")
	expect(t, r.plan, "socket.kms", command.Skip, "")
	onlyFails(t, r.verify, "status.consistency")
	expect(t, r.verify, "status.consistency", command.Warn, "not_judged", "start the provider")

	w.observe(t)
	w.observe(t)
	r = lookAtRotation(t, w)
	r.result(t, command.Pass)
	r.observations(t, 2, 3, true)
	countsDown(t, r)

	// The minimum forbids the key that still encrypts.
	must(t, w.transit.ConfigureKey(t.Context(), key, map[string]any{"min_encryption_version": 2}))
	r = lookAtRotation(t, w)
	r.result(t, command.Fail)
	r.rotation(t, "pending", 1, "Encrypt is refused", "min_encryption_version 2 forbids the active version 1", "until version 2 is active", "version 2 becomes active")
	expect(t, r.plan, "registry.metadata", command.Fail, "encryption_blocked")
	expect(t, r.verify, "transit.roundtrip", command.Fail, "encryption_blocked")

	w.promote(t, 2)
	w.serve(t)
	r = lookAtRotation(t, w)
	r.result(t, command.Pass)
	r.snapshots(t, true, "1 retired agrees", "2 active agrees")
	r.rotation(t, "active", 2, "nothing until the key is rotated", "version 1 encrypted is rewritten", "retire-versions --before-version 2")
	if next := r.verify.Next; len(next) != 2 || len(next[1].Commands) != 1 || !strings.HasSuffix(next[1].Commands[0], "retire-versions --before-version 2") {
		t.Errorf("next are %+v", next)
	}
}

// countsDown asserts that the moment of a promotion is the running provider's.
func countsDown(t *testing.T, r rotationReports) {
	t.Helper()
	for _, each := range []*command.Report{r.plan, r.verify} {
		moment := each.Rotation.Pending.EstimatedPromotion
		at, err := time.Parse(time.RFC3339, string(moment))
		if err != nil {
			t.Errorf("%s: the moment is %q", each.Kind, moment)
			continue
		}
		if left := time.Until(at); left > time.Hour+time.Second || left < time.Hour-patience {
			t.Errorf("%s: the promotion is %v away, the delay of 1h has just begun", each.Kind, left)
		}
	}
	r.rotation(t, "pending", 1, "version 2 becomes active", "with the first good metadata probe from "+string(r.plan.Rotation.Pending.EstimatedPromotion)+" on, within 12h of it")
}

// TestTwoRotationsAtOnce: the version between becomes retired without ever being
// active, and what stands in the way afterwards is told.
func TestTwoRotationsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{fields: maps.Clone(stepwise)})
	w.serve(t)
	w.stop(t)
	w.rotate(t, 2)
	w.observe(t)
	w.rotate(t, 3)
	w.rotate(t, 4)
	r := lookAtRotation(t, w)
	r.result(t, command.Pass)
	r.snapshots(t, true, "1 active agrees", "2 pending agrees")
	r.rotation(t, "pending", 1, "version 4 is seen", "version 2, pending now, becomes retired", "with the same probe",
		"version 3, never seen here, becomes retired", "version 4 becomes active", "versions 1, 2, 3 encrypted")

	w.promote(t, 4)
	r = lookAtRotation(t, w)
	r.snapshots(t, true, "1 retired agrees", "2 retired agrees", "3 retired agrees", "4 active agrees")

	// The minimum is raised past versions that the node still keeps.
	must(t, w.transit.ConfigureKey(t.Context(), key, map[string]any{"min_decryption_version": 3}))
	r = lookAtRotation(t, w)
	r.result(t, command.Fail)
	r.snapshots(t, true, "1 retired blocked", "2 retired blocked", "3 retired agrees", "4 active agrees")
	r.rotation(t, "active", 4, "nothing is observed or promoted: Transit versions 1, 2", "until registry.metadata passes")
	for _, each := range []*command.Report{r.key, r.plan, r.verify} {
		expect(t, each, "registry.metadata", command.Fail, "versions_blocked")
	}
	must(t, w.transit.ConfigureKey(t.Context(), key, map[string]any{"min_decryption_version": 1}))

	// So is what breaks the profile or the mount's settings.
	w.rotate(t, 5)
	must(t, w.transit.AllowUpsert(t.Context(), true))
	must(t, w.transit.ConfigureKey(t.Context(), key, map[string]any{"deletion_allowed": true}))
	r = lookAtRotation(t, w)
	r.result(t, command.Fail)
	r.rotation(t, "active", 4, "disable_upsert is not true", "until transit.upsert passes", "(deletion_allowed)", "until transit.profile passes",
		"version 5 goes on towards its promotion")
	must(t, w.transit.AllowUpsert(t.Context(), false))
	must(t, w.transit.ConfigureKey(t.Context(), key, map[string]any{"deletion_allowed": false}))

	// Without OpenBao, local state is told and not compared.
	w.serve(t)
	must(t, w.transit.Stop())
	for _, look := range looks {
		report := examineWith(t, w, look.run)
		if report.Result != command.Fail || report.Registry == nil || report.Registry.ComparedWithTransit || report.Transit != nil {
			t.Errorf("%s is %s with %+v and %+v", look.name, report.Result, report.Registry, report.Transit)
			continue
		}
		for i, s := range report.Registry.Snapshots {
			if want := []string{"retired", "retired", "retired", "active", "pending"}[i]; s.State != want || s.InTransit != "" {
				t.Errorf("%s tells version %d as %+v, want %s", look.name, i+1, s, want)
			}
		}
		if rot := report.Rotation; rot != nil && (rot.State != "unknown" || rot.ActiveVersion != 4 || rot.Pending.TransitVersion != 5) {
			t.Errorf("%s tells %+v", look.name, rot)
		}
	}
}
