// Package table holds tables as data, and writes them for people and programs: as text, Markdown, HTML, CSV and JSON.
// Packages that know what a table is about make it once, and do not care how it is shown.
package table

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
)

// Unknown stands for a number that is not known.
const Unknown = "n/a"

// Table is rows that have the same columns.
type Table struct {
	// Columns of the table. People read them in groups: one below the other, each with the label columns.
	Columns []Column
	// Rows of the table, each with a cell for each column. People read rows with the same heading together.
	Rows []Row
	// Notes are for people, below the table.
	Notes []string
	// Centred reports whether Markdown centres all columns.
	Centred bool
}

// Column describes the cells of a column.
type Column struct {
	// Key is the column's name for programs.
	Key string
	// Header is the title for people, with the unit. Empty: the column is for programs only.
	Header string
	// Group is the title of the columns that are shown together. Empty: there is only one group.
	Group string
	// Label columns say what a row is about. They come first and are part of each group.
	Label bool
	// Words columns hold text, which starts at the left; others hold numbers.
	Words bool
	// Digits is the number of decimals for people.
	Digits int
	// Compared columns have a ratio to the baseline beside each number.
	Compared bool
	// Field is the name in results.json of the column's number, for those who fill the table. Percent says that it is a
	// share which is shown in percent.
	Field   string
	Percent bool
}

// Row is a row of a table.
type Row struct {
	// Heading is the title of the rows that are shown together.
	Heading string
	// Mark is what makes the row's numbers doubtful: "PARTIAL", "INVALID". Empty: nothing does.
	Mark string
	// Name is the row's name in the note about its mark.
	Name string
	// Colour says how the row stands out where there are colours.
	Colour Colour
	// Cells are the values, in the order of the columns.
	Cells []Cell
}

// Colour says how a row stands out.
type Colour int

// Colours of rows. People should see the highest first.
const (
	Plain Colour = iota
	Suspect
	Bad
)

// Cell is a value.
type Cell struct {
	// Text of a column of words, or of a number that is formatted already.
	Text string
	// Number of another column. Nil: it is not known.
	Number *float64
	// Mark of the number, for people: see results.StageResult.Mark.
	Mark string
	// Ratio of the number to the baseline's. Nil: it is not known, or the row is the baseline's own.
	Ratio *float64
	// Class of the cell in HTML, a Note that stands below its text there, and where it leads. Empty: none.
	Class, Note, Link string
	// Aside stands behind the text where a part of the table has room for all asides, and in HTML below it.
	Aside string
}

// Format formats a value, Unknown if it is nil.
func Format[V any](format string, v *V) string {
	if v == nil {
		return Unknown
	}
	return fmt.Sprintf(format, *v)
}

// Word returns a cell of a column of words.
func Word(text string) Cell { return Cell{Text: words.Printable(text)} }

// Number returns a cell of another column.
func Number(v *float64) Cell { return Cell{Number: v} }

// Count returns a cell with a whole number.
func Count[T uint32 | uint64](v T) Cell {
	n := float64(v)
	return Cell{Number: &n}
}

// Words returns columns of words. Numbers returns others.
func Words(headers ...string) []Column {
	columns := Numbers(headers...)
	for i := range columns {
		columns[i].Words = true
	}
	return columns
}

// Numbers returns columns of numbers.
func Numbers(headers ...string) (columns []Column) {
	return lists.Each(headers, func(h string) Column { return Column{Header: h} })
}

// New returns a table with columns, whose first one is a label.
func New(columns ...[]Column) *Table {
	t := &Table{Columns: slices.Concat(columns...)}
	t.Columns[0].Label = true
	return t
}

// Of returns a table of texts, whose columns Markdown centres. It has words in the columns with a letter, or without
// anything. Rows may be longer than the headers.
func Of(headers []string, rows [][]string) *Table {
	t := &Table{Columns: Numbers(headers...), Centred: true}
	for _, row := range rows {
		t.Columns = append(t.Columns, make([]Column, max(len(row)-len(t.Columns), 0))...)
		for i, text := range row {
			c := &t.Columns[i]
			c.Words = c.Words || text == "" || text != Unknown && strings.ContainsFunc(text, unicode.IsLetter)
		}
		t.Add(row...)
	}
	return t
}

// Add adds a row of texts.
func (t *Table) Add(texts ...string) *Row {
	t.Rows = append(t.Rows, Row{})
	row := &t.Rows[len(t.Rows)-1]
	row.Add(texts...)
	return row
}

// Add adds cells to a row.
func (r *Row) Add(texts ...string) {
	for _, text := range texts {
		r.Cells = append(r.Cells, Cell{Text: text})
	}
}

// Texts returns the cells of a row for people. The first one has a mark if the row has.
func (t *Table) Texts(r Row) []string { return t.texts(r, false) }

func (t *Table) texts(r Row, asides bool) []string {
	texts := make([]string, len(r.Cells))
	for i, c := range r.Cells {
		texts[i] = t.text(i, c) + c.Mark
		if c.Ratio != nil {
			texts[i] += fmt.Sprintf(" (%+.2f %%)", 100*(*c.Ratio-1))
		}
		if i == 0 && r.Mark != "" {
			texts[i] += " !"
		}
		if asides {
			texts[i] += c.Aside
		}
	}
	return texts
}

// text formats a cell for people, without its mark.
func (t *Table) text(column int, c Cell) string {
	col := t.Columns[column]
	switch {
	case col.Words || c.Text != "":
		return c.Text
	case c.Number == nil:
		return Unknown
	}
	return strconv.FormatFloat(*c.Number, 'f', col.Digits, 64)
}

// Parts returns what people read one below the other: for each heading and each group of columns a table of them,
// without notes, by its title.
func (t *Table) Parts() iter.Seq2[string, *Table] {
	return func(yield func(string, *Table) bool) {
		var headings, groups []string
		for _, r := range t.Rows {
			headings = words.AppendOnce(headings, r.Heading)
		}
		for _, c := range t.Columns {
			if c.Header != "" && !c.Label {
				groups = words.AppendOnce(groups, c.Group)
			}
		}
		for _, heading := range headings {
			for _, group := range groups {
				title := strings.TrimPrefix(strings.TrimSuffix(heading+": "+group, ": "), ": ")
				if !yield(title, t.part(heading, group)) {
					return
				}
			}
		}
	}
}

// part returns the rows with a heading, and of their columns the labels and those of a group.
func (t *Table) part(heading, group string) *Table {
	part := &Table{Centred: t.Centred}
	var kept []int
	for i, c := range t.Columns {
		if c.Header != "" && (c.Label || c.Group == group) {
			kept = append(kept, i)
			part.Columns = append(part.Columns, c)
		}
	}
	for _, r := range t.Rows {
		if r.Heading != heading {
			continue
		}
		all := r.Cells
		r.Cells = nil
		for _, i := range kept {
			r.Cells = append(r.Cells, all[i])
		}
		part.Rows = append(part.Rows, r)
	}
	return part
}

// AllNotes returns why rows are marked, then the table's own notes.
func (t *Table) AllNotes() []string {
	var notes []string
	for _, r := range t.Rows {
		if r.Mark != "" {
			notes = words.AppendOnce(notes, fmt.Sprintf("! %s: %s", r.Name, r.Mark))
		}
	}
	return append(notes, t.Notes...)
}

// Section is a part of a report with a title. A section without blocks is not shown.
type Section struct {
	Title  string
	Blocks []Block
}

// Block is a heading, a paragraph, a note, a list, or a table: the fields of the others are empty.
type Block struct {
	Heading, Text, Note string
	Items               []string
	Table               *Table
}

// NewSection returns a section of those blocks that are not empty. A table without rows is empty.
func NewSection(title string, blocks ...Block) Section {
	return Section{title, slices.DeleteFunc(blocks, func(b Block) bool {
		return b.Heading+b.Text+b.Note == "" && len(b.Items) == 0 && (b.Table == nil || len(b.Table.Rows) == 0)
	})}
}

// Text returns a paragraph.
func Text(format string, args ...any) Block { return Block{Text: fmt.Sprintf(format, args...)} }

// List returns a list. It is empty if it has no items.
func List(items []string) Block { return Block{Items: items} }

// Notes returns a note for each text.
func Notes(texts []string) (blocks []Block) {
	return lists.Each(texts, func(text string) Block { return Block{Note: text} })
}

// Texts returns a table of texts: see Of.
func Texts(headers []string, rows [][]string) Block { return Block{Table: Of(headers, rows)} }

// Blocks returns what people read of a table.
func (t *Table) Blocks() (blocks []Block) {
	for title, part := range t.Parts() {
		if title != "" {
			blocks = append(blocks, Block{Heading: title})
		}
		blocks = append(blocks, Block{Table: part})
	}
	return append(blocks, lists.Each(t.AllNotes(), func(note string) Block { return Text("%s", note) })...)
}

// Text writes an empty line and the section without its title for a terminal that is width columns wide; 0: any width.
func (s Section) Text(b *strings.Builder, width int) {
	b.WriteByte('\n')
	for _, block := range s.Blocks {
		switch {
		case block.Heading != "":
			b.WriteString("\n" + block.Heading + "\n")
		case block.Table != nil:
			b.WriteString(strings.Join(append(block.Table.Lines(width), ""), "\n"))
		case block.Note != "":
			b.WriteString(strings.Join(append(words.Wrap("! "+block.Note, width), ""), "\n"))
		default:
			b.WriteString(strings.Join(append(words.Wrap(block.Text, width), ""), "\n"))
		}
	}
}

// Markdown writes an empty line and the section, or nothing if it has no blocks.
func (s Section) Markdown(b *strings.Builder) {
	if len(s.Blocks) > 0 {
		fmt.Fprintf(b, "\n## %s\n", Escape(s.Title))
	}
	for _, block := range s.Blocks {
		b.WriteByte('\n')
		block.markdown(b)
	}
}

func (block Block) markdown(b *strings.Builder) {
	switch {
	case block.Heading != "":
		fmt.Fprintf(b, "### %s\n", Escape(block.Heading))
	case block.Text != "":
		fmt.Fprintf(b, "%s\n", Escape(block.Text))
	case block.Note != "":
		fmt.Fprintf(b, "! %s\n", Escape(block.Note))
	}
	for _, item := range block.Items {
		fmt.Fprintf(b, "- %s\n", Escape(item))
	}
	if block.Table != nil {
		b.WriteString(block.Table.MarkdownRows())
	}
}
