package view

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/baokms/baokms/api/v1alpha1"
)

// The columns of the table of nodes. A name that is too long has a line of its
// own.
const (
	row      = "  %-20s %-5s %-7s %-8s %-8s %-9s %s"
	nameLong = 20
	hashSeen = 8 // characters of a key_id hash, to tell keys apart
)

// nodes is a table, and below each row what is not well there.
func (p *page) nodes(v View) {
	p.line(strings.TrimRight(fmt.Sprintf(row, "NAME", "READY", "VERSION", "KEY", "ROTATION", "PREFLIGHT", "SEEN"), " "))
	for _, n := range v.Status.Nodes {
		name := n.Name
		if len(name) > nameLong {
			p.line("  " + name)
			name = ""
		}
		p.line(strings.TrimRight(fmt.Sprintf(row, name, yesNo(n.Ready), number(n.TransitVersion), hash(n.KeyIDHash),
			cmp.Or(n.RotationState, "-"), preflight(n.Preflight), seen(v, n)), " "))
		for _, remark := range remarks(n) {
			p.wrapped("    ", "      ", remark)
		}
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func number(n int32) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func hash(h string) string { return cmp.Or(h[:min(hashSeen, len(h))], "-") }

func preflight(p *v1alpha1.NodePreflight) string {
	if p == nil {
		return "-"
	}
	return p.Result
}

func seen(v View, n v1alpha1.NodeStatus) string {
	if n.LastSeen == nil {
		return "never"
	}
	return distance(n.LastSeen.Time, v.ViewedAt.Time)
}

// remarks are what is worth a look on a node.
func remarks(n v1alpha1.NodeStatus) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if len(n.Reasons) > 0 {
		add("reasons: %s", strings.Join(n.Reasons, ", "))
	}
	if w := n.Pending; w != nil {
		if w.EstimatedPromotion != nil {
			add("version %d is pending: seen %d of %d times; promotion is expected at %s", w.Version, w.Observations, w.Required, w.EstimatedPromotion.UTC().Format("2006-01-02T15:04:05Z"))
		} else {
			add("version %d is pending: seen %d of %d times", w.Version, w.Observations, w.Required)
		}
	}
	if n.Preflight != nil && len(n.Preflight.Failed) > 0 {
		add("failed checks: %s", strings.Join(n.Preflight.Failed, ", "))
	}
	if n.PersistenceDegraded {
		add("a save of the key registry is outstanding")
	}
	if w := n.WentBackFrom; w != nil {
		add("the key registry went back: generation %d, it was %d", n.Generation, w.Generation)
	}
	if r := n.Retirement; r != nil {
		switch {
		case r.State != "":
			add("retirement: %s, versions %s", strings.ToLower(string(r.State)), versions(r.RemovedVersions))
		case r.Problem != "":
			add("retirement: %s", r.Problem)
		}
	}
	return all
}

func versions(v []int32) string {
	if len(v) == 0 {
		return "none"
	}
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(v)), ", "), "[]")
}
