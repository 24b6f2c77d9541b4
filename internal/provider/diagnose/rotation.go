package diagnose

import (
	"context"
	"slices"

	"github.com/baokms/baokms/internal/provider/command"
)

// The states of a rotation (see command.Rotation).
const (
	rotationActive  = "active"
	rotationPending = "pending"
	rotationUnknown = "unknown"
)

// planChecks are those of rotation-plan: what stands between a new version and
// its promotion, and whether a provider runs that would promote it.
var planChecks = []string{
	configValid, authLogin, transitKey, transitProfile, transitUpsert,
	registryState, registryCheck, registryMetadata, socketKMS,
}

// RotationPlan sets registry and Transit side by side and tells what will happen
// next and when, if nothing changes in OpenBao (design: config-and-cli,
// commands). It changes nothing: logins, reads, and questions to the running
// provider.
func RotationPlan(ctx context.Context, o Options) *command.Report {
	e := newExam(o)
	defer e.close()
	return e.rotationReport(ctx, run(ctx, e, table, planChecks)).Seal(command.KindRotationPlan)
}

// rotationReport is the report of rotation-plan, unsealed.
func (e *exam) rotationReport(ctx context.Context, checks []command.Check) *command.Report {
	r := e.sideBySide(checks)
	o := e.outlook(ctx, checks)
	r.Rotation = e.rotationSection(o)
	if o.life == stopped && e.compared() && (e.fresh || o.course.candidate != nil) {
		r.Next = append(r.Next, command.Step{Text: "Start the provider, unless its log says that it is starting: nothing of what is ahead happens until it runs"})
	}
	return r
}

// rotationSection tells where the node stands. What the files hold is told also
// where it is not compared; the state is unknown then.
func (e *exam) rotationSection(o outlook) *command.Rotation {
	told := &command.Rotation{State: rotationUnknown, Ahead: e.ahead(o)}
	r := e.local()
	if r == nil {
		return told
	}
	told.ActiveVersion, told.ActiveKeyIDHash = r.Active().TransitVersion, r.Active().Binding.KeyIDHash()
	if e.compared() {
		told.State = rotationActive
	}
	p := r.Pending()
	if p == nil {
		return told
	}
	if e.compared() {
		told.State = rotationPending
	}
	told.Pending = &command.Pending{
		TransitVersion: p.TransitVersion,
		KeyIDHash:      p.Binding.KeyIDHash(),
		Observations:   p.StableObservations,
		Required:       e.rules().StableObservations,
		Stable:         r.IsStable(e.rules()),
	}
	if told.Pending.Stable {
		told.Pending.EstimatedPromotion = command.At(o.countdown.end)
	}
	return told
}

// outlook is what the events ahead depend on beside registry and metadata.
type outlook struct {
	life      life
	countdown countdown
	course    course
	// refused is what the registry says against the metadata.
	refused error
}

// life says whether a provider runs on this node.
type life int

const (
	stopped life = iota
	alive
	unclear // it serves the socket, but the check of it found something wrong
)

func (e *exam) outlook(ctx context.Context, checks []command.Check) outlook {
	o := outlook{life: e.life(checks)}
	r := e.local()
	if r == nil || e.config == nil {
		return o
	}
	if e.compared() {
		o.course, o.refused = foresee(r, e.metadata, e.rules(), e.now().Unix())
	}
	if r.IsStable(e.rules()) && o.life != stopped {
		o.countdown = askCountdown(ctx, e.config.Server.ReportSocketPath, r.Hash())
	}
	return o
}

// life goes by socket.kms, which every command asks for that has a rotation.
func (e *exam) life(checks []command.Check) life {
	if e.running != nil {
		return alive
	}
	if slices.ContainsFunc(checks, func(c command.Check) bool {
		return c.ID == socketKMS && (c.Result == command.Fail || c.Result == command.Warn)
	}) {
		return unclear
	}
	return stopped
}
