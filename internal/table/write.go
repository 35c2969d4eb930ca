package table

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
)

// Text writes a table for a terminal that is width columns wide; 0 means any width. Columns that do not fit are left
// out, the last ones first, and a note says so.
func (t *Table) Text(w io.Writer, width int) error {
	var b strings.Builder
	dropped := 0
	for title, part := range t.Parts() {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if title != "" {
			b.WriteString(title + "\n")
		}
		lines, out := part.fit(width, 10)
		dropped = max(dropped, out)
		b.WriteString(strings.Join(lines, "\n") + "\n")
	}
	notes := t.AllNotes()
	if dropped > 0 {
		notes = append(notes, fmt.Sprintf(
			"up to %d columns do not fit: use --format markdown or csv, or a wider terminal", dropped))
	}
	for _, note := range notes {
		b.WriteString(strings.Join(append(words.Wrap(note, width), ""), "\n"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Lines returns the table's head in one line, and a line for each row. Columns that do not fit into a width are left
// out, the last ones first. 0: any width.
func (t *Table) Lines(width int) []string {
	lines, _ := t.fit(width, 0)
	return lines
}

// Write prints the table's lines.
func (t *Table) Write(w io.Writer, width int) error {
	_, err := io.WriteString(w, strings.Join(append(t.Lines(width), ""), "\n"))
	return err
}

// Capitals puts the headers in capitals.
func (t *Table) Capitals() *Table {
	for i := range t.Columns {
		t.Columns[i].Header = strings.ToUpper(t.Columns[i].Header)
	}
	return t
}

// fit returns the lines of the columns that fit into a width, and how many do not. Labels and the first column after
// them always stay. If narrow is more than 0, headers are wrapped to the width of the values, but not below narrow.
func (t *Table) fit(width, narrow int) (lines []string, dropped int) {
	least := 1
	for i, c := range t.Columns {
		if c.Label {
			least = i + 2
		}
	}
	all, asides := t.grid(narrow, true), true
	for n := len(t.Columns); ; n-- {
		aligned := &Aligned{}
		for _, c := range t.Columns {
			aligned.Right = append(aligned.Right, !c.Words)
		}
		for _, cells := range all {
			aligned.Row(cells[:min(n, len(cells))]...)
		}
		switch fits := width <= 0 || aligned.Width() <= width; {
		case fits || n <= least && !asides:
			return aligned.Lines(), len(t.Columns) - n
		case asides:
			all, asides, n = t.grid(narrow, false), false, len(t.Columns)+1
		}
	}
}

// grid returns the lines of the header, which are wrapped if narrow is more than 0, and the rows.
func (t *Table) grid(narrow int, asides bool) [][]string {
	rows := lists.Each(t.Rows, func(r Row) []string { return t.texts(r, asides) })
	headers, height := make([][]string, len(t.Columns)), 1
	for i, c := range t.Columns {
		headers[i] = []string{c.Header}
		if narrow > 0 {
			widest := narrow
			for _, row := range rows {
				widest = max(widest, len(row[i]))
			}
			headers[i] = words.Wrap(c.Header, widest)
		}
		height = max(height, len(headers[i]))
	}
	lines := make([][]string, height, height+len(rows))
	for n := range lines {
		for _, h := range headers {
			text := ""
			if above := height - len(h); n >= above {
				text = h[n-above]
			}
			lines[n] = append(lines[n], text)
		}
	}
	return append(lines, rows...)
}

// HTML is a template that defines "table".
//
//go:embed table.html.tmpl
var HTML string

// Markdown writes a table in Markdown, with its headings and notes.
func (t *Table) Markdown(w io.Writer) error {
	var b strings.Builder
	for i, block := range t.Blocks() {
		if i > 0 {
			b.WriteByte('\n')
		}
		block.markdown(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// MarkdownRows returns the head and the rows in Markdown.
func (t *Table) MarkdownRows() string {
	var b strings.Builder
	write := func(before, after string, cells []string) {
		for _, text := range cells {
			b.WriteString("|" + before + text + after)
		}
		b.WriteString("|\n")
	}
	var headers, alignments []string
	for _, c := range t.Columns {
		alignment := "-:"
		switch {
		case t.Centred:
			alignment = ":-:"
		case c.Words:
			alignment = ":-"
		}
		headers, alignments = append(headers, Escape(strings.TrimRight(c.Header, " "))), append(alignments, alignment)
	}
	write(" ", " ", headers)
	write("", "", alignments)
	for _, r := range t.Rows {
		texts := t.texts(r, true)
		for i, text := range texts {
			texts[i] = Escape(strings.TrimRight(text, " "))
			if link := r.Cells[i].Link; strings.Contains(link, "://") { // others lead within the site of a page
				texts[i] = "[" + texts[i] + "](" + inLink.Replace(link) + ")"
			}
		}
		write(" ", " ", texts)
	}
	return b.String()
}

var escapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "\r", " ", "\n", " ", "<", "&lt;", "[", `\[`, "`", "\\`", "*", `\*`)

// inLink keeps a URL from ending the link, or the cell, that it is in.
var inLink = strings.NewReplacer(`\`, "%5C", "|", "%7C", "<", "%3C", ">", "%3E", "(", "%28", ")", "%29")

// Escape keeps a text in its line and its cell of Markdown, and from being read as markup.
func Escape(s string) string { return escapes.Replace(s) }

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
	return Unknown
}

// In writes the table in a format: markdown, csv, json, or else as text of a width.
func (t *Table) In(format string, w io.Writer, width int) error {
	switch format {
	case "markdown":
		return t.Markdown(w)
	case "csv":
		return t.CSV(w)
	case "json":
		return t.JSON(w)
	}
	return t.Text(w, width)
}

// JSON writes a table as a list of objects, with null for numbers that are not known.
func (t *Table) JSON(w io.Writer) error {
	var objects []string
	for i := range t.Rows {
		var fields []string
		var failed error
		t.values(&t.Rows[i], func(key string, value any) {
			text, err := json.Marshal(value)
			if err != nil {
				failed = fmt.Errorf("%s of row %d: %w", key, i+1, err)
			}
			fields = append(fields, fmt.Sprintf("%q:%s", key, text))
		})
		if failed != nil {
			return failed
		}
		objects = append(objects, "{"+strings.Join(fields, ",")+"}")
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte("["+strings.Join(objects, ",")+"]"), "", "  "); err != nil {
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
	return (len(widths)-1)*len(t.gap()) + lists.Sum(widths, func(w int) int { return w })
}

func (t *Aligned) gap() string { return cmp.Or(t.Gap, "  ") }

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
