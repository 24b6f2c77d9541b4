package reporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

const (
	// firstRetry is the delay after a failed write; it doubles up to the interval.
	firstRetry = time.Second
	// tries is how often a cycle starts again after a conflict before it counts as
	// a failed write.
	tries = 5
)

// Reporter keeps one node's KMSNodeReport.
type Reporter struct {
	options Options
	socket  *socket
	object  object
	plans   *plans
	// unwritten is why Ready refuses; it points to nil once a report is written.
	unwritten atomic.Pointer[error]

	// What follows belongs to the goroutine of Start.

	// observed is the object as last read or written; nil: read it first.
	observed *v1alpha1.KMSNodeReport
	// wrote is when it was last written, lastSent what was.
	wrote    time.Time
	lastSent v1alpha1.KMSNodeReportStatus
	// beat is how long after a write the next one is due.
	beat time.Duration
	told logged
	// following is the provider whose plans are watched; unfollow ends that.
	following string
	unfollow  func()
}

// logged is what the log said last, so that it says it once.
type logged struct {
	silence silence
	failure string
	left    int
}

var errStarting = errors.New("no report has been written since the start")

// New checks the options. It reads nothing yet.
func New(o Options) (*Reporter, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	r := &Reporter{
		options: o,
		socket:  newSocket(o.Socket),
		object:  object{o.Client, o.Node},
		plans:   newPlans(o.Node),

		unfollow: func() {},
	}
	r.unwritten.Store(&errStarting)
	return r, nil
}

// Start reports until ctx ends and returns nil then: it can be a Runnable of a
// controller-runtime manager. A call that runs when ctx ends is broken off; what
// it left is found at the next start. Call it once.
func (r *Reporter) Start(ctx context.Context) error {
	defer func() { r.unfollow() }()
	retry := firstRetry
	for {
		err := r.cycle(ctx)
		if ctx.Err() != nil {
			return nil
		}
		r.settle(err)
		wait := r.pause()
		if err != nil {
			wait = shorter(min(retry, r.options.Interval), 2)
			retry = min(2*retry, r.options.Interval)
		} else {
			retry = firstRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		case <-r.plans.changed:
		}
	}
}

// NeedLeaderElection tells a controller-runtime manager that every replica runs
// it: each node has its own.
func (r *Reporter) NeedLeaderElection() bool { return false }

// Ready is nil when the API server holds what the reporter last had to say, also
// when that is that the provider does not answer; otherwise why not. It can be
// called at any time.
func (r *Reporter) Ready() error {
	if err := *r.unwritten.Load(); err != nil {
		return fmt.Errorf("node reporter: %w", err)
	}
	return nil
}

// cycle looks at the socket and brings the object to what it told, starting again
// when somebody else wrote meanwhile.
func (r *Reporter) cycle(ctx context.Context) error {
	var err error
	for range tries {
		if err = r.attempt(ctx); !errors.Is(err, errMoved) {
			return err
		}
		r.observed = nil
	}
	return err
}

func (r *Reporter) attempt(ctx context.Context) error {
	if err := r.know(ctx); err != nil {
		return err
	}
	if r.observed != nil {
		r.follow(ctx, r.observed.Spec.ProviderName)
	}
	o := r.socket.observe(ctx, func(told *report.NodeReport) []int32 { return r.asked(told.Provider.Name) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.tell(o.silence)
	if r.observed == nil {
		if o.silence != nil {
			return fmt.Errorf("there is no KMSNodeReport yet, and no provider that says its name: %s", o.silence.message)
		}
		made, err := r.object.create(ctx, o.report.Provider.Name)
		if err != nil {
			return err
		}
		r.options.Logger.Info("report.created", "provider", o.report.Provider.Name)
		r.took(made)
		r.follow(ctx, made.Spec.ProviderName)
	}
	r.tellLeftOut(r.observed.Spec.ProviderName)
	next := statusOf(r.observed, o, r.asked(r.observed.Spec.ProviderName))
	if sameContent(r.lastSent, next) && time.Since(r.wrote) < r.beat {
		return nil
	}
	return r.write(ctx, next)
}

// follow watches the plans of the provider that the object is of, in a goroutine
// that ends with ctx or with unfollow: the API server sends no others. Until they
// are read, the object's own answers stay.
func (r *Reporter) follow(ctx context.Context, provider string) {
	if r.following == provider {
		return
	}
	r.unfollow()
	r.plans.forget()
	watched, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { r.plans.watch(watched, r.options.Client, provider, r.options.Logger) })
	r.following, r.unfollow = provider, func() {
		cancel()
		watching.Wait()
	}
}

// know reads the object unless it is known.
func (r *Reporter) know(ctx context.Context) error {
	if r.observed != nil {
		return nil
	}
	found, err := r.object.read(ctx)
	if err != nil || found == nil {
		return err
	}
	r.took(found)
	return nil
}

// took makes an object the one that is known. What it holds was sent by an
// earlier reporter, at its observedAt: one that was restarted need not write. A
// time that is not in the last heartbeat says nothing.
func (r *Reporter) took(o *v1alpha1.KMSNodeReport) {
	r.observed, r.lastSent, r.wrote = o, o.Status, time.Time{}
	r.beat = shorter(r.options.Heartbeat, 10)
	if at := o.Status.ObservedAt; at != nil {
		if age := time.Since(at.Time); age >= 0 && age < r.options.Heartbeat {
			r.wrote = time.Now().Add(-age)
		}
	}
}

func (r *Reporter) write(ctx context.Context, next v1alpha1.KMSNodeReportStatus) error {
	written, err := r.object.apply(ctx, r.observed, next)
	if err != nil {
		// Whether it was written is not known.
		r.observed = nil
		return err
	}
	// Compared is what was sent: an API server with an older CRD drops fields, and
	// would be sent them again at every look.
	r.observed, r.lastSent, r.wrote = written, next, time.Now()
	r.beat = shorter(r.options.Heartbeat, 10)
	r.options.Logger.Debug("report.written", "resource_version", written.ResourceVersion)
	return nil
}

// asked are the versions to answer for a provider. Until the plans are known,
// they are those that the object answers already.
func (r *Reporter) asked(provider string) []int32 {
	versions, _, known := r.plans.asked(provider)
	if known || r.observed == nil {
		return versions
	}
	versions = nil
	for _, p := range r.observed.Status.RetirementPlans {
		versions = append(versions, p.BeforeVersion)
	}
	return versions
}

// tellLeftOut logs that plans ask more than a report can answer.
func (r *Reporter) tellLeftOut(provider string) {
	_, left, _ := r.plans.asked(provider)
	if left == r.told.left {
		return
	}
	r.told.left = left
	r.options.Logger.Warn("plans.unanswered", "versions_left_out", left,
		"next_step", fmt.Sprintf("a report answers %d versions; remove plans of this provider that are done", mostAsked))
}

// pause is the time to the next cycle: an interval, or less when a heartbeat is
// due before.
func (r *Reporter) pause() time.Duration {
	return max(0, min(shorter(r.options.Interval, 5), r.beat-time.Since(r.wrote)))
}

// shorter is d without a random part of it, up to one part in parts.
func shorter(d time.Duration, parts int64) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/parts+1))
}

// settle keeps what a cycle ended with for Ready, and logs a failure when it
// starts, changes and ends.
func (r *Reporter) settle(err error) {
	r.unwritten.Store(&err)
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	if failure == r.told.failure {
		return
	}
	r.told.failure = failure
	if err == nil {
		r.options.Logger.Info("report.current")
		return
	}
	r.options.Logger.Warn("report.unwritten", "error", failure)
}

// tell logs that the provider fell silent, is so for another reason, or answers.
func (r *Reporter) tell(s *silence) {
	now := silence{}
	if s != nil {
		now = *s
	}
	if now == r.told.silence {
		return
	}
	r.told.silence = now
	if s == nil {
		r.options.Logger.Info("provider.reachable")
		return
	}
	r.options.Logger.LogAttrs(context.Background(), slog.LevelWarn, "provider.unreachable",
		slog.String("reason", s.reason), slog.String("error", s.message))
}
