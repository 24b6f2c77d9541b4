package command

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// page is a text that is laid out line by line.
type page struct {
	b     strings.Builder
	style Style
}

// paint is an SGR sequence of the terminal.
type paint string

const (
	plain  paint = ""
	bold   paint = "\x1b[1m"
	red    paint = "\x1b[1;31m"
	green  paint = "\x1b[32m"
	yellow paint = "\x1b[33m"
	dim    paint = "\x1b[2m"
	reset        = "\x1b[0m"
)

// painted is text in a colour, or as it is where there are none.
func (p *page) painted(c paint, text string) string {
	if c == plain || !p.style.Color {
		return text
	}
	return string(c) + text + reset
}

// heading begins a section: an empty line before it, and the text in bold.
func (p *page) heading(text string) {
	if p.b.Len() > 0 {
		p.b.WriteByte('\n')
	}
	for _, l := range fill(p.style.Width, 0, 0, words(text)) {
		p.b.WriteString(p.painted(bold, l) + "\n")
	}
}

// lead is what a paragraph begins with. It is never broken.
type lead struct {
	indent int
	text   string
	paint  paint
	gap    int // spaces after text
}

func (l lead) width() int { return l.indent + utf8.RuneCountInString(l.text) + l.gap }

// paragraph writes text behind its lead, wrapped, with every further line
// indented by hang.
func (p *page) paragraph(l lead, hang int, text string) {
	lines := fill(p.style.Width, l.width(), hang, words(text))
	first := strings.Repeat(" ", l.indent) + p.painted(l.paint, l.text) + strings.Repeat(" ", l.gap) + lines[0]
	p.b.WriteString(strings.TrimRight(first, " ") + "\n")
	for _, line := range lines[1:] {
		p.b.WriteString(strings.Repeat(" ", hang) + line + "\n")
	}
}

// verbatim writes one line that is never wrapped: a command.
func (p *page) verbatim(indent int, command string) {
	p.b.WriteString(strings.TrimRight(strings.Repeat(" ", indent)+Visible(command), " ") + "\n")
}

// fact is a name and its value. An empty value is left out.
type fact struct{ name, value string }

// facts writes them as two columns.
func (p *page) facts(indent int, all []fact) {
	column := 0
	for _, f := range all {
		if f.value != "" {
			column = max(column, indent+utf8.RuneCountInString(f.name)+2)
		}
	}
	for _, f := range all {
		if f.value == "" {
			continue
		}
		hang := column
		for _, w := range words(f.value) {
			if column+utf8.RuneCountInString(w) > p.style.Width {
				hang = indent + 2 // a hash that has no room beside the names
			}
		}
		p.paragraph(lead{indent, f.name, plain, column - indent - utf8.RuneCountInString(f.name)}, hang, f.value)
	}
}

// list writes numbered paragraphs; then, if not nil, what belongs below each.
func (p *page) list(texts []string, below func(i, indent int)) {
	for i, text := range texts {
		l := lead{2, fmt.Sprintf("%d.", i+1), plain, 1}
		p.paragraph(l, l.width(), text)
		if below != nil {
			below(i, l.width())
		}
	}
}

// fill breaks words into lines of at most width, the first of which begins at
// column first and the others at column hang. A word is never broken: one that is
// too long has a line for itself. There is always a first line; it is empty
// where the first word has more room on the next.
func fill(width, first, hang int, words []string) []string {
	lines := []string{""}
	used := first
	for _, w := range words {
		n, last := utf8.RuneCountInString(w), len(lines)-1
		switch {
		case lines[last] == "" && (used+n <= width || used <= hang):
			lines[last] = w
			used += n
		case lines[last] != "" && used+1+n <= width:
			lines[last] += " " + w
			used += 1 + n
		default:
			lines = append(lines, w)
			used = hang + n
		}
	}
	return lines
}

// words are the parts of a text that are not broken: its words, and what stands
// in quotation marks (' or `), such as a command.
func words(text string) []string {
	fields := strings.Fields(text)
	var all []string
	for i := 0; i < len(fields); {
		end := quotationEnd(fields[i:])
		all = append(all, Visible(strings.Join(fields[i:i+end], " ")))
		i += end
	}
	return all
}

// quotationEnd is the number of fields of the quotation that fields begin with; 1
// where they begin with none, or with one that does not end.
func quotationEnd(fields []string) int {
	opening := strings.TrimLeft(fields[0], "(")
	if opening == "" || opening[0] != '\'' && opening[0] != '`' {
		return 1
	}
	quote := opening[:1]
	for i, f := range fields {
		if i == 0 {
			f = opening[1:]
		}
		if strings.HasSuffix(strings.TrimRight(f, ".,;:)?!"), quote) {
			return i + 1
		}
	}
	return 1
}

// Visible is text with every control or otherwise invisible character, and every
// byte that is not UTF-8, written as an escape sequence of ASCII.
func Visible(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				fmt.Fprintf(&b, `\x%02x`, text[i])
			} else {
				b.WriteRune(r)
			}
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
