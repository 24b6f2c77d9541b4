package diagnose

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/registry"
)

// ahead are the events that follow if nothing changes in OpenBao, in order:
// first what stands in their way.
func (e *exam) ahead(o outlook) []command.Event {
	switch {
	case e.config == nil:
		return nil
	case !e.compared():
		return []command.Event{{What: "what comes next is not known: OpenBao's metadata was not read", When: "until " + transitKey + " passes"}}
	case e.registry == nil:
		return []command.Event{{What: "what comes next is not known: this node has no usable key registry", When: "until " + registryState + " passes"}}
	}
	obstacles := e.obstacles(o)
	if e.fresh {
		return append(obstacles, command.Event{
			What: fmt.Sprintf("this node's first key registry is written, with version %d active", e.registry.Active().TransitVersion),
			When: "at the provider's start",
		})
	}
	events := append(e.encryptionStops(), obstacles...)
	if len(obstacles) > 0 {
		return append(events, e.afterObstacles()...)
	}
	events = append(events, e.promotion(o)...)
	events = append(events, afterwards(o.course.end)...)
	if period := e.key.AutoRotatePeriod; period > 0 {
		events = append(events, command.Event{
			What: "OpenBao makes a further version by itself (auto_rotate_period), and this begins anew",
			When: "every " + config.Duration(period).String(),
		})
	}
	return events
}

// obstacles are what keeps this node from observing and promoting, all of them.
func (e *exam) obstacles(o outlook) []command.Event {
	var found []command.Event
	add := func(check, why string) {
		found = append(found, command.Event{What: "nothing is observed or promoted: " + why, When: "until " + check + " passes"})
	}
	switch {
	case e.upsertDisabled == nil:
		add(transitUpsert, "the mount's disable_upsert could not be read")
	case !*e.upsertDisabled:
		add(transitUpsert, "the mount's disable_upsert is not true")
	}
	if violations := e.key.CheckProfile(); len(violations) > 0 {
		fields := make([]string, len(violations))
		for i, v := range violations {
			fields[i] = v.Field
		}
		add(transitProfile, "the key does not have the required profile ("+strings.Join(fields, ", ")+")")
	}
	if e.fresh {
		return found
	}
	if e.registry.Fingerprint() != e.config.Fingerprint() {
		add(registryState, "the state file belongs to another configuration")
	}
	if e.checkpointErr != nil {
		add(registryCheck, "the checkpoint does not confirm the state file")
	}
	if o.refused != nil {
		add(registryMetadata, refusal(o.refused))
	}
	return found
}

// refusal is why the registry's transitions refuse the metadata. An error that
// is neither of their two kinds is a defect and told without its text.
func refusal(err error) string {
	if r, ok := errors.AsType[*registry.Rejection](err); ok {
		return r.Message()
	}
	if h, ok := errors.AsType[registry.Hold](err); ok {
		return string(h)
	}
	return "the registry's transitions would break one of its invariants: report this as a defect"
}

// encryptionStops tells what a raised min_encryption_version does while the
// version above it waits.
func (e *exam) encryptionStops() []command.Event {
	if !e.registry.EncryptionBlocked(e.metadata) {
		return nil
	}
	return []command.Event{{
		What: fmt.Sprintf("Encrypt is refused and Status is unhealthy: min_encryption_version %d forbids the active version %d",
			e.metadata.MinEncryption, e.registry.Active().TransitVersion),
		When: fmt.Sprintf("now, until version %d is active or the minimum is lowered", e.metadata.Latest),
	}}
}

// afterObstacles is what is left of a promotion whose moment cannot be told.
func (e *exam) afterObstacles() []command.Event {
	latest := e.metadata.Latest
	if latest <= e.registry.Active().TransitVersion {
		return nil
	}
	return []command.Event{{
		What: fmt.Sprintf("version %d goes on towards its promotion: it needs %s, then rotation.activationDelay (%s)",
			latest, count(e.rules().StableObservations, "observation"), e.config.Rotation.ActivationDelay),
		When: "after that",
	}}
}

// waiting says that nobody is there to promote.
func waiting(l life) []command.Event {
	switch l {
	case stopped:
		return []command.Event{{What: "what follows waits for a provider: none serves server.socketPath, so none runs or one is still starting", When: "until one runs"}}
	case unclear:
		return []command.Event{{What: "what follows needs a running provider, and whether one runs is not known", When: "until " + socketKMS + " passes"}}
	}
	return nil
}

// promotion are the events up to the promotion of the candidate.
func (e *exam) promotion(o outlook) []command.Event {
	c := o.course
	if c.candidate == nil {
		return []command.Event{{What: fmt.Sprintf(
			"nothing until the key is rotated in OpenBao: version %d is active here and OpenBao's latest", c.end.Active().TransitVersion)}}
	}
	events := append(waiting(o.life), e.seen(o)...)
	version, delay := c.candidate.TransitVersion, e.config.Rotation.ActivationDelay
	if c.observations > 0 {
		what := fmt.Sprintf("version %d has %s, all that it needs, and rotation.activationDelay (%s) begins",
			version, count(e.rules().StableObservations, "durable observation"), delay)
		events = append(events, command.Event{What: what, When: e.stableWhen(o)})
	}
	return append(events, command.Event{
		What: fmt.Sprintf("version %d becomes active: Status gives its key_id, Encrypt uses it, and version %d becomes retired and stays for decryption",
			version, e.registry.Active().TransitVersion),
		When: e.promotionWhen(o),
	})
}

const withThat = "with the same probe"

// seen are the events of the probe that sees versions for the first time.
func (e *exam) seen(o outlook) []command.Event {
	taken, version := o.course.taken, o.course.candidate.TransitVersion
	if len(taken.Accepted) == 0 {
		return nil
	}
	when := e.nextProbe(o)
	events := []command.Event{{
		What: fmt.Sprintf("version %d is seen and becomes pending: it decrypts, and has 1 of %s", version, count(e.rules().StableObservations, "observation")),
		When: when,
	}}
	if taken.Superseded != 0 {
		events = append(events, command.Event{
			What: fmt.Sprintf("version %d, pending now, becomes retired: it decrypts and will never be active", taken.Superseded), When: withThat})
	}
	if skipped := taken.Accepted[:len(taken.Accepted)-1]; len(skipped) > 0 {
		verb := "becomes retired: it decrypts"
		if len(skipped) > 1 {
			verb = "become retired: they decrypt"
		}
		events = append(events, command.Event{
			What: versions(skipped) + ", never seen here, " + verb + " and will never be active", When: withThat})
	}
	return events
}

// nextProbe is when the next metadata probe is: a start begins with one.
func (e *exam) nextProbe(o outlook) string {
	if o.life == stopped {
		return "at the provider's start"
	}
	return "at the next metadata probe, within " + e.config.Status.ProbeInterval.String()
}

// stableWhen is when the last observation that is needed is made.
func (e *exam) stableWhen(o outlook) string {
	left := o.course.observations
	switch {
	case len(o.course.taken.Accepted) == 0 && left == 1:
		return e.nextProbe(o)
	case len(o.course.taken.Accepted) == 0 && o.life == stopped:
		return fmt.Sprintf("with the last of %d good metadata probes, %s, the first at the provider's start", left, e.apart(o))
	case len(o.course.taken.Accepted) == 0:
		return fmt.Sprintf("with the last of %d good metadata probes, %s, the first within %s", left, e.apart(o), e.config.Status.ProbeInterval)
	case left == 1:
		return withThat
	}
	return fmt.Sprintf("%s later, %s", count(left-1, "good metadata probe"), e.apart(o))
}

// apart is how far metadata probes are from each other. A start that is not yet
// well probes again at every bootstrap.retryInterval, and each of those counts.
func (e *exam) apart(o outlook) string {
	if o.life != alive {
		return "at most " + e.config.Status.ProbeInterval.String() + " apart"
	}
	return e.config.Status.ProbeInterval.String() + " apart"
}

// promotionWhen tells the moment of the promotion as well as it is known.
func (e *exam) promotionWhen(o outlook) string {
	delay, interval := e.config.Rotation.ActivationDelay, e.config.Status.ProbeInterval
	earliest, latest := e.promotionBounds(o)
	end := o.countdown.end
	switch {
	case o.life == stopped && o.course.observations == 0:
		return fmt.Sprintf("at the earliest %s after the provider's start: the delay begins again in full", delay)
	case o.life == stopped:
		return fmt.Sprintf("with the first good metadata probe after the delay, at the earliest %s after the provider's start", earliest)
	case o.course.observations > 0:
		return fmt.Sprintf("with the first good metadata probe after the delay: at the earliest %s from now, about %s if every probe is good", earliest, latest)
	case !o.countdown.asked:
		return fmt.Sprintf("after rotation.activationDelay (%s), about %s from now at the latest if every probe is good; %s", delay, latest, o.countdown.instead)
	case end.IsZero():
		return fmt.Sprintf("at the earliest %s after the next good metadata probe, which begins the delay", delay)
	case end.After(e.now()):
		return fmt.Sprintf("with the first good metadata probe from %s on, within %s of it", command.At(end), interval)
	}
	return fmt.Sprintf("with the next good metadata probe, within %s: the delay has ended", interval)
}

// promotionBounds are how long the promotion takes from now on while a provider
// runs, or from its start. A running one's probes are at least an interval apart,
// and the next one may come at once, so the promotion is never earlier than told;
// it is later when a probe takes long or fails. With no further observation needed
// the delay may have ended, or not begun. One that starts may probe far more
// often, so that only the delay is sure.
func (e *exam) promotionBounds(o outlook) (earliest, latest config.Duration) {
	interval, delay, left := e.config.Status.ProbeInterval, e.config.Rotation.ActivationDelay, o.course.observations
	if left == 0 {
		return 0, delay + 2*interval
	}
	earliest = config.Duration(left-1)*interval + delay
	latest = earliest + 2*interval
	if o.life != alive {
		earliest = delay
	}
	return earliest, latest
}

// afterwards is what is left for people once the registry is as given.
func afterwards(end *registry.Registry) []command.Event {
	old := retired(end)
	if len(old) == 0 {
		return nil
	}
	active := end.Active().TransitVersion
	return []command.Event{
		{What: fmt.Sprintf("once every node and API server uses version %d, the data that %s encrypted is rewritten", active, versions(old))},
		{What: fmt.Sprintf("once nothing needs %s, backups included, every node retires what is below version %d (retire-versions --before-version %d); only then may OpenBao's minimums be raised",
			versions(old), active, active)},
	}
}

// versions is "version 2" or "versions 2, 3".
func versions(list []int) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = strconv.Itoa(v)
	}
	noun := "version "
	if len(list) > 1 {
		noun = "versions "
	}
	return noun + strings.Join(words, ", ")
}

// count is "1 observation" or "3 observations".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
