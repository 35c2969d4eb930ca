package report

import (
	_ "embed"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/tables"
)

var (
	//go:embed sections.tmpl
	sectionsText     string
	sectionTemplates = template.Must(template.New("").Funcs(template.FuncMap{
		"name": partName, "fixed": fixed, "percent": fixedPercent, "text": text, "times": meanAndP99, "counted": counted,
		"mean": mean, "median": median, "significant": significant, "quotient": quotient, "good": percent,
		"numbers": partCells, "path": pathCell, "gpus": gpuCells, "tiers": tierWords, "several": severalRegions, "varied": varied,
		"yes": tables.Yes, "gauges": hasGauges, "escape": table.Escape, "whole": whole[uint64], "compressed": compressed,
		"quantile": func(q *servermetrics.ServerQuantile) string { return quantileCell(q, significant) },
		"bucket":   func(q *servermetrics.ServerQuantile) string { return quantileCell(q, fixed) },
		"list":     func(values ...any) []any { return values },
		"gib":      func(bytes float64) string { return fmt.Sprintf("%.3f", bytes/(1<<30)) },
		"rest": func(share *float64) *float64 {
			if share == nil {
				return nil
			}
			return new(1 - *share)
		},
	}).Parse(sectionsText))
)

// sectionWriter takes what a template of sections.tmpl says of stages. Its methods print nothing.
type sectionWriter struct {
	Stages  []results.StageResult
	blocks  []table.Block
	headers []string // of the table in progress
	rows    [][]string
	known   map[string]bool // rows
	row     []string        // in progress
	items   []string        // of the list in progress
	notes   []string
}

// section returns the section of a title, which is empty if there are no rows.
func section(title string, stages []results.StageResult) table.Section {
	w := &sectionWriter{Stages: stages, known: map[string]bool{}}
	if err := sectionTemplates.ExecuteTemplate(io.Discard, title, w); err != nil {
		panic("report: the template does not fit: " + err.Error())
	}
	w.Head()
	s := table.NewSection(title, append(w.blocks, table.Notes(w.notes)...)...)
	if !slices.ContainsFunc(s.Blocks, func(b table.Block) bool { return b.Heading+b.Text == "" }) {
		return table.Section{}
	}
	return s
}

// About adds a text, which may have a heading.
func (w *sectionWriter) About(text string, heading ...string) string {
	w.Head()
	w.blocks = append(w.blocks, table.Block{Heading: strings.Join(heading, "")}, table.Text("%s", text))
	return ""
}

// Head begins a table, and ends the table or list in progress.
func (w *sectionWriter) Head(headers ...string) string {
	w.blocks = append(w.blocks, table.Texts(w.headers, w.rows), table.List(w.items))
	w.headers, w.rows, w.items = headers, nil, nil
	return ""
}

// Cells adds cells to the row in progress. Of a list it adds each item.
func (w *sectionWriter) Cells(cells ...any) string {
	for _, c := range cells {
		if list, is := c.([]any); is {
			w.row = append(w.row, texts(list...)...)
		} else {
			w.row = append(w.row, texts(c)...)
		}
	}
	return ""
}

// Row adds cells to the row in progress and ends it. A row that is there already is not added.
func (w *sectionWriter) Row(cells ...any) string {
	w.Cells(cells...)
	if key := strings.Join(w.row, "\x00"); !w.known[key] {
		w.rows, w.known[key] = append(w.rows, w.row), true
	}
	w.row = nil
	return ""
}

// Item adds an item to the list after the table, if it is not there already.
func (w *sectionWriter) Item(text string) string {
	w.items = words.AppendOnce(w.items, text)
	return ""
}

// Note adds a note below the tables.
func (w *sectionWriter) Note(text string) string {
	w.notes = append(w.notes, text)
	return ""
}

// Regions returns each stage by region. It has no rows if there are no several regions.
func Regions(r *results.Result) *table.Table {
	if blocks := section("Regions", r.Stages).Blocks; blocks != nil {
		return blocks[0].Table
	}
	return &table.Table{}
}

// partName names a stage, or a part of its mixture where rows are otherwise stages.
func partName(s results.StageResult, part ...string) string {
	return strings.Join(append([]string{stageName(s)}, part...), ", part ")
}

// quotient divides numbers, which may be pointers. Nil: one of them is not known, or the second one is 0.
func quotient(part, whole any) *float64 {
	a, b := reflect.Indirect(reflect.ValueOf(part)), reflect.Indirect(reflect.ValueOf(whole))
	if !a.IsValid() || !b.IsValid() || b.IsZero() {
		return nil
	}
	number := reflect.TypeFor[float64]()
	return new(a.Convert(number).Float() / b.Convert(number).Float())
}

// varied reports whether anything but a limit on tokens ended an answer.
func varied(stages []results.StageResult) bool {
	other := func(e *results.Endings) bool { return e != nil && *e != results.Endings{Length: e.Length} }
	part := func(p results.PartResult) bool { return other(p.Endings) }
	return slices.ContainsFunc(stages, func(s results.StageResult) bool {
		return other(s.Endings) || slices.ContainsFunc(s.Parts, part)
	})
}

// tierWords lists the shares of prompt tokens that caches had.
func tierWords(hits []servermetrics.CacheHits) string {
	if len(hits) == 0 {
		return unknown
	}
	tiers := lists.Each(hits, func(t servermetrics.CacheHits) string { return t.Tier + " " + fixedPercent(&t.Share) })
	return strings.Join(tiers, ", ")
}

// meanAndP99 formats mean and p99 of a distribution.
func meanAndP99(d *histogram.Summary) string {
	if d == nil {
		return unknown
	}
	return fixed(&d.Mean) + " / " + fixed(&d.P99) + fewMark(d)
}

// fewMark returns the mark of a distribution's p99 beyond which fewer than ten values lie, or "".
func fewMark(d *histogram.Summary) string {
	if d.FewAt("p99") == nil {
		return ""
	}
	return results.OfFew
}

// counted formats mean and p99 of a distribution, with its number of values.
func counted(d *histogram.Summary) string {
	if d == nil {
		return unknown
	}
	return fmt.Sprintf("%s (%d)", meanAndP99(d), d.Count)
}
