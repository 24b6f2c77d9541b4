package command

import (
	"fmt"
	"strconv"
)

// benchmark sets the socket's figures above the bare ones.
func (p *page) benchmark(b *Benchmark) {
	p.heading("Figures")
	columns := []column{
		{"operation", false}, {"bytes", true}, {"callers", true}, {"way", false},
		{"calls/s", true}, {"p50", true}, {"p95", true}, {"p99", true}, {"ratio", true},
	}
	var rows [][]string
	for _, r := range b.Rows {
		bytes := nothing // Status carries none
		if r.PayloadBytes != 0 {
			bytes = strconv.Itoa(r.PayloadBytes)
		}
		of := []string{r.Operation, bytes, strconv.Itoa(r.Callers)}
		ratio := nothing
		if r.Ratio != 0 {
			ratio = fmt.Sprintf("%.2f", r.Ratio)
		}
		rows = append(rows, series(of, "socket", r.Socket, ratio))
		if r.Bare != nil {
			rows = append(rows, series(of, "bare", *r.Bare, nothing))
		}
	}
	p.table(2, columns, rows)
	p.paragraph(lead{indent: 2}, 2, "socket: through the provider. bare: OpenBao Transit called directly, in the same run. "+
		"ratio: calls/s of the socket divided by those of the bare calls. "+
		"p50, p95, p99: half, 95 and 99 of 100 calls were not slower.")
	if b.CPUs > 0 {
		p.paragraph(lead{indent: 2}, 2, "The benchmark could use "+plural(b.CPUs, "CPU", "CPUs")+".")
	}
}

func series(of []string, way string, f Figures, ratio string) []string {
	return append(of[:len(of):len(of)], way, rate(f.CallsPerSec), latency(f.P50Micros), latency(f.P95Micros), latency(f.P99Micros), ratio)
}

func rate(perSecond float64) string {
	if perSecond < 100 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return fmt.Sprintf("%.0f", perSecond)
}

// latency is in the unit that leaves three digits.
func latency(micros int64) string {
	ms := float64(micros) / 1e3
	switch {
	case micros < 1000:
		return fmt.Sprintf("%dus", micros)
	case micros < 9_995:
		return fmt.Sprintf("%.2fms", ms)
	case micros < 99_950:
		return fmt.Sprintf("%.1fms", ms)
	case micros < 999_500:
		return fmt.Sprintf("%.0fms", ms)
	}
	return fmt.Sprintf("%.2fs", ms/1e3)
}
