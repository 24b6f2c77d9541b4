package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/baokms/baokms/test/bench/share"
)

// timeShares is a profile's result.
type timeShares struct {
	share.Shares
	callers     int
	calls       int
	took        time.Duration
	file        string
	allocations allocations
}

// mostFunctions is how many of our functions are listed.
const mostFunctions = 15

func (t *timeShares) write(out io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(out, t.encoded())
	}
	var b strings.Builder
	perCall := func(v int64) string { return duration(time.Duration(v / int64(t.calls))) }
	fmt.Fprintf(&b, "%s Encrypts and Decrypts by %d callers, %s a second; CPU a call: %s\n",
		thousands(float64(t.calls)), t.callers, thousands(float64(t.calls)/t.took.Seconds()), perCall(t.Total))
	fmt.Fprintf(&b, "The profile is in %s.\n\n", t.file)
	fmt.Fprintf(&b, "%-20s %22s   %26s\n", "", "in its own code", "with the runtime's for it")
	for _, layer := range share.Layers {
		self, caused := t.Self[layer], t.Caused[layer]
		if self == 0 && caused == 0 {
			continue
		}
		fmt.Fprintf(&b, "%-20s %8.1f %% %11s   %12.1f %% %11s\n", layer,
			t.Percent(self), perCall(self), t.Percent(caused), perCall(caused))
	}
	fmt.Fprintf(&b, "\nOurs, by function, with what it makes others do that are in no layer:\n")
	for _, f := range t.Functions[:min(len(t.Functions), mostFunctions)] {
		fmt.Fprintf(&b, "%8.2f %% %11s   %s\n", t.Percent(f.Value), perCall(f.Value), short(f.Name, 53))
	}
	for _, method := range []string{"Encrypt", "Decrypt"} {
		fmt.Fprintf(&b, "\nAllocations per %s: %.1f ours, %.1f in gRPC, %.1f in net/http. Ours:\n", method,
			t.allocations.perCall(method, share.Ours), t.allocations.perCall(method, share.GRPC), t.allocations.perCall(method, share.HTTP))
		functions := t.allocations[method].Functions
		for _, f := range functions[:min(len(functions), mostFunctions)] {
			fmt.Fprintf(&b, "%8.2f   %s\n", float64(f.Value)/allocationCalls, short(f.Name, 68))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// short is a function's name without the path of its package and its type arguments, cut to a width.
func short(function string, width int) string {
	name, _, _ := strings.Cut(function, "[")
	name = name[strings.LastIndexByte(name, '/')+1:]
	if len(name) > width {
		name = name[:width-1] + "…"
	}
	return name
}

// encoded is the same for scripts, in nanoseconds of CPU.
func (t *timeShares) encoded() any {
	type layer struct {
		Layer  share.Layer `json:"layer"`
		Self   int64       `json:"selfNs"`
		Caused int64       `json:"causedNs"`
	}
	type function struct {
		Name  string `json:"name"`
		Value int64  `json:"ns"`
	}
	var e struct {
		Calls     int        `json:"calls"`
		Callers   int        `json:"callers"`
		TookNS    int64      `json:"tookNs"`
		TotalNS   int64      `json:"totalNs"`
		Layers    []layer    `json:"layers"`
		Functions []function `json:"functions"`
	}
	e.Calls, e.Callers, e.TookNS, e.TotalNS = t.calls, t.callers, t.took.Nanoseconds(), t.Total
	for _, l := range share.Layers {
		e.Layers = append(e.Layers, layer{l, t.Self[l], t.Caused[l]})
	}
	for _, f := range t.Functions {
		e.Functions = append(e.Functions, function{f.Name, f.Value})
	}
	return e
}
