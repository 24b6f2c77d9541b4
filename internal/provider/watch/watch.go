package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/provider/transit"
)

// Transit is what a probe asks of OpenBao. *transit.Client implements it.
type Transit interface {
	ReadKey(ctx context.Context) (transit.Key, error)
	ReadUpsertDisabled(ctx context.Context) (bool, error)
	// RoundTrip encrypts and decrypts random bytes with exactly this version.
	RoundTrip(ctx context.Context, key transit.Binding) error
}

// Store makes registries durable. *store.Store implements it.
type Store interface {
	Load(fingerprint string) (*registry.Registry, error)
	Save(next *registry.Registry) error
	Attempt() *registry.Registry
	Retry() error
	Verify() error
}

// Observer is told of probes, for metrics. Status is "ok" or a reason code.
type Observer interface {
	MetadataObserved(status string)
}

// Options are what a Watcher needs; all fields but Observer are required.
type Options struct {
	Transit     Transit
	Store       Store
	Board       *status.Board
	Scope       identity.Scope
	Fingerprint string
	Rules       registry.Rules
	// ActivationDelay is rotation.activationDelay.
	ActivationDelay time.Duration
	// The status section of the configuration.
	ProbeInterval, DeepProbeInterval, MaxStaleness time.Duration
	// DiscoveryTimeout bounds one discovery: openbao.timeout.
	DiscoveryTimeout time.Duration
	Logger           *slog.Logger
	Observer         Observer
}

// Watcher is the one writer of the registry and of the status view.
type Watcher struct {
	o    Options
	turn chan struct{} // holds one token while somebody moves the registry

	// The fields below belong to whoever has the turn.

	// registry is durable. It is the published one, but for the moment between
	// a durable promotion and its publication.
	registry    *registry.Registry
	loaded      bool // the files have been read
	starting    bool
	metadata    status.Metadata
	deep        status.Deep
	persistence status.Persistence
	// upsertDisabled is what the last metadata probe saw of the mount.
	upsertDisabled bool
	// proved is set by a deep probe in the current probe; deepOwed while one
	// was left out.
	proved, deepOwed bool
	// attempted is what the outstanding save would change.
	attempted registry.Change
	// problems are the errors behind the reasons, for the log and for Start.
	metadataErr, deepErr, persistenceErr error
	activation                           activation
	reports                              map[string]*report

	discoveries discoveries
}

// activation is the deadline of one candidate, in monotonic time. The zero
// value is "not started".
type activation struct {
	keyID string
	at    time.Time
}

// New returns a Watcher that has done nothing yet.
func New(o Options) *Watcher {
	return &Watcher{
		o:        o,
		turn:     make(chan struct{}, 1),
		starting: true,
		reports:  map[string]*report{},
	}
}

// take waits for the turn, or for the end of ctx.
func (w *Watcher) take(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Watcher) release() { <-w.turn }

// publish replaces the view by one made from the current facts: the one atomic
// swap that Encrypt, Decrypt and Status read.
func (w *Watcher) publish() {
	w.o.Board.Store(status.New(status.Facts{
		Starting:     w.starting,
		Registry:     w.registry,
		Metadata:     w.metadata,
		Deep:         w.deep,
		Persistence:  w.persistence,
		Rules:        w.o.Rules,
		PromotionAt:  w.promotionAt(),
		MaxStaleness: w.o.MaxStaleness,
		DeepInterval: w.o.DeepProbeInterval,
	}))
}

// Run probes until ctx ends. Start must have succeeded. Run returns after its
// last probe and every discovery have ended.
func (w *Watcher) Run(ctx context.Context) {
	defer w.discoveries.close()

	metadataAt := time.Now().Add(w.o.ProbeInterval)
	deepAt := time.Now().Add(w.o.DeepProbeInterval)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(earlier(metadataAt, deepAt)))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		metadataDue, deepDue := !now.Before(metadataAt), !now.Before(deepAt)
		if err := w.take(ctx); err != nil {
			return
		}
		w.probe(ctx, metadataDue, deepDue)
		w.release()
		// Intervals count from the end of a probe: a slow OpenBao is not asked
		// faster than it answers.
		if metadataDue {
			metadataAt = time.Now().Add(w.o.ProbeInterval)
		}
		if deepDue {
			deepAt = time.Now().Add(w.o.DeepProbeInterval)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Serving ends the starting phase: the KMS socket is bound and about to be
// served. From here to the end of ctx, which is Run's, a Decrypt may cause a
// discovery.
func (w *Watcher) Serving(ctx context.Context) {
	w.discoveries.open(ctx)
	w.turn <- struct{}{}
	defer w.release()
	w.starting = false
	w.publish()
}
