package table

import (
	"fmt"
	"slices"
	"strings"
)

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
	for _, text := range texts {
		blocks = append(blocks, Block{Note: text})
	}
	return blocks
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
	for _, note := range t.AllNotes() {
		blocks = append(blocks, Text("%s", note))
	}
	return blocks
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
