// Package tables makes tables of a run's results, in several formats: its targets side by side, one row for each stage,
// and the tables that other benchmarks print, by their definitions.
//
// It is pure: a table depends on the result alone. Numbers come from package results; only ratios and shares of a
// target's GPUs and costs are calculated here.
package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/layout"
)

// Table is rows that have the same columns.
type Table struct {
	// Columns of the table. People read them in groups: one below the other, each with the label columns.
	Columns []Column
	// Rows of the table, each with a cell for each column. People read rows with the same heading together.
	Rows []Row
	// Notes are for people, below the table.
	Notes []string
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
	// Words columns hold text; others hold numbers.
	Words bool
	// Digits is the number of decimals for people.
	Digits int
	// Compared columns have a ratio to the baseline beside each number.
	Compared bool
}

// Row is a row of a table.
type Row struct {
	// Heading is the title of the rows that are shown together.
	Heading string
	// Mark is what makes the row's numbers doubtful: "PARTIAL", "INVALID". Empty: nothing does.
	Mark string
	// Name is the row's name in the note about its mark.
	Name string
	// Cells are the values, in the order of the columns.
	Cells []Cell
}

// Cell is a value.
type Cell struct {
	// Text of a column of words.
	Text string
	// Number of another column. Nil: it is not known.
	Number *float64
	// Mark of the number, for people: see results.StageResult.Mark.
	Mark string
	// Ratio of the number to the baseline's. Nil: it is not known, or the row is the baseline's own.
	Ratio *float64
}

// word returns a cell of a column of words.
func word(text string) Cell { return Cell{Text: layout.Printable(text)} }

// number returns a cell of another column.
func number(v *float64) Cell { return Cell{Number: v} }

// count returns a cell with a whole number.
func count[T uint32 | uint64](v T) Cell {
	n := float64(v)
	return Cell{Number: &n}
}

// knownCount is count for a number that may not be known.
func knownCount[T uint32 | uint64](v *T) Cell {
	if v == nil {
		return Cell{}
	}
	return count(*v)
}

// stageColumns returns the columns that say which stage a row is about. People see the load and the target if there
// are headers for them. stageCells has the cells.
func stageColumns(load, target string) []Column {
	return []Column{
		{Key: "stage"}, {Key: "workload", Words: true}, {Key: "load", Header: load, Label: true, Words: true},
		{Key: "target", Header: target, Label: true, Words: true}, {Key: "verdict", Words: true},
		{Key: "complete", Words: true},
	}
}

func stageCells(s *results.StageResult) []Cell {
	return []Cell{count(s.Index + 1), word(s.Workload), word(s.Load.Words), word(s.Target),
		word(string(s.Trust.Verdict)), word(yes(s.Complete))}
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// newRow returns a row about a stage: its first cells are those of stageColumns.
func newRow(s *results.StageResult, heading string, cells ...Cell) Row {
	return Row{Heading: layout.Printable(heading), Mark: markOf(s),
		Name:  layout.Printable(s.Target + ", " + s.Workload + ", " + s.Load.Words),
		Cells: slices.Concat(stageCells(s), cells)}
}

// markOf returns what makes the numbers of a stage doubtful.
func markOf(s *results.StageResult) string {
	var marks []string
	if !s.Complete {
		marks = append(marks, "PARTIAL")
	}
	if v := s.Trust.Verdict; v != "" && v != trust.Valid {
		marks = append(marks, string(v))
	}
	return strings.Join(marks, ", ")
}

// stageName names a stage, with its mark. People count stages from 1.
func stageName(s *results.StageResult) string {
	name := fmt.Sprintf("Stage %d: %s, %s, %s", s.Index+1, s.Target, s.Workload, s.Load.Words)
	if mark := markOf(s); mark != "" {
		name += " (" + mark + ")"
	}
	return name
}
