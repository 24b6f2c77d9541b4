package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

const opDiscover = "look up an unknown key_id"

// discoveries share and limit the metadata reads that Decrypt asks for: one at
// a time, one per status.probeInterval, failures included (design: registry,
// discovery).
type discoveries struct {
	running sync.WaitGroup
	mu      sync.Mutex
	life    context.Context // of the provider; nil while none may start
	current *discovery      // nil when none runs
	last    time.Time       // when the last one asked OpenBao; zero if it did not
	lastErr error           // how it ended
}

// discovery is one attempt. err may be read once done is closed.
type discovery struct {
	done chan struct{}
	err  error
}

func (d *discoveries) open(life context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life = life
}

// close lets no further one start and waits for the running one.
func (d *discoveries) close() {
	d.mu.Lock()
	d.life = nil
	d.mu.Unlock()
	d.running.Wait()
}

// Discover makes sure that OpenBao's metadata has been looked at for a key_id
// that the registry does not know. After nil, the caller looks it up in the
// view again; it may still be unknown. An error is fault.DiscoveryFailed, or
// ctx's own when the caller's patience ended first: the shared attempt goes on.
//
// A lookup never counts as an observation, starts no delay and promotes nothing.
func (w *Watcher) Discover(ctx context.Context, keyID string) error {
	if r := w.o.Board.Load().Registry(); r != nil {
		if _, known := r.Lookup(keyID); known {
			return nil // a probe was faster
		}
	}
	d, err := w.joinDiscovery()
	if d == nil {
		return err
	}
	select {
	case <-d.done:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// joinDiscovery returns the attempt to wait for. When the interval does not
// allow a new one, it returns nil and how the last one ended.
func (w *Watcher) joinDiscovery() (*discovery, error) {
	s := &w.discoveries
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.current != nil:
		return s.current, nil
	case s.life == nil || s.life.Err() != nil:
		return nil, fault.New(fault.DiscoveryFailed, opDiscover, "the provider is stopping")
	case !s.last.IsZero() && time.Since(s.last) < w.o.ProbeInterval:
		return nil, s.lastErr
	}
	d := &discovery{done: make(chan struct{})}
	s.current = d
	life := s.life
	// Ends with life or the discovery's own deadline; close waits for it.
	s.running.Go(func() {
		var asked time.Time
		asked, d.err = w.discover(life)
		s.mu.Lock()
		s.current, s.last, s.lastErr = nil, asked, d.err
		s.mu.Unlock()
		close(d.done)
	})
	return d, nil
}

// discover is one attempt, from waiting for the turn to the published result. It
// returns when OpenBao was asked: the zero time when the turn did not come, so
// that the interval is not used up by an attempt that learned nothing.
func (w *Watcher) discover(life context.Context) (asked time.Time, err error) {
	ctx, cancel := context.WithTimeout(life, w.o.DiscoveryTimeout)
	defer cancel()
	if w.take(ctx) != nil {
		return time.Time{}, fault.New(fault.DiscoveryFailed, opDiscover, "a probe that OpenBao answers slowly is still running: see status.probe in the log")
	}
	defer w.release()
	asked = time.Now()
	err = w.guarded(func() error { return w.discoverNow(ctx, asked) })
	switch {
	case err == nil:
		w.reportProbe(probeDiscovery, asked, "", fault.ClassNone, nil)
		return asked, nil
	case life.Err() == nil:
		w.reportProbe(probeDiscovery, asked, reasonOf(err), classOf(err), err)
	}
	return asked, fault.Wrap(fault.DiscoveryFailed, opDiscover, withoutContext(err))
}

func (w *Watcher) discoverNow(ctx context.Context, began time.Time) error {
	if attempt := w.o.Store.Attempt(); attempt != nil {
		return errors.New("a failed save is outstanding, so nothing new can be taken in")
	}
	md, err := w.read(ctx)
	if err != nil {
		// A failed read counts for health as a probe's does; a provider that is
		// stopping has learned nothing.
		if !errors.Is(ctx.Err(), context.Canceled) {
			w.endMetadata(began, err)
			w.publish()
		}
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err() // nothing is persisted after the end
	}
	w.metadata.Seen, w.metadata.SeenAt = md, began
	next, change, err := w.registry.Discover(md, w.o.Rules, began.Unix())
	if err != nil {
		err = asProblem(err)
		w.endMetadata(began, err)
		w.publish()
		return err
	}
	if !change.Any() {
		return nil
	}
	saved := w.save(next, change)
	w.publish()
	if !saved {
		return w.persistenceErr
	}
	return nil
}

// withoutContext hides the attempt's own deadline, so that it is not taken for
// the caller's.
func withoutContext(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
