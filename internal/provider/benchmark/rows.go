package benchmark

import (
	"fmt"
	"strings"
	"time"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
	"github.com/baokms/baokms/internal/provider/command"
)

// rows puts what belongs together side by side.
func rows(p plan, results load.Results) []command.BenchmarkRow {
	var list []command.BenchmarkRow
	for _, n := range p.statusCallers {
		list = append(list, command.BenchmarkRow{
			Operation: opStatus, Callers: n,
			Socket: figures(results, laneName(opStatus, false, 0), n),
		})
	}
	for _, size := range p.sizes {
		for _, operation := range []string{opEncrypt, opDecrypt} {
			for _, n := range p.callers {
				list = append(list, besides(results, operation, size, n))
			}
		}
	}
	return list
}

// besides is one operation on both sides. The ratio is that of the two figures
// beside it: the sides took turns, so both are of the same minutes.
func besides(results load.Results, operation string, size, callers int) command.BenchmarkRow {
	bare := figures(results, laneName(operation, true, size), callers)
	row := command.BenchmarkRow{
		Operation: operation, PayloadBytes: size, Callers: callers,
		Socket: figures(results, laneName(operation, false, size), callers),
		Bare:   &bare,
	}
	if bare.CallsPerSec > 0 {
		row.Ratio = row.Socket.CallsPerSec / bare.CallsPerSec
	}
	return row
}

func figures(results load.Results, lane string, callers int) command.Figures {
	s := results.Summary(load.Cell{Lane: lane, Callers: callers})
	return command.Figures{
		Calls:         s.Calls,
		CallsPerSec:   s.PerSecond,
		P50Micros:     s.P50.Microseconds(),
		P95Micros:     s.P95.Microseconds(),
		P99Micros:     s.P99.Microseconds(),
		SlowestMicros: s.Slowest.Microseconds(),
	}
}

// validation are the handbook's latencies for tests and examples (handbook:
// kms-v2-contract, validation thresholds); 0 for none. They decide nothing.
var validation = map[string]struct{ p95, p99 time.Duration }{
	opStatus:  {0, 5 * time.Millisecond},
	opEncrypt: {100 * time.Millisecond, 250 * time.Millisecond},
	opDecrypt: {10 * time.Millisecond, 50 * time.Millisecond},
}

// fewCalls is how many calls a p99 needs to be another one than the slowest.
const fewCalls = 100

// reading says how the figures are to be read.
func reading(p plan, rows []command.BenchmarkRow) []command.Step {
	steps := []command.Step{
		{Text: "Compare ratios, which are what is left of bare Transit's throughput through the socket, with earlier runs and other nodes; compare times only within one run: the machine, the network and OpenBao change them"},
		targets(p.callers[0], rows),
	}
	few := false
	for _, r := range rows {
		few = few || r.Socket.Calls < fewCalls || r.Bare != nil && r.Bare.Calls < fewCalls
	}
	if few {
		steps = append(steps, command.Step{Text: fmt.Sprintf("Measure longer for a p99 where there are fewer than %d calls: there it is the slowest call", fewCalls)})
	}
	if len(p.statusCallers) < len(p.callers) {
		steps = append(steps, command.Step{Text: "Status was left out with as many callers as would take every place that server.maxConcurrentStatus allows"})
	}
	return steps
}

// targets holds the rows with the fewest callers, where no call waits for
// another, against the validation targets.
func targets(callers int, rows []command.BenchmarkRow) command.Step {
	var missed []string
	bareToo := false
	for _, r := range rows {
		t := validation[r.Operation]
		if r.Callers != callers {
			continue
		}
		for _, one := range []struct {
			name   string
			got    int64
			target time.Duration
			bare   func(command.Figures) int64
		}{
			{"p95", r.Socket.P95Micros, t.p95, func(f command.Figures) int64 { return f.P95Micros }},
			{"p99", r.Socket.P99Micros, t.p99, func(f command.Figures) int64 { return f.P99Micros }},
		} {
			if one.target == 0 || one.got < one.target.Microseconds() {
				continue
			}
			missed = append(missed, fmt.Sprintf("%s of %s is %v, %v is the target", one.name, r.Operation, time.Duration(one.got)*time.Microsecond, one.target))
			bareToo = bareToo || r.Bare != nil && one.bare(*r.Bare) >= one.target.Microseconds()
		}
	}
	with := fmt.Sprintf("with %d callers", callers)
	if callers == 1 {
		with = "with 1 caller"
	}
	switch {
	case len(missed) == 0:
		return command.Step{Text: strings.ToUpper(with[:1]) + with[1:] + " the validation targets (not a service level) are met: status p99 5ms; encrypt p95 100ms, p99 250ms; decrypt p95 10ms, p99 50ms"}
	case bareToo:
		return command.Step{Text: "Look at OpenBao and the network first: " + with + " the bare calls, too, miss validation targets: " + strings.Join(missed, "; ")}
	}
	return command.Step{Text: "Look at this node's CPU and the provider first: " + with + " validation targets are missed that the bare calls meet: " + strings.Join(missed, "; ")}
}
