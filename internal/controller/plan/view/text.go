package view

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/internal/provider/command"
)

// width is in columns.
const width = 80

// page is text as it grows.
type page struct{ b strings.Builder }

// WriteText writes the view for a person.
func WriteText(w io.Writer, v View) error {
	p := &page{}
	p.line("Plan " + v.Name)
	p.head(v)
	if len(v.Status.Conditions) > 0 {
		p.line("")
		p.line("Conditions")
		for _, c := range v.Status.Conditions {
			p.condition(c)
		}
	}
	if len(v.Status.Nodes) > 0 {
		p.line("")
		p.line("Nodes")
		p.nodes(v)
	}
	p.line("")
	p.line("Next steps")
	for _, s := range v.Next {
		p.wrapped("  ", "  ", s.Text)
		if s.Command != "" {
			p.line("    " + s.Command)
		}
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

func (p *page) line(s string) {
	p.b.WriteString(command.Visible(s))
	p.b.WriteByte('\n')
}

// head says what the plan is about and where it stands.
func (p *page) head(v View) {
	s := v.Status
	fact := func(name, value string) {
		if value != "" {
			p.wrapped(fmt.Sprintf("  %-12s", name), strings.Repeat(" ", 14), value)
		}
	}
	phase := cmp.Or(string(s.Phase), "none")
	if !v.Judged {
		phase += " (not of the present spec)"
	}
	fact("provider", v.ProviderName)
	fact("phase", phase)
	if s.ActiveKeyIDHash != "" {
		fact("key", fmt.Sprintf("version %d, key_id hash %s", s.ActiveTransitVersion, s.ActiveKeyIDHash))
	}
	if s.Summary != nil {
		fact("nodes", s.Summary.Nodes+" on the key")
	}
	fact("converged", since(s.ConvergedSince, v.ViewedAt))
	if at := s.RewriteSafeAfter; at != nil {
		fact("rewrite", "not before "+moment(*at, v.ViewedAt))
	}
	if r := s.Retirement; r != nil {
		fact("retirement", fmt.Sprintf("below version %d: planned on %d of %d nodes, applied on %d", r.BeforeVersion, r.NodesPlanned, len(s.Nodes), r.NodesApplied))
		fact("digest", r.Digest)
		if r.ApprovedDigest != "" && r.ApprovedDigest != r.Digest {
			fact("approved", r.ApprovedDigest)
		}
		if e := r.Evidence; e != nil {
			fact("rewritten", e.Rewrite)
			fact("backups", e.Backups)
		}
	}
}

// answers are the words for a condition's status.
var answers = map[metav1.ConditionStatus]string{
	metav1.ConditionTrue: "yes", metav1.ConditionFalse: "no", metav1.ConditionUnknown: "?",
}

func (p *page) condition(c metav1.Condition) {
	p.line(fmt.Sprintf("  %-4s%s (%s)", cmp.Or(answers[c.Status], "?"), c.Type, c.Reason))
	p.wrapped("      ", "      ", c.Message)
}

// wrapped writes text between the columns: the first line begins with first, all
// others with rest. A word that is too long for a line has one of its own.
func (p *page) wrapped(first, rest, text string) {
	line, bare := first, true
	for word := range strings.FieldsSeq(text) {
		word = command.Visible(word)
		if !bare && len([]rune(line))+1+len([]rune(word)) > width {
			p.b.WriteString(line + "\n")
			line, bare = rest, true
		}
		if !bare {
			line += " "
		}
		line, bare = line+word, false
	}
	if !bare {
		p.b.WriteString(line + "\n")
	}
}

func since(t *metav1.Time, now metav1.Time) string {
	if t == nil {
		return ""
	}
	return "since " + moment(*t, now)
}

// moment is a time with its distance from now.
func moment(t, now metav1.Time) string {
	return fmt.Sprintf("%s (%s)", t.UTC().Format(time.RFC3339), distance(t.Time, now.Time))
}

// distance is how far t is from now, in its largest two units.
func distance(t, now time.Time) string {
	d := t.Sub(now).Round(time.Second)
	switch {
	case d == 0:
		return "now"
	case d > 0:
		return "in " + short(d)
	}
	return short(-d) + " ago"
}

func short(d time.Duration) string {
	days, d := d/(24*time.Hour), d%(24*time.Hour)
	hours, minutes, seconds := d/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
}
