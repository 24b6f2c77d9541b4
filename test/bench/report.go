package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
	"github.com/baokms/baokms/test/bench/share"
)

// facts is all that a run found out.
type facts struct {
	results     load.Results
	plan        load.Plan
	quick       bool
	openBao     bool
	cpus        int
	calls       int   // Encrypts and Decrypts of the provider before its memory was read
	resident    int64 // bytes
	allocations allocations
	load        float64 // of the machine, before the run
}

// report is what is printed.
type report struct {
	Machine machine  `json:"machine"`
	Server  string   `json:"server"`
	Rounds  int      `json:"rounds"`
	SliceMS float64  `json:"sliceMs"`
	Lanes   []row    `json:"lanes"`
	Figures []figure `json:"figures"`
}

type machine struct {
	OS   string `json:"os"`
	Go   string `json:"go"`
	CPUs int    `json:"cpus"`
	// Load is the load average of the minute before the run. Figures from a machine that was busy with something else say little.
	Load float64 `json:"loadBefore"`
}

// row is one line of the upper table.
type row struct {
	Lane    string `json:"lane"`
	Callers int    `json:"callers"`
	load.Summary
}

// unit says how a figure is written.
type unit string

const (
	ratio   unit = "ratio"
	latency unit = "ns"
	memory  unit = "bytes"
	count   unit = "count"
)

// figure is one line of the lower table.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  unit    `json:"unit"`
	// Detail marks a line that explains the one above it.
	Detail bool `json:"detail,omitempty"`
	// Target is nil for a figure that has none.
	Target *target `json:"target,omitempty"`
	// Met is nil when there is no target, or when the run was too short to judge it.
	Met *bool `json:"met,omitempty"`
}

// target is a bound, in the figure's unit. Exactly one of its fields is set.
type target struct {
	AtLeast float64 `json:"atLeast,omitempty"`
	Below   float64 `json:"below,omitempty"`
}

func (t target) met(value float64) bool {
	if t.AtLeast != 0 {
		return value >= t.AtLeast
	}
	return value < t.Below
}

// judged is a figure with a target.
func judged(name string, value float64, u unit, t target) figure {
	met := t.met(value)
	return figure{Name: name, Value: value, Unit: u, Target: &t, Met: &met}
}

func newReport(f facts) *report {
	r := &report{
		Machine: machine{OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), CPUs: f.cpus, Load: f.load},
		Server:  "the built Transit server",
		Rounds:  f.plan.Rounds,
		SliceMS: f.plan.Slice.Seconds() * 1000,
		Figures: figuresOf(f),
	}
	if f.openBao {
		r.Server = "OpenBao"
	}
	for _, lane := range []string{
		transitEncrypt, providerEncrypt, emptyEncrypt, transitDecrypt, providerDecrypt, emptyDecrypt, providerStatus, emptyStatus,
	} {
		for _, n := range statusCallers {
			if s := f.results.Summary(load.Cell{Lane: lane, Callers: n}); s.Calls > 0 {
				r.Lanes = append(r.Lanes, row{lane, n, s})
			}
		}
	}
	return r
}

// figuresOf are the figures of design/testing, in its order, with its targets.
func figuresOf(f facts) []figure {
	at := func(lane string, callers int) load.Cell { return load.Cell{Lane: lane, Callers: callers} }
	var list []figure
	throughput := func(method, provider, bare, empty string, least float64) {
		a, b, e := at(provider, 32), at(bare, 32), at(empty, 32)
		list = append(list,
			judged(method+" ÷ bare Transit, 32 callers", f.results.Ratio(a, b), ratio, target{AtLeast: least}),
			figure{Name: "an empty hop alone would leave", Value: f.results.Remainder(b, e), Unit: ratio, Detail: true})
	}
	throughput("Encrypt", providerEncrypt, transitEncrypt, emptyEncrypt, 0.72)
	throughput("Decrypt", providerDecrypt, transitDecrypt, emptyDecrypt, 0.70)

	below := target{Below: float64(150 * time.Microsecond)}
	for _, m := range []struct{ name, provider, bare, empty string }{
		{"Encrypt", providerEncrypt, transitEncrypt, emptyEncrypt},
		{"Decrypt", providerDecrypt, transitDecrypt, emptyDecrypt},
	} {
		added := f.results.Added(at(m.provider, 1), at(m.bare, 1))
		hop := f.results.Summary(at(m.empty, 1)).P50
		list = append(list,
			judged(m.name+", added latency at 1 caller, median", float64(added), latency, below),
			figure{Name: "an empty hop alone takes", Value: float64(hop), Unit: latency, Detail: true})
	}
	list = append(list, judged("Status ÷ an empty handler, 16 callers",
		f.results.Ratio(at(providerStatus, 16), at(emptyStatus, 16)), ratio, target{AtLeast: 0.85}))

	resident := judged(fmt.Sprintf("resident memory after %s calls", thousands(float64(f.calls))),
		float64(f.resident), memory, target{Below: 40 << 20})
	if f.calls < memoryCalls {
		resident.Met = nil // too early to say
	}
	list = append(list, resident)
	for _, method := range []string{"Encrypt", "Decrypt"} {
		list = append(list,
			figure{Name: "allocations per " + method + ", ours", Value: f.allocations.perCall(method, share.Ours), Unit: count},
			figure{Name: "in gRPC and protobuf", Value: f.allocations.perCall(method, share.GRPC), Unit: count, Detail: true},
			figure{Name: "in net/http and TLS", Value: f.allocations.perCall(method, share.HTTP), Unit: count, Detail: true})
	}
	return list
}

func (r *report) writeJSON(out io.Writer) error { return writeJSON(out, r) }

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
