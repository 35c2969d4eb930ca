package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is text in aligned columns, two spaces apart.
type Table struct {
	Right []bool // columns of numbers, by index
	rows  [][]string
}

// Row adds a row.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// Write prints the table. No line has trailing spaces.
func (t *Table) Write(w io.Writer) error {
	widths := t.widths()
	var b strings.Builder
	for _, cells := range t.rows {
		var line strings.Builder
		for i, cell := range cells {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < len(t.Right) && t.Right[i] {
				line.WriteString(space + cell + "  ")
			} else {
				line.WriteString(cell + space + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Narrow drops columns, the last ones first, until the table fits into a width, but never the first two. 0: no limit.
func (t *Table) Narrow(width int) {
	for width > 0 {
		widths := t.widths()
		total := 2 * (len(widths) - 1)
		for _, w := range widths {
			total += w
		}
		if total <= width || len(widths) <= 2 {
			return
		}
		for i, cells := range t.rows {
			t.rows[i] = cells[:len(widths)-1]
		}
	}
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
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// List prints names with a text beside each, wrapped to the terminal, if there is one.
func List(w io.Writer, names, texts []string) error {
	t := &Table{}
	width := 0
	for _, name := range names {
		width = max(width, utf8.RuneCountInString(name)+2)
	}
	if terminal := Width(w); terminal > 0 {
		width = max(20, terminal-width)
	} else {
		width = 0
	}
	for i, name := range names {
		for n, line := range Wrap(texts[i], width) {
			if n > 0 {
				name = ""
			}
			t.Row(name, line)
		}
	}
	if err := t.Write(w); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return nil
}
