package spatecmd

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is text in aligned columns, two spaces apart.
type table struct {
	right []bool // columns of numbers, by index
	rows  [][]string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table. No line has trailing spaces.
func (t *table) write(w io.Writer) error {
	widths := t.widths()
	var b strings.Builder
	for _, cells := range t.rows {
		var line strings.Builder
		for i, cell := range cells {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < len(t.right) && t.right[i] {
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

// narrow drops columns, the last ones first, until the table fits into a width, but never the first two. 0: no limit.
func (t *table) narrow(width int) {
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

func (t *table) widths() []int {
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

// wrap breaks text between words into lines of at most width columns. A longer word gets its own line. 0: no limit.
func wrap(text string, width int) []string {
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

// list prints names with a text beside each, wrapped to the terminal, if there is one.
func list(w io.Writer, names, texts []string) error {
	t := &table{}
	width := 0
	for _, name := range names {
		width = max(width, utf8.RuneCountInString(name)+2)
	}
	if terminal := terminalWidth(w); terminal > 0 {
		width = max(20, terminal-width)
	} else {
		width = 0
	}
	for i, name := range names {
		for n, line := range wrap(texts[i], width) {
			if n > 0 {
				name = ""
			}
			t.row(name, line)
		}
	}
	if err := t.write(w); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return nil
}
