// Package section holds the parts of a report as data: made once, written as Markdown here and as HTML by package page.
package section

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Unknown stands for a number that is not known.
const Unknown = "n/a"

// Section is a part of a report with a title. A section without blocks is not shown.
type Section struct {
	Title  string
	Blocks []Block
}

// Block is a heading, a paragraph, a note, a list, or a table: the fields of the others are empty.
type Block struct {
	Heading, Text, Note string
	Items               []string
	Headers             []string
	Rows                [][]string
	// Words are the columns of a table with words, which start at the left, rather than numbers.
	Words []bool
	// Centred reports whether Markdown centres all columns of a table.
	Centred bool
}

// New returns a section of those blocks that are not empty. A table without rows is empty.
func New(title string, blocks ...Block) Section {
	return Section{title, slices.DeleteFunc(blocks, func(b Block) bool {
		return b.Heading+b.Text+b.Note == "" && len(b.Items)+len(b.Rows) == 0
	})}
}

// Text returns a paragraph.
func Text(format string, args ...any) Block { return Block{Text: fmt.Sprintf(format, args...)} }

// List returns a list. It is empty if it has no items.
func List(items []string) Block { return Block{Items: items} }

// Notes returns a note for each text.
func Notes(texts []string) (blocks []Block) {
	for _, text := range texts {
		blocks = append(blocks, Block{Note: text})
	}
	return blocks
}

// Table returns a table whose columns are centred in Markdown. It has words in the columns with a letter.
func Table(headers []string, rows [][]string) Block {
	words := slices.Repeat([]bool{false}, len(headers))
	for _, row := range rows {
		words = append(words, make([]bool, max(len(row)-len(words), 0))...)
		for i, text := range row {
			words[i] = words[i] || text != Unknown && strings.ContainsFunc(text, unicode.IsLetter)
		}
	}
	return Block{Headers: headers, Rows: rows, Words: words, Centred: true}
}

// Markdown writes an empty line and the section, or nothing if it has no blocks.
func (s Section) Markdown(b *strings.Builder) {
	if len(s.Blocks) > 0 {
		fmt.Fprintf(b, "\n## %s\n\n", Escape(s.Title))
		Markdown(b, s.Blocks)
	}
}

// Markdown writes blocks with an empty line between them.
func Markdown(b *strings.Builder, blocks []Block) {
	for i, block := range blocks {
		if i > 0 {
			b.WriteByte('\n')
		}
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
	if block.Headers == nil {
		return
	}
	writeRow(b, block.Headers)
	for i := range block.Headers {
		b.WriteString("|" + block.alignment(block.Words[i]))
	}
	b.WriteString("|\n")
	for _, row := range block.Rows {
		writeRow(b, row)
	}
}

// alignment returns how Markdown aligns a column.
func (block Block) alignment(words bool) string {
	switch {
	case block.Centred:
		return ":-:"
	case words:
		return ":-"
	}
	return "-:"
}

func writeRow(b *strings.Builder, cells []string) {
	for _, text := range cells {
		b.WriteString("| " + Escape(text) + " ")
	}
	b.WriteString("|\n")
}

var escapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "\r", " ", "\n", " ", "<", "&lt;", "[", `\[`, "`", "\\`", "*", `\*`)

// Escape keeps a text in its line and its cell of Markdown, and from being read as markup.
func Escape(s string) string { return escapes.Replace(s) }
