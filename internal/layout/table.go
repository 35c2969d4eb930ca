// Package layout lays out text in columns and lines, for terminals and reports.
package layout

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable replaces with blanks what could control a terminal, change the direction of text, or end a line, in words
// that come from plans and servers.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// Table is text in aligned columns.
type Table struct {
	Right []bool // columns that are aligned right, by index
	Gap   string // between columns; two spaces if it is empty
	rows  [][]string
}

// Row adds a row.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// Lines returns the rows as lines. No line has trailing spaces.
func (t *Table) Lines() []string {
	widths := t.widths()
	lines := make([]string, len(t.rows))
	for n, cells := range t.rows {
		var line strings.Builder
		for i, cell := range cells {
			if i > 0 {
				line.WriteString(t.gap())
			}
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < len(t.Right) && t.Right[i] {
				line.WriteString(space + cell)
			} else {
				line.WriteString(cell + space)
			}
		}
		lines[n] = strings.TrimRight(line.String(), " ")
	}
	return lines
}

// Write prints the table.
func (t *Table) Write(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(append(t.Lines(), ""), "\n"))
	return err
}

// Width returns the number of columns of text that the table takes.
func (t *Table) Width() int {
	widths := t.widths()
	total := (len(widths) - 1) * len(t.gap())
	for _, w := range widths {
		total += w
	}
	return total
}

func (t *Table) gap() string {
	if t.Gap == "" {
		return "  "
	}
	return t.Gap
}

func (t *Table) widths() []int {
	var widths []int
	for _, cells := range t.rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// Wrap breaks text between words into lines of at most width columns. A longer word gets its own line. 0: no limit.
func Wrap(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
