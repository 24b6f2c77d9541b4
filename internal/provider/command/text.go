package command

import (
	"fmt"
	"io"
	"strings"
)

// The rules of the text form. A person reads it on a terminal, in a log, in a
// ticket, or over somebody's shoulder on the phone:
//
//   - It is ASCII but for what comes in with the report, has no control characters
//     (they are written as \x1b), and needs neither UTF-8 nor colours.
//   - Colour is only on marks and headings, and says nothing that words do not.
//   - A check is a line with its mark (ok, warn, FAIL, skip) and its id, both at a
//     fixed place, so that they can be searched for. One that warns or fails has
//     its impact on that line; below are the reason's code with what was found,
//     and the next step. One that was skipped says because of which.
//   - Lines are wrapped at the width, with hanging indent. Never broken are hashes,
//     ids, and what stands in quotation marks. A command of the next steps stays
//     on one line, however long, so that it can be pasted.
//   - A change is told in the field names of the JSON, one on a line, in YAML, so
//     that it can be pasted into a review and compared there.
//   - A table that is too wide for the page becomes a list.
//   - The last line of a report with checks counts them: the verdict is where the
//     eye is when the output has scrolled by.

// Style says what the text is written for.
type Style struct {
	// Color allows SGR sequences, for a terminal only.
	Color bool
	// Width is in columns: 0 is 80, and less than 40 is 40.
	Width int
}

const (
	usualWidth = 80
	leastWidth = 40
)

// WriteText writes a report for a person.
func WriteText(w io.Writer, r *Report, s Style) error {
	if s.Width == 0 {
		s.Width = usualWidth
	}
	s.Width = max(s.Width, leastWidth)
	p := &page{style: s}
	p.head(r)
	p.checks(r.Checks)
	if r.Registry != nil || r.Transit != nil {
		p.key(r.Registry, r.Transit)
	}
	if r.Rotation != nil {
		p.rotation(r.Rotation)
	}
	if r.Change != nil {
		p.change(r.Change, r.Result)
	}
	if len(r.Files) > 0 {
		p.files(r.Files)
	}
	if r.Benchmark != nil {
		p.benchmark(r.Benchmark)
	}
	if r.Confidence != "" || len(r.CannotKnow) > 0 {
		p.confidence(r.Confidence, r.CannotKnow)
	}
	if len(r.Next) > 0 {
		p.next(r.Next)
	}
	if len(r.Checks) > 0 {
		p.b.WriteByte('\n')
		p.paragraph(lead{}, 0, summary(r.Checks))
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

// titles are those of the kinds.
var titles = map[string]string{
	KindDoctor:          "Doctor",
	KindKey:             "Key verification",
	KindRotationPlan:    "Rotation plan",
	KindRotation:        "Rotation verification",
	KindRetirementPlan:  "Retirement plan",
	KindRetirement:      "Retirement",
	KindRestorationPlan: "Restoration plan",
	KindRestoration:     "Restoration",
	KindInit:            "Init",
	KindBenchmark:       "Benchmark",
}

// head names the report and what it is about.
func (p *page) head(r *Report) {
	title, known := titles[r.Kind]
	if !known {
		title = r.Kind
	}
	p.heading(title)
	var about []fact
	if r.Provider != nil {
		about = append(about,
			fact{"provider", r.Provider.Name},
			fact{"version", r.Provider.Version},
			fact{"configuration", r.Provider.Fingerprint})
	}
	p.facts(2, append(about, fact{"looked at", string(r.GeneratedAt)}))
}

// marks are the words for the results, each at most four letters.
var marks = map[Result]struct {
	word  string
	paint paint
}{
	Pass: {"ok", green},
	Warn: {"warn", yellow},
	Skip: {"skip", dim},
	Fail: {"FAIL", red},
}

// textAfterMark is the column of what follows a mark.
const textAfterMark = 6

func (p *page) checks(checks []Check) {
	if len(checks) > 0 {
		p.b.WriteByte('\n')
	}
	for _, c := range checks {
		p.check(c)
	}
}

func (p *page) check(c Check) {
	m, known := marks[c.Result]
	if !known {
		m.word = "?"
	}
	l := lead{0, m.word, m.paint, textAfterMark - len(m.word)}
	switch c.Result {
	case Pass, Skip:
		var because string
		if len(c.SkippedBecause) > 0 {
			because = "not judged because of " + strings.Join(c.SkippedBecause, ", ")
		}
		p.paragraph(l, textAfterMark, joined(": ", c.ID, joined("; ", because, c.Message)))
	default:
		p.paragraph(l, textAfterMark, c.ID+" (impact: "+impact(c.Impact)+")")
		if found := joined(": ", c.Reason, c.Message); found != "" {
			p.paragraph(lead{indent: textAfterMark}, textAfterMark, found)
		}
		if c.NextStep != "" {
			next := lead{textAfterMark, "next:", plain, 1}
			p.paragraph(next, next.width(), c.NextStep)
		}
	}
}

// impact is in words.
func impact(i Impact) string {
	switch i {
	case Safety:
		return "cryptographic safety"
	case Availability:
		return "API server availability"
	}
	return strings.ReplaceAll(string(i), "_", " ")
}

// joined is those of the parts that are not empty.
func joined(separator string, parts ...string) string {
	var told []string
	for _, s := range parts {
		if s != "" {
			told = append(told, s)
		}
	}
	return strings.Join(told, separator)
}

// summary counts the checks.
func summary(checks []Check) string {
	count := map[Result]int{}
	for _, c := range checks {
		count[c.Result]++
	}
	var parts []string
	for _, of := range []struct {
		result    Result
		one, many string
	}{{Pass, "ok", "ok"}, {Warn, "warning", "warnings"}, {Fail, "failed", "failed"}, {Skip, "skipped", "skipped"}} {
		if n := count[of.result]; n > 0 {
			parts = append(parts, plural(n, of.one, of.many))
		}
	}
	return joined(": ", plural(len(checks), "check", "checks"), strings.Join(parts, ", "))
}

// plural is a number with its noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// confidence says what the report cannot be taken for.
func (p *page) confidence(level string, cannotKnow []string) {
	p.heading(joined(": ", "Confidence", level))
	if len(cannotKnow) > 0 {
		p.paragraph(lead{indent: 2}, 2, "One node cannot know:")
	}
	for _, s := range cannotKnow {
		p.paragraph(lead{2, "-", plain, 1}, 4, s)
	}
}

// next is what to do now.
func (p *page) next(steps []Step) {
	p.heading("Next steps")
	texts := make([]string, len(steps))
	for i, s := range steps {
		texts[i] = s.Text
	}
	p.list(texts, func(i, indent int) {
		for _, c := range steps[i].Commands {
			p.verbatim(indent+2, c)
		}
	})
}
