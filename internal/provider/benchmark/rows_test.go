package benchmark

import (
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
)

// row is a row whose p95 and p99 are in milliseconds, and whose bare side is as
// slow when bareToo is set.
func row(operation string, callers int, p95, p99 float64, bareToo bool) command.BenchmarkRow {
	f := command.Figures{Calls: 100, P95Micros: int64(p95 * 1000), P99Micros: int64(p99 * 1000)}
	r := command.BenchmarkRow{Operation: operation, Callers: callers, Socket: f}
	if operation != opStatus {
		r.Bare = &command.Figures{Calls: 100}
		if bareToo {
			r.Bare = &f
		}
	}
	return r
}

func TestValidationTargets(t *testing.T) {
	for _, c := range []struct {
		name string
		rows []command.BenchmarkRow
		want string
	}{
		{"met", []command.BenchmarkRow{row(opStatus, 1, 4, 4.999, false), row(opEncrypt, 1, 99.999, 249.999, true), row(opDecrypt, 1, 9.999, 49.999, true), row(opDecrypt, 8, 99, 99, true)},
			"With 1 caller the validation targets (not a service level) are met: status p99 5ms; encrypt p95 100ms, p99 250ms; decrypt p95 10ms, p99 50ms"},
		{"missed on the node", []command.BenchmarkRow{row(opStatus, 1, 9, 5, false), row(opEncrypt, 1, 100, 249, false), row(opDecrypt, 1, 10, 50, false)},
			"Look at this node's CPU and the provider first: with 1 caller validation targets are missed that the bare calls meet: " +
				"p99 of status is 5ms, 5ms is the target; p95 of encrypt is 100ms, 100ms is the target; p95 of decrypt is 10ms, 10ms is the target; p99 of decrypt is 50ms, 50ms is the target"},
		{"missed in OpenBao", []command.BenchmarkRow{row(opEncrypt, 1, 50, 300.5, true)},
			"Look at OpenBao and the network first: with 1 caller the bare calls, too, miss validation targets: p99 of encrypt is 300.5ms, 250ms is the target"},
	} {
		if got := targets(1, c.rows).Text; got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
	if got := targets(8, []command.BenchmarkRow{row(opDecrypt, 8, 11, 11, false)}).Text; !strings.Contains(got, "with 8 callers") {
		t.Error(got)
	}
}

func TestReadingSaysWhatIsMissing(t *testing.T) {
	p := plan{callers: []int{1, 8}, statusCallers: []int{1, 8}}
	steps := reading(p, []command.BenchmarkRow{row(opEncrypt, 1, 1, 1, true)})
	if len(steps) != 2 || !strings.HasPrefix(steps[0].Text, "Compare ratios, which are what is left of bare Transit's throughput") {
		t.Errorf("%+v", steps)
	}
	rows := []command.BenchmarkRow{row(opEncrypt, 1, 1, 1, true)}
	rows[0].Bare.Calls = 99
	p.statusCallers = []int{1}
	steps = reading(p, rows)
	if len(steps) != 4 || !strings.Contains(steps[2].Text, "fewer than 100 calls") || !strings.HasPrefix(steps[3].Text, "Status was left out with as many callers as") {
		t.Errorf("%+v", steps)
	}
}
