package benchmark

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/version"
)

// Options say what is measured.
type Options struct {
	// Config is the running provider's. Required.
	Config *config.Config
	// Build is this binary's, from version.Get. Required.
	Build version.Info
	// Sizes are the plaintexts' in bytes, from 1 to what leaves the ciphertext
	// below 1024 bytes: 731 as long as the key's version has one digit. None means
	// 32, the size of the seed that the API server has wrapped.
	Sizes []int
	// Callers are the numbers of callers at once, each from 1 to one less than the
	// lower of server.maxConcurrentEncrypt and server.maxConcurrentDecrypt, so that
	// a request of the API server finds a place. None means 1 and 8, as far as they
	// are allowed. Status is left out for numbers that its own cap forbids.
	Callers []int
	// Duration is how long each series of calls takes, 100ms to 10m; 0 means 1.2s.
	// A series is one operation with one size and one number of callers on one
	// side: with the other defaults there are ten.
	Duration time.Duration
	// Progress gets one line that is rewritten in place, for a terminal, and is
	// cleared at the end; nil means none.
	Progress io.Writer
	// ProgressWidth is how many columns that terminal has; 0 means 80.
	ProgressWidth int
	// Now is the clock of the report's time; nil is the system's.
	Now func() time.Time
}

// Run measures. Wrong Sizes, Callers and Duration are a *UsageError. Every other
// error says what failed, with its class where there is one, and what to do. When
// ctx ends, the run ends at once with an error that wraps ctx's and without
// figures: those of a part would look like those of a whole.
func Run(ctx context.Context, o Options) (*command.Report, error) {
	r, err := run(ctx, o)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("the benchmark was interrupted and reports nothing: %w", ctx.Err())
	}
	return r, err
}

func run(ctx context.Context, o Options) (*command.Report, error) {
	active, err := activeEntry(o.Config)
	if err != nil {
		return nil, err
	}
	p, err := o.plan(active.TransitVersion)
	if err != nil {
		return nil, err
	}
	t, err := connect(ctx, o, active.Binding)
	if err != nil {
		return nil, err
	}
	defer t.close()
	results, err := t.measure(ctx, p, newScreen(o.Progress, o.ProgressWidth))
	if err != nil {
		return nil, err
	}
	return o.report(p, results), nil
}

// measure warms up, gives every lane its turns, and has what is left of the
// answers decrypted.
func (t *target) measure(ctx context.Context, p plan, s *screen) (load.Results, error) {
	defer s.clear()
	lanes := t.lanes(p)
	s.plan(p.turns.Turns(loads(lanes)), p.turns.Slice)
	if err := callEach(ctx, lanes, max(kept, 2*slices.Max(p.callers)), slices.Max(p.callers)); err != nil {
		return nil, err
	}
	s.begin()
	results, err := load.Measure(ctx, loads(lanes), p.turns, s.turn)
	if err != nil {
		return nil, err
	}
	s.line("checking the last answers")
	decrypts := slices.DeleteFunc(slices.Clone(lanes), func(l lane) bool { return l.operation != opDecrypt })
	if err := callEach(ctx, decrypts, kept, 1); err != nil {
		return nil, err
	}
	return results, nil
}

// callEach calls every lane n times in all, unmeasured, but Status, which needs
// no warmth and may have a lower cap.
func callEach(ctx context.Context, lanes []lane, n, callers int) error {
	for _, l := range lanes {
		if l.operation == opStatus {
			continue
		}
		if _, err := load.Times(ctx, l.Do, callers, n); err != nil {
			return fmt.Errorf("%s: %w", load.Cell{Lane: l.Name, Callers: callers}, err)
		}
	}
	return nil
}

// report puts the results into rows: Status first, then each size's Encrypt and
// Decrypt.
func (o Options) report(p plan, results load.Results) *command.Report {
	b := &command.Benchmark{CPUs: runtime.GOMAXPROCS(0), Rows: rows(p, results)}
	if len(p.sizes) == 1 {
		b.PayloadBytes = p.sizes[0]
	}
	now := time.Now
	if o.Now != nil {
		now = o.Now
	}
	r := &command.Report{
		GeneratedAt: command.At(now()),
		Provider: &command.Provider{
			Name:        o.Config.Transit.KeyIDScope.ProviderName,
			Version:     o.Build.Version,
			Fingerprint: o.Config.Fingerprint(),
		},
		Benchmark: b,
		Next:      reading(p, b.Rows),
	}
	return r.Seal(command.KindBenchmark)
}
