package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// The rules of the tables: at most 80 columns, no colour, numbers to the right with three significant digits, so that a run can be put
// beside another one in a note.

// quietLoad is the load average up to which a machine counts as quiet.
const quietLoad = 1.0

// writeTable prints the report for people.
func (r *report) writeTable(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %d CPUs, %s, %s; %d × %v\n",
		r.Server, r.Machine.CPUs, r.Machine.OS, r.Machine.Go, r.Rounds, time.Duration(r.SliceMS*float64(time.Millisecond)))
	if r.Machine.Load > quietLoad {
		fmt.Fprintf(&b, "The machine was busy before the run (load average %.1f): the figures say little.\n", r.Machine.Load)
	}
	b.WriteByte('\n')
	fmt.Fprintf(&b, "%-20s %7s %10s %10s %10s %10s\n", "", "callers", "calls/s", "p50", "p95", "p99")
	lane := ""
	for _, row := range r.Lanes {
		name := row.Lane
		if name == lane {
			name = ""
		}
		lane = row.Lane
		fmt.Fprintf(&b, "%-20s %7d %10s %10s %10s %10s\n", name, row.Callers, thousands(row.PerSecond),
			duration(row.P50), duration(row.P95), duration(row.P99))
	}
	fmt.Fprintf(&b, "\n%-45s %10s %11s\n", "", "measured", "target")
	for _, f := range r.Figures {
		name := f.Name
		if f.Detail {
			name = "  " + name
		}
		line := fmt.Sprintf("%s %10s %11s  %s", pad(name, 45), f.Unit.format(f.Value), f.wanted(), f.verdict())
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// pad fills a text up to a width in characters; fmt counts bytes.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-len([]rune(text))))
}

func (f figure) wanted() string {
	switch {
	case f.Target == nil:
		return ""
	case f.Target.AtLeast != 0:
		return "≥ " + f.Unit.format(f.Target.AtLeast)
	default:
		return "< " + f.Unit.format(f.Target.Below)
	}
}

func (f figure) verdict() string {
	switch {
	case f.Target == nil:
		return ""
	case f.Met == nil:
		return "too short"
	case *f.Met:
		return "met"
	default:
		return "NOT MET"
	}
}

func (u unit) format(v float64) string {
	switch u {
	case latency:
		return duration(time.Duration(v))
	case memory:
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	case count:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// duration has three significant digits: "87.1 µs", "1.32 ms", "2.01 s".
func duration(d time.Duration) string {
	v, unit := float64(d)/1e3, "µs"
	switch {
	case d >= time.Second || d <= -time.Second:
		v, unit = v/1e6, "s"
	case d >= time.Millisecond || d <= -time.Millisecond:
		v, unit = v/1e3, "ms"
	}
	digits := 2
	for limit := 10.0; digits > 0 && (v >= limit || v <= -limit); limit *= 10 {
		digits--
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + unit
}

// thousands writes a whole number with separators: "12,345".
func thousands(v float64) string {
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	first := len(digits) % 3
	var groups []string
	if first > 0 {
		groups = append(groups, digits[:first])
	}
	for i := first; i < len(digits); i += 3 {
		groups = append(groups, digits[i:i+3])
	}
	return strings.Join(groups, ",")
}
