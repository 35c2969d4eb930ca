package table

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Aligned is text in aligned columns.
type Aligned struct {
	Right []bool // columns that are aligned right, by index
	Gap   string // between columns; two spaces if it is empty
	rows  [][]string
}

// Row adds a row.
func (t *Aligned) Row(cells ...string) { t.rows = append(t.rows, cells) }

// Lines returns the rows as lines. No line has trailing spaces.
func (t *Aligned) Lines() []string {
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
func (t *Aligned) Write(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(append(t.Lines(), ""), "\n"))
	return err
}

// Width returns the number of columns of text that the table takes.
func (t *Aligned) Width() int {
	widths := t.widths()
	total := (len(widths) - 1) * len(t.gap())
	for _, w := range widths {
		total += w
	}
	return total
}

func (t *Aligned) gap() string {
	if t.Gap == "" {
		return "  "
	}
	return t.Gap
}

func (t *Aligned) widths() []int {
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
