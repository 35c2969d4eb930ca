// Package tables makes tables of a run's results, in several formats: its targets side by side, one row for each stage,
// and the tables that other benchmarks print, by their definitions.
//
// It is pure: a table depends on the result alone. Numbers come from package results; only ratios and shares of a
// target's GPUs and costs are calculated here.
package tables

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/thresholds"
)

// Cells of words, and of numbers.
var word, number = table.Word, table.Number

//go:embed columns.txt
var columnsText string

// ColumnsOf returns the columns of a section of columns.txt, which says what its lines mean.
func ColumnsOf(section string) (columns []table.Column) {
	_, text, _ := strings.Cut(columnsText, "\n["+section)
	_, text, _ = strings.Cut(text, "]\n")
	text, _, _ = strings.Cut(text, "\n[")
	group := ""
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if title, is := strings.CutPrefix(line, "= "); is {
			group = title
			continue
		}
		parts := lists.Each(append(strings.Split(line, "|"), "", "", ""), strings.TrimSpace)
		c := table.Column{Key: parts[0], Header: parts[1], Group: group, Field: cmp.Or(parts[3], numberOf(parts[0]))}
		for property := range strings.FieldsSeq(parts[2]) {
			switch property {
			case "words":
				c.Words = true
			case "label":
				c.Label = true
			case "compared":
				c.Compared = true
			case "percent":
				c.Percent = true
			default:
				c.Digits, _ = strconv.Atoi(property) // a test reads all sections
			}
		}
		columns = append(columns, c)
	}
	return columns
}

// cellsOf returns the numbers of columns of a stage, or of a part of it.
func cellsOf[R results.StageResult | results.PartResult](r *R, columns []table.Column) []table.Cell {
	cells := make([]table.Cell, len(columns))
	for i, c := range columns {
		v := thresholds.Number(r, c.Field)
		if v != nil && c.Percent {
			*v *= 100
		}
		cells[i] = number(v)
	}
	return cells
}

// stageColumns returns the columns that say which stage a row is about. People see the load and the target if there
// are headers for them. stageCells has the cells.
func stageColumns(load, target string) []table.Column {
	columns := ColumnsOf("about")
	columns[2].Header, columns[3].Header = load, target
	return columns
}

func stageCells(s *results.StageResult) []table.Cell {
	return []table.Cell{table.Count(s.Index + 1), word(s.Workload), word(s.Load.Words), word(s.Target),
		word(string(s.Trust.Verdict)), word(Yes(s.Complete))}
}

// Yes formats a bool.
func Yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// newRow returns a row about a stage: its first cells are those of stageColumns.
func newRow(s *results.StageResult, heading string, cells ...table.Cell) table.Row {
	return table.Row{Heading: words.Printable(heading), Mark: markOf(s),
		Name:  words.Printable(s.Target + ", " + s.Workload + ", " + s.Load.Words),
		Cells: slices.Concat(stageCells(s), cells)}
}

// asOurs are our names for vLLM's numbers in results.json, which are doubtful if ours are.
var asOurs = strings.NewReplacer("vllm.", "", ".median", ".p50")

// marked marks the numbers of a stage's row that are doubtful, by the fields of their columns. before is what stands
// before these in results.json.
func marked(columns []table.Column, s *results.StageResult, row table.Row, before string) table.Row {
	for i := range row.Cells {
		if c := &row.Cells[i]; c.Number != nil && columns[i].Key != "stage" {
			c.Mark = s.Mark(before + asOurs.Replace(columns[i].Field))
		}
	}
	return row
}

// explained adds to a table what the marks of its numbers mean, if it has any.
func explained(t *table.Table) *table.Table {
	marked := func(c table.Cell) bool { return c.Mark != "" }
	if slices.ContainsFunc(t.Rows, func(r table.Row) bool { return slices.ContainsFunc(r.Cells, marked) }) {
		t.Notes = append(t.Notes, results.OfFew+" fewer than ten values lie beyond the percentile; "+
			results.Doubted+" a check of the verdict doubts the number")
	}
	return t
}

// markOf returns what makes the numbers of a stage doubtful.
func markOf(s *results.StageResult) string {
	partial := ""
	if !s.Complete {
		partial = "PARTIAL"
	}
	return words.Joined(", ", partial, doubtful(s.Trust.Verdict))
}

// doubtful returns a verdict, unless it is VALID.
func doubtful(v trust.Verdict) string {
	if v == trust.Valid {
		return ""
	}
	return string(v)
}

// stageName names a stage, with its mark. People count stages from 1.
func stageName(s *results.StageResult) string {
	name := fmt.Sprintf("Stage %d: %s, %s, %s", s.Index+1, s.Target, s.Workload, s.Load.Words)
	if mark := markOf(s); mark != "" {
		name += " (" + mark + ")"
	}
	return name
}
