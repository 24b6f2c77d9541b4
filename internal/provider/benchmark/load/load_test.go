package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// after is an operation that takes d.
func after(d time.Duration) Operation {
	return func(context.Context) error {
		time.Sleep(d) // synthetic time: every test that uses it is in a bubble
		return nil
	}
}

func TestForCountsWhatWasAnswered(t *testing.T) {
	for _, c := range []struct {
		callers    int
		call, time time.Duration
		calls      int
		took       time.Duration
		perSecond  float64
	}{
		{1, 10 * time.Millisecond, time.Second, 100, time.Second, 100},
		{8, 10 * time.Millisecond, time.Second, 800, time.Second, 800},
		// The last call of each caller starts before the end and is counted whole.
		{2, 300 * time.Millisecond, time.Second, 8, 1200 * time.Millisecond, 8 / 1.2},
	} {
		t.Run(fmt.Sprintf("%d callers, %v", c.callers, c.call), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := For(t.Context(), after(c.call), c.callers, c.time)
				if err != nil {
					t.Fatal(err)
				}
				if len(s.Latencies) != c.calls || s.Took != c.took || math.Abs(s.PerSecond()-c.perSecond) > 1e-9 {
					t.Errorf("%d calls in %v, %v/s; want %d in %v, %v/s", len(s.Latencies), s.Took, s.PerSecond(), c.calls, c.took, c.perSecond)
				}
				for _, l := range s.Latencies {
					if l != c.call {
						t.Fatalf("a call took %v, want %v", l, c.call)
					}
				}
			})
		})
	}
}

// A machine that is too busy to start a goroutine in time makes a slice late, not empty.
func TestForMakesACallHoweverLate(t *testing.T) {
	for _, callers := range []int{1, 8} {
		var calls atomic.Int64
		s, err := For(t.Context(), func(context.Context) error { calls.Add(1); return nil }, callers, 1)
		if err != nil || len(s.Latencies) < 1 || int64(len(s.Latencies)) != calls.Load() || s.Took <= 0 {
			t.Errorf("%d callers: %d calls, %+v, %v", callers, calls.Load(), s, err)
		}
	}
}

func TestTimesCallsExactlySoOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		s, err := Times(t.Context(), func(context.Context) error { calls.Add(1); time.Sleep(time.Millisecond); return nil }, 32, 1001)
		if err != nil {
			t.Fatal(err)
		}
		if calls.Load() != 1001 || len(s.Latencies) != 1001 || s.Took != 32*time.Millisecond {
			t.Errorf("%d calls, %d latencies, took %v; want 1001 of both in 32ms", calls.Load(), len(s.Latencies), s.Took)
		}
	})
}

func TestAFailedCallEndsAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("refused")
		var calls atomic.Int64
		_, err := For(t.Context(), func(ctx context.Context) error {
			if calls.Add(1) == 5 {
				return failure
			}
			<-ctx.Done()
			return ctx.Err()
		}, 5, time.Hour)
		if !errors.Is(err, failure) || calls.Load() != 5 {
			t.Errorf("error %v after %d calls, want the failure after 5", err, calls.Load())
		}
	})
}

func TestRunRefusesWhatGivesNoFigure(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	nothing := func(context.Context) error { return nil }
	for _, c := range []struct {
		name string
		run  func() (Slice, error)
		want string
	}{
		{"no callers", func() (Slice, error) { return For(t.Context(), nothing, 0, time.Second) }, "0 callers: at least 1 is needed"},
		{"no time", func() (Slice, error) { return For(t.Context(), nothing, 1, 0) }, "no call was made: the time is too short"},
		{"interrupted", func() (Slice, error) { return For(cancelled, nothing, 1, time.Second) }, "context canceled"},
	} {
		if _, err := c.run(); err == nil || err.Error() != c.want {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestMeasureTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lanes := []Lane{
			{"a", []int{1, 8}, after(time.Millisecond)},
			{"b", []int{1, 4, 8}, after(2 * time.Millisecond)},
		}
		plan := Plan{Rounds: 2, Slice: 10 * time.Millisecond}
		var order []string
		results, err := Measure(t.Context(), lanes, plan, func(c Cell) { order = append(order, fmt.Sprint(c.Lane, c.Callers)) })
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(order), "[a1 b1 b4 a8 b8 b8 a8 b4 b1 a1]"; got != want {
			t.Errorf("the turns were %s, want %s", got, want)
		}
		if got := plan.Turns(lanes); got != len(order) {
			t.Errorf("%d turns were announced, %d were taken", got, len(order))
		}
		for cell, calls := range map[Cell]int{{"a", 1}: 10, {"a", 8}: 80, {"b", 1}: 5, {"b", 4}: 20, {"b", 8}: 40} {
			if s := results[cell]; len(s) != 2 || len(s[0].Latencies) != calls || len(s[1].Latencies) != calls {
				t.Errorf("%v has %d slices, want 2 with %d calls each", cell, len(s), calls)
			}
		}
	})
}

func TestMeasureNamesTheLaneThatFailed(t *testing.T) {
	for callers, want := range map[int]string{1: "broken with 1 caller: refused", 2: "broken with 2 callers: refused"} {
		lanes := []Lane{{"broken", []int{callers}, func(context.Context) error { return errors.New("refused") }}}
		_, err := Measure(t.Context(), lanes, Plan{Rounds: 1, Slice: time.Second}, nil)
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
