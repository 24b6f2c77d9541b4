package load

import (
	"math"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		name   string
		sorted []time.Duration
		p      int
		want   time.Duration
	}{
		{"none", nil, 99, 0},
		{"one, 50", []time.Duration{7}, 50, 7},
		{"one, 99", []time.Duration{7}, 99, 7},
		{"two, 50", []time.Duration{1, 9}, 50, 1},
		{"two, 51", []time.Duration{1, 9}, 51, 9},
		{"three, 50", []time.Duration{1, 5, 9}, 50, 5},
		{"hundred, 50", hundred, 50, 50},
		{"hundred, 95", hundred, 95, 95},
		{"hundred, 99", hundred, 99, 99},
		{"hundred, 100", hundred, 100, 100},
		{"ninety-nine, 99", hundred[:99], 99, 99},
		{"twenty, 95", hundred[:20], 95, 19},
		{"nineteen, 95", hundred[:19], 95, 19},
		{"hundred, 0", hundred, 0, 1},
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5},
	} {
		before := append([]float64(nil), c.values...)
		if got := Median(c.values); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.values, got, c.want)
		}
		for i := range before {
			if c.values[i] != before[i] {
				t.Errorf("Median changed its argument to %v", c.values)
			}
		}
	}
}

// calls is a slice of n calls in a second that took latency each.
func calls(n int, latency time.Duration) Slice {
	s := Slice{Took: time.Second}
	for range n {
		s.Latencies = append(s.Latencies, latency)
	}
	return s
}

func TestFiguresCompareWithinARound(t *testing.T) {
	a, b, none := Cell{"a", 1}, Cell{"b", 1}, Cell{"none", 1}
	// The machine is half as fast in the second round, and one slice of the third was disturbed.
	r := Results{
		a: {calls(80, 130), calls(40, 230), calls(60, 150)},
		b: {calls(100, 100), calls(50, 200), calls(10, 900)},
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"ratio", r.Ratio(a, b), 0.8},
		{"ratio to nothing", r.Ratio(a, none), 0},
		{"ratio of nothing", r.Ratio(none, b), 0},
		{"remainder", r.Remainder(a, b), 100.0 / 180},
		{"remainder of nothing", r.Remainder(none, none), 0},
		{"added", float64(r.Added(a, b)), 30},
		{"added to nothing", float64(r.Added(a, none)), 0},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestSummary(t *testing.T) {
	c := Cell{"a", 1}
	r := Results{c: {calls(50, 100), calls(45, 200), calls(4, 300), calls(1, 900)}}
	want := Summary{PerSecond: 24.5, P50: 100, P95: 200, P99: 300, Slowest: 900, Calls: 100}
	if got := r.Summary(c); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := r.Summary(Cell{"b", 1}); got != (Summary{}) {
		t.Errorf("a cell without slices gives %+v", got)
	}
}

func TestPerSecondOfNothing(t *testing.T) {
	if got := (Slice{}).PerSecond(); got != 0 {
		t.Errorf("%v, want 0", got)
	}
}
