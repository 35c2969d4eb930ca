package page

import (
	"slices"
	"strings"
	"unicode"
)

// section is a section of report.md, so that the page has every table that report.md has.
type section struct {
	Title  string
	Open   bool
	Blocks []block
}

// block is a part of a section: a heading, a paragraph, a note, a list, or a table with headers. The others are empty.
type block struct {
	Heading, Text, Note string
	Items               []string
	Headers             []string
	Rows                [][]string
	Wordy               []bool // by column, see Words
}

// Words reports whether a column of the table has words, which start at the left and may be wrapped, rather than
// numbers.
func (b block) Words(column int) bool { return column < len(b.Wordy) && b.Wordy[column] }

// look finds out which columns have words.
func (b *block) look() {
	for _, row := range b.Rows {
		b.Wordy = append(b.Wordy, make([]bool, max(len(row)-len(b.Wordy), 0))...)
		for i, text := range row {
			b.Wordy[i] = b.Wordy[i] || text != unknown && strings.ContainsFunc(text, unicode.IsLetter)
		}
	}
}

// thresholdsTitle is the title of the section that the page has near its start.
const thresholdsTitle = "Thresholds"

// openSections are the titles of sections that are shown without a click.
var openSections = []string{"Trust", "Errors"}

// sectionsOf reads report.md, as Spate writes it, except the sections whose titles are in skip and what is before the
// first section. It reads all lines as text: Markdown within a line has no meaning.
func sectionsOf(markdown string, skip []string) (list []section) {
	skipping := true
	for line := range strings.Lines(markdown) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			skipping = slices.Contains(skip, title)
			if !skipping {
				list = append(list, section{Title: title, Open: slices.Contains(openSections, title)})
			}
			continue
		}
		if !skipping && line != "" {
			list[len(list)-1].add(line)
		}
	}
	for _, s := range list {
		for i := range s.Blocks {
			s.Blocks[i].look()
		}
	}
	return list
}

// add adds a line, to the last block if it continues that one.
func (s *section) add(line string) {
	kind, rest, _ := strings.Cut(line, " ")
	last := &block{}
	if n := len(s.Blocks); n > 0 {
		last = &s.Blocks[n-1]
	}
	switch {
	case strings.HasPrefix(line, "|:-:|"): // the alignment of a table's columns
	case kind == "|" && last.Headers != nil:
		last.Rows = append(last.Rows, cellsIn(line))
	case kind == "|":
		s.Blocks = append(s.Blocks, block{Headers: cellsIn(line)})
	case kind == "-" && last.Items != nil:
		last.Items = append(last.Items, plain(rest))
	case kind == "-":
		s.Blocks = append(s.Blocks, block{Items: []string{plain(rest)}})
	case kind == "!":
		s.Blocks = append(s.Blocks, block{Note: plain(rest)})
	case kind == "###":
		s.Blocks = append(s.Blocks, block{Heading: plain(rest)})
	default:
		s.Blocks = append(s.Blocks, block{Text: plain(line)})
	}
}

// cellsIn returns the cells of a table's row: "| a | b |".
func cellsIn(line string) []string {
	const bar = "\x00" // stands for an escaped bar
	line = strings.ReplaceAll(strings.Trim(line, "| "), `\|`, bar)
	cells := strings.Split(line, " | ")
	for i, c := range cells {
		cells[i] = plain(strings.ReplaceAll(c, bar, "|"))
	}
	return cells
}

// plain undoes the escaping of "<" in report.md.
func plain(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "&lt;", "<")) }
