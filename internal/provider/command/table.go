package command

import (
	"strings"
	"unicode/utf8"
)

// column of a table.
type column struct {
	name  string
	right bool // numbers stand at the right
}

// table writes rows under their columns. Where the page is too narrow for that,
// each row becomes a paragraph that names what it tells.
func (p *page) table(indent int, columns []column, rows [][]string) {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = utf8.RuneCountInString(c.name)
	}
	for r, row := range rows {
		rows[r] = make([]string, len(row))
		for i, cell := range row {
			rows[r][i] = strings.Join(words(cell), " ")
			widths[i] = max(widths[i], utf8.RuneCountInString(rows[r][i]))
		}
	}
	total := indent + 2*(len(columns)-1)
	for _, w := range widths {
		total += w
	}
	if total > p.style.Width {
		p.records(indent, columns, rows)
		return
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	for _, row := range append([][]string{names}, rows...) {
		line := strings.Repeat(" ", indent)
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if columns[i].right {
				line += space + cell + "  "
			} else {
				line += cell + space + "  "
			}
		}
		p.b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// records writes each row as a paragraph. Cells with nothing to tell are left out.
func (p *page) records(indent int, columns []column, rows [][]string) {
	for _, row := range rows {
		var parts []string
		for i, cell := range row {
			if cell != "" && cell != nothing {
				parts = append(parts, columns[i].name+" "+cell)
			}
		}
		p.paragraph(lead{indent, "-", plain, 1}, indent+2, strings.Join(parts, ", "))
	}
}

// nothing stands in a table where there is nothing to tell.
const nothing = "-"
