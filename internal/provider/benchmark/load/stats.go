package load

import (
	"math"
	"slices"
	"time"
)

// Summary is a series in figures.
type Summary struct {
	// PerSecond is the median of the rounds' calls a second.
	PerSecond float64 `json:"perSecond"`
	// P50, P95 and P99 are percentiles of the latencies of all rounds, in nanoseconds when encoded: the nearest rank, so each is the latency
	// of a call that was made. Of fewer than 100 calls P99 is the slowest, of fewer than 20 P95 is.
	P50 time.Duration `json:"p50Ns"`
	P95 time.Duration `json:"p95Ns"`
	P99 time.Duration `json:"p99Ns"`
	// Slowest is the longest latency.
	Slowest time.Duration `json:"slowestNs"`
	// Calls is the number of calls in all rounds.
	Calls int `json:"calls"`
}

// Summary summarises the series of a cell; all is 0 for a cell that was not measured.
func (r Results) Summary(c Cell) Summary {
	var rates []float64
	var latencies []time.Duration
	for _, s := range r[c] {
		rates = append(rates, s.PerSecond())
		latencies = append(latencies, s.Latencies...)
	}
	slices.Sort(latencies)
	return Summary{
		PerSecond: Median(rates),
		P50:       percentile(latencies, 50),
		P95:       percentile(latencies, 95),
		P99:       percentile(latencies, 99),
		Slowest:   percentile(latencies, 100),
		Calls:     len(latencies),
	}
}

// Ratio is a's throughput divided by b's: the median of the rounds' ratios, because the two slices of a round met the same machine. It is
// 0 when one of them was not measured.
func (r Results) Ratio(a, b Cell) float64 {
	var ratios []float64
	for i := range min(len(r[a]), len(r[b])) {
		if over := r[b][i].PerSecond(); over > 0 {
			ratios = append(ratios, r[a][i].PerSecond()/over)
		}
	}
	return Median(ratios)
}

// Remainder is the throughput of an operation that does a's work and b's after each other, divided by a's alone, if both cost all that
// the machine has: T(b) / (T(a)+T(b)). It is the median over the rounds.
func (r Results) Remainder(a, b Cell) float64 {
	var left []float64
	for i := range min(len(r[a]), len(r[b])) {
		ra, rb := r[a][i].PerSecond(), r[b][i].PerSecond()
		if ra+rb > 0 {
			left = append(left, rb/(ra+rb))
		}
	}
	return Median(left)
}

// Added is how much longer a takes than b, by the rounds' median latencies: the median of the rounds' differences.
func (r Results) Added(a, b Cell) time.Duration {
	var differences []float64
	for i := range min(len(r[a]), len(r[b])) {
		differences = append(differences, float64(r[a][i].median()-r[b][i].median()))
	}
	return time.Duration(math.Round(Median(differences)))
}

func (s Slice) median() time.Duration {
	sorted := slices.Clone(s.Latencies)
	slices.Sort(sorted)
	return percentile(sorted, 50)
}

// Median is the middle value, or the mean of the two in the middle; 0 of none.
func Median(values []float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	switch n := len(sorted); {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	default:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
}

// percentile is the smallest value that p percent of the sorted values do not exceed (nearest rank); 0 of none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}
