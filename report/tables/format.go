package tables

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/layout"
	"github.com/spate-load/spate/report/section"
)

// Text writes a table for a terminal that is width columns wide; 0 means any width. Columns that do not fit are left
// out, the last ones first, and a note says so.
func (t *Table) Text(w io.Writer, width int) error {
	var b strings.Builder
	dropped := 0
	t.blocks(func(title string, columns []int, rows []Row) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if title != "" {
			b.WriteString(title + "\n")
		}
		asked := len(columns)
		columns, cells := t.fit(columns, rows, width)
		dropped = max(dropped, asked-len(columns))
		table := &layout.Table{}
		for _, c := range columns {
			table.Right = append(table.Right, !t.Columns[c].Words)
		}
		for _, line := range cells {
			table.Row(line...)
		}
		_ = table.Write(&b) // a strings.Builder takes everything
	})
	for _, note := range t.notes() {
		writeLines(&b, note, width)
	}
	if dropped > 0 {
		writeLines(&b, fmt.Sprintf("up to %d columns do not fit: use --format markdown or csv, or a wider terminal", dropped),
			width)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fit returns the columns that fit into a width, and their lines: header and rows.
func (t *Table) fit(columns []int, rows []Row, width int) (fitting []int, lines [][]string) {
	for {
		lines = t.lines(columns, rows)
		table := &layout.Table{}
		for _, line := range lines {
			table.Row(line...)
		}
		if width <= 0 || table.Width() <= width || t.Columns[columns[len(columns)-1]].Label {
			return columns, lines
		}
		columns = columns[:len(columns)-1]
	}
}

// lines returns the header, wrapped to the width of the values, and the values.
func (t *Table) lines(columns []int, rows []Row) [][]string {
	headers := make([][]string, len(columns))
	cells := make([][]string, len(rows))
	for n, r := range rows {
		cells[n] = t.cells(r, columns)
	}
	for i, c := range columns {
		widest := 10
		for n := range rows {
			widest = max(widest, len(cells[n][i]))
		}
		headers[i] = layout.Wrap(t.Columns[c].Header, widest)
	}
	height := 0
	for _, h := range headers {
		height = max(height, len(h))
	}
	lines := make([][]string, height, height+len(rows))
	for n := range height {
		for _, h := range headers {
			text := ""
			if above := height - len(h); n >= above {
				text = h[n-above]
			}
			lines[n] = append(lines[n], text)
		}
	}
	return append(lines, cells...)
}

// Markdown writes a table in Markdown.
func (t *Table) Markdown(w io.Writer) error {
	var b strings.Builder
	section.Markdown(&b, t.Blocks())
	_, err := io.WriteString(w, b.String())
	return err
}

// Blocks returns a table as blocks of a report.
func (t *Table) Blocks() (list []section.Block) {
	t.blocks(func(title string, columns []int, rows []Row) {
		if title != "" {
			list = append(list, section.Block{Heading: title})
		}
		table := section.Block{}
		for _, c := range columns {
			table.Headers = append(table.Headers, t.Columns[c].Header)
			table.Words = append(table.Words, t.Columns[c].Words)
		}
		for _, r := range rows {
			table.Rows = append(table.Rows, t.cells(r, columns))
		}
		list = append(list, table)
	})
	for _, note := range t.notes() {
		list = append(list, section.Text("%s", note))
	}
	return list
}

// cells formats the cells of a row for people. The first one has a mark if the row has.
func (t *Table) cells(r Row, columns []int) (cells []string) {
	for i, c := range columns {
		text := t.cell(r, c)
		if i == 0 && r.Mark != "" {
			text += " !"
		}
		cells = append(cells, text)
	}
	return cells
}

// blocks calls do for each heading and each group of columns, with the columns for people.
func (t *Table) blocks(do func(title string, columns []int, rows []Row)) {
	var headings, groups []string
	for _, r := range t.Rows {
		headings = appendOnce(headings, r.Heading)
	}
	for _, c := range t.Columns {
		if c.Header != "" && !c.Label {
			groups = appendOnce(groups, c.Group)
		}
	}
	for _, heading := range headings {
		rows := slices.DeleteFunc(slices.Clone(t.Rows), func(r Row) bool { return r.Heading != heading })
		for _, group := range groups {
			var columns []int
			for i, c := range t.Columns {
				if c.Header != "" && (c.Label || c.Group == group) {
					columns = append(columns, i)
				}
			}
			do(strings.TrimPrefix(strings.TrimSuffix(heading+": "+group, ": "), ": "), columns, rows)
		}
	}
}

func appendOnce(list []string, item string) []string {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}

// notes returns the notes: why rows are marked, then the table's own.
func (t *Table) notes() []string {
	var notes []string
	for _, r := range t.Rows {
		if r.Mark != "" {
			notes = appendOnce(notes, fmt.Sprintf("! %s: %s", r.Name, r.Mark))
		}
	}
	return append(notes, t.Notes...)
}

// cell formats a cell for people.
func (t *Table) cell(r Row, column int) string {
	c, col := r.Cells[column], t.Columns[column]
	switch {
	case col.Words:
		return c.Text
	case c.Number == nil:
		return section.Unknown
	}
	text := strconv.FormatFloat(*c.Number, 'f', col.Digits, 64) + c.Mark
	if c.Ratio != nil {
		text += fmt.Sprintf(" (%+.2f %%)", 100*(*c.Ratio-1))
	}
	return text
}

// CSV writes a table with a header of keys, a row for each row, and n/a for numbers that are not known.
func (t *Table) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	var keys []string
	t.values(nil, func(key string, _ any) { keys = append(keys, key) })
	if err := out.Write(keys); err != nil {
		return err
	}
	for i := range t.Rows {
		var line []string
		t.values(&t.Rows[i], func(_ string, value any) { line = append(line, field(value)) })
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// field formats a value for CSV. A text that a spreadsheet would take for a formula starts with an apostrophe.
func field(value any) string {
	switch v := value.(type) {
	case string:
		if v != "" && strings.ContainsRune("=+-@", rune(v[0])) {
			return "'" + v
		}
		return v
	case *float64:
		if v != nil {
			return strconv.FormatFloat(*v, 'f', -1, 64)
		}
	}
	return section.Unknown
}

// JSON writes a table as a list of objects, with null for numbers that are not known.
func (t *Table) JSON(w io.Writer) error {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range t.Rows {
		if i > 0 {
			b.WriteByte(',')
		}
		sep := byte('{')
		var failed error
		t.values(&t.Rows[i], func(key string, value any) {
			text, err := json.Marshal(value)
			if err != nil {
				failed = fmt.Errorf("%s of row %d: %w", key, i+1, err)
			}
			fmt.Fprintf(&b, "%c%q:%s", sep, key, text)
			sep = ','
		})
		if failed != nil {
			return failed
		}
		b.WriteByte('}')
	}
	b.WriteByte(']')
	var out bytes.Buffer
	if err := json.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return err
}

// values calls do for each value of a row, by key: a string or a *float64. Without a row it passes only the keys.
func (t *Table) values(r *Row, do func(key string, value any)) {
	for i, c := range t.Columns {
		var cell Cell
		if r != nil {
			cell = r.Cells[i]
		}
		if c.Words {
			do(c.Key, cell.Text)
			continue
		}
		do(c.Key, cell.Number)
		if c.Compared {
			do(c.Key+"_ratio", cell.Ratio)
		}
	}
}

// writeLines writes a text, wrapped to a width.
func writeLines(b *strings.Builder, text string, width int) {
	for _, line := range layout.Wrap(text, width) {
		b.WriteString(line + "\n")
	}
}
