package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Operation is one call. It is called from many goroutines at once and checks its own answer. An error ends the measurement.
type Operation func(ctx context.Context) error

// Slice is what one run of an operation gave.
type Slice struct {
	// Took is the time from the start of the first call to the end of the last.
	Took time.Duration
	// Latencies has one entry a call, in no order.
	Latencies []time.Duration
}

// PerSecond is the number of calls a second; 0 for an empty slice.
func (s Slice) PerSecond() float64 {
	if s.Took <= 0 {
		return 0
	}
	return float64(len(s.Latencies)) / s.Took.Seconds()
}

var errNoCall = errors.New("no call was made: the time is too short")

// For calls an operation from the given number of goroutines, each of them again and again, and starts no call once d has passed. It
// returns when the last call has ended. One call is made even if d passes before a goroutine runs, as on a busy machine. The first call
// that fails ends the others through their context, and is the error.
func For(ctx context.Context, do Operation, callers int, d time.Duration) (Slice, error) {
	if d <= 0 {
		return Slice{}, errNoCall
	}
	end := time.Now().Add(d)
	var called atomic.Bool
	return run(ctx, do, callers, func(now time.Time) bool {
		if now.Before(end) {
			if !called.Load() {
				called.Store(true)
			}
			return true
		}
		return called.CompareAndSwap(false, true)
	})
}

// Times calls an operation n times in all, otherwise as For does.
func Times(ctx context.Context, do Operation, callers, n int) (Slice, error) {
	var left atomic.Int64
	left.Store(int64(n))
	return run(ctx, do, callers, func(time.Time) bool { return left.Add(-1) >= 0 })
}

func run(ctx context.Context, do Operation, callers int, more func(now time.Time) bool) (Slice, error) {
	if callers < 1 {
		return Slice{}, fmt.Errorf("%d callers: at least 1 is needed", callers)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Each goroutine writes its own entry and ends with its last call.
	latencies := make([][]time.Duration, callers)
	start := time.Now()
	var calling sync.WaitGroup
	for i := range callers {
		calling.Go(func() {
			for now := time.Now(); ctx.Err() == nil && more(now); {
				if err := do(ctx); err != nil {
					cancel(err)
					return
				}
				done := time.Now()
				latencies[i] = append(latencies[i], done.Sub(now))
				now = done
			}
		})
	}
	calling.Wait()
	s := Slice{Took: time.Since(start)}
	if err := context.Cause(ctx); err != nil {
		return Slice{}, err
	}
	for _, l := range latencies {
		s.Latencies = append(s.Latencies, l...)
	}
	if len(s.Latencies) == 0 {
		return Slice{}, errNoCall
	}
	return s, nil
}
