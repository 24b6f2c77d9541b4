package diagnose

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/registry"
)

// plans are the nodes whose rotation-plan is kept in testdata/rotation, each with
// the state that it tells and words that must be ahead, in order.
var plans = map[string]struct {
	node    func(*story)
	failing []string
	state   string
	ahead   []string
}{
	"steady": {func(*story) {}, nil, "active", []string{"nothing until the key is rotated"}},
	"unseen": {func(s *story) { s.rotate(2) }, nil, "active", []string{
		"version 2 is seen and becomes pending", "within 30s", "3 durable observations", "2 good metadata probes later, 30s apart",
		"version 2 becomes active", "version 1 becomes retired", "at the earliest 3m from now, about 4m",
		"the data that version 1 encrypted is rewritten", "retire-versions --before-version 2"}},
	"pending": {func(s *story) { s.rotate(2).probe(1) }, nil, "pending", []string{
		"3 durable observations", "with the last of 2 good metadata probes, 30s apart, the first within 30s", "at the earliest 2m30s from now, about 3m30s"}},
	"one-more": {func(s *story) { s.rotate(2).probe(2) }, nil, "pending", []string{
		"at the next metadata probe, within 30s", "at the earliest 2m from now, about 3m"}},
	"stable": {func(s *story) { s.rotate(2).probe(3) }, nil, "pending", []string{
		"version 2 becomes active", "after rotation.activationDelay (2m), about 3m from now", "server.reportSocketPath"}},
	"promoted": {func(s *story) { s.rotate(2).probe(3).promote() }, nil, "active", []string{
		"nothing until the key is rotated", "version 1 encrypted is rewritten"}},
	"superseded": {func(s *story) { s.rotate(2).probe(2).rotate(5) }, nil, "pending", []string{
		"version 5 is seen", "version 2, pending now, becomes retired", "with the same probe", "versions 3, 4, never seen here, become retired",
		"version 5 becomes active", "versions 1, 2, 3, 4 encrypted", "--before-version 5"}},
	"skipped-one": {func(s *story) { s.rotate(3) }, nil, "active", []string{"version 2, never seen here, becomes retired: it decrypts"}},
	"encryption-blocked": {func(s *story) { s.rotate(2).probe(1).minimums(1, 2) }, []string{registryMetadata}, "pending", []string{
		"Encrypt is refused", "min_encryption_version 2 forbids the active version 1", "now, until version 2 is active", "version 2 becomes active"}},
	"stopped": {func(s *story) { s.rotate(2).running = nil }, nil, "active", []string{
		"waits for a provider", "version 2 is seen", "at the provider's start", "2 good metadata probes later, at most 30s apart", "at the earliest 2m after the provider's start"}},
	"stopped-pending": {func(s *story) { s.rotate(2).probe(1).running = nil }, nil, "pending", []string{
		"with the last of 2 good metadata probes, at most 30s apart, the first at the provider's start", "at the earliest 2m after the provider's start"}},
	"stopped-stable": {func(s *story) { s.rotate(2).probe(3).running = nil }, nil, "pending", []string{
		"at the earliest 2m after the provider's start: the delay begins again in full"}},
	"unclear": {func(s *story) { s.rotate(2).running = nil }, []string{socketKMS}, "active", []string{
		"whether one runs is not known", "until socket.kms passes", "at most 30s apart", "at the earliest 2m from now"}},
	"blocked": {func(s *story) { s.rotate(2).probe(3).promote().rotate(3).minimums(2, 0) }, []string{registryMetadata}, "active", []string{
		"nothing is observed or promoted: Transit version 1: min_decryption_version 2", "until registry.metadata passes", "version 3 goes on", "after that"}},
	"rolled-back": {func(s *story) { s.rotate(2).probe(1).rotate(1) }, []string{registryMetadata}, "pending", []string{
		"OpenBao's latest version is 1"}},
	"drift": {func(s *story) { s.rotate(2).metadata.CreatedAtUnix[1]++ }, []string{registryMetadata}, "active", []string{
		"the creation time in OpenBao differs", "version 2 goes on"}},
	"profile-and-upsert": {func(s *story) {
		allowed := false
		s.rotate(2).upsertDisabled = &allowed
		s.key.Derived, s.key.Exportable = true, true
	}, []string{transitUpsert, transitProfile}, "active", []string{
		"disable_upsert is not true", "until transit.upsert passes", "(derived, exportable)", "until transit.profile passes", "version 2 goes on"}},
	"upsert-unread": {func(s *story) { s.rotate(2).upsertDisabled = nil }, []string{transitUpsert}, "active", []string{"disable_upsert could not be read"}},
	"checkpoint":    {func(s *story) { s.rotate(2).checkpointErr = errTest }, []string{registryCheck}, "active", []string{"the checkpoint does not confirm"}},
	"other-configuration": {func(s *story) { s.rotate(2).config.Transit.KeyName = "canary-other" }, []string{registryState}, "active", []string{
		"belongs to another configuration", "until registry.state passes"}},
	"not-compared": {func(s *story) { s.rotate(2).probe(2).unread() }, []string{transitKey}, "unknown", []string{
		"not known: OpenBao's metadata was not read", "until transit.key passes"}},
	"fresh":       {func(s *story) { s.fresh, s.running = true, nil }, nil, "unknown", []string{"first key registry is written, with version 1 active"}},
	"no-registry": {func(s *story) { s.registry = nil }, []string{registryState}, "unknown", []string{"no usable key registry"}},
	"auto-rotate": {func(s *story) { s.key.AutoRotatePeriod = 720 * time.Hour }, nil, "active", []string{"auto_rotate_period", "every 720h"}},
}

var errTest = madeUp("the checkpoint is damaged")

type madeUp string

func (e madeUp) Error() string { return string(e) }

func TestRotationPlan(t *testing.T) {
	for name, c := range plans {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			c.node(s)
			r := s.rotationReport(t.Context(), checked(planChecks, c.failing...)).Seal(command.KindRotationPlan)
			holdsReport(t, "plan-"+name, s.exam, r)
			if r.Rotation.State != c.state {
				t.Errorf("the state is %s, want %s", r.Rotation.State, c.state)
			}
			rest := aheadOf(r)
			for _, words := range c.ahead {
				_, after, found := strings.Cut(rest, words)
				if !found {
					t.Fatalf("%q is not ahead, or not in this order:\n%s", words, aheadOf(r))
				}
				rest = after
			}
		})
	}
}

// What is told of a promotion's moment holds for a provider that probes at every
// interval, wherever in an interval the report was made.
func TestThePromotionComesWithinItsBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 7))
	for range 500 {
		s := newStory(t)
		interval, delay := time.Duration(1+random.IntN(90))*time.Second, time.Duration(1+random.IntN(400))*time.Second
		required, seen := 1+random.IntN(5), random.IntN(6)
		s.config.Status.ProbeInterval, s.config.Rotation.ActivationDelay = config.Duration(interval), config.Duration(delay)
		s.config.Rotation.StableObservationCount = required
		s.rotate(2).probe(min(seen, required))

		c, err := foresee(s.registry, s.metadata, s.rules(), rotationNow.Unix())
		if err != nil {
			t.Fatal(err)
		}
		earliest, latest := s.promotionBounds(outlook{life: alive, course: c})
		at := promotedAfter(t, s, interval, delay, time.Duration(random.Int64N(int64(interval)+1)))
		if at < time.Duration(earliest) || at > time.Duration(latest) {
			t.Fatalf("promoted after %v, told were %v to %v (%d of %d observations, every %v, delay %v)", at, earliest, latest, seen, required, interval, delay)
		}
	}
}

// promotedAfter is when a running provider promotes whose next probe is so far
// away, by the rules of the watcher: a stable candidate that fresh metadata
// validates starts the delay, and the first probe after it promotes.
func promotedAfter(t *testing.T, s *story, interval, delay, first time.Duration) time.Duration {
	t.Helper()
	r := s.registry
	deadline := time.Duration(-1)
	for at := first; at < 24*time.Hour; at += interval {
		next, _, err := r.Observe(s.metadata, s.rules(), rotationNow.Unix())
		if err != nil {
			t.Fatal(err)
		}
		r = next
		if deadline < 0 && r.IsStable(s.rules()) {
			deadline = at + delay
		}
		if next, _, err := r.Promote(s.metadata, s.rules(), deadline >= 0 && at >= deadline, rotationNow.Unix()); err == nil {
			if next.Active().TransitVersion != 2 {
				t.Fatalf("version %d became active", next.Active().TransitVersion)
			}
			return at
		}
	}
	t.Fatal("not promoted within a day")
	return 0
}

// A candidate that had enough observations for an earlier configuration needs
// what the present one says.
func TestForeseeFollowsTheRules(t *testing.T) {
	for _, c := range []struct{ before, seen, now, want int }{
		{3, 2, 2, 1}, // counted, but not yet marked as stable
		{3, 3, 5, 2},
		{3, 3, 3, 0},
		{1, 0, 1, 1},
		{1024, 0, 1024, 1024},
	} {
		s := newStory(t).rotate(2)
		s.config.Rotation.StableObservationCount = c.before
		s.probe(c.seen)
		got, err := foresee(s.registry, s.metadata, registry.Rules{StableObservations: c.now, RejectRollback: true}, rotationNow.Unix())
		if err != nil || got.observations != c.want || got.candidate.TransitVersion != 2 {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}
