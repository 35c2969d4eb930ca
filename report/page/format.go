package page

import (
	"cmp"
	"fmt"
	"html/template"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/page/chart"
	"github.com/spate-load/spate/report/tables"
)

// unknown stands for a number that is not known.
const unknown = table.Unknown

// functions are those of the template.
var functions = template.FuncMap{
	"num": num, "p50": p50, "p99": p99, "mean": mean, "when": when, "took": took, "text": text, "doubt": doubtOf,
	"marks": marksOf, "mark": markOf, "few": fewOf, "share": share, "latencies": summaries, "anchor": anchor,
	"linked": words.Linked, "slowest": tables.Slowest,
	"spans": func() []string { return spans }, "slowID": slowID, "stages": stagesOf,
}

// anchor returns the ID of a section by its title.
func anchor(title string) string {
	return "section-" + strings.ToLower(strings.NewReplacer(" ", "-", ":", "").Replace(title))
}

// named is a distribution with the name of its metric.
type named struct {
	Name, Key string
	Summary   *histogram.Summary
}

// summaries returns the distributions of a stage that have charts, without those that only streams have unless streams
// reports that its table has them.
func summaries(streams bool, s results.StageResult) (list []named) {
	for _, l := range latencies {
		if streams || l.of(s) != nil {
			list = append(list, named{l.name, l.key(), l.of(s)})
		}
	}
	return list
}

// markOf returns the mark of a stage's number.
func markOf(s results.StageResult, number string) string { return s.Mark(number) }

// fewOf says of which few values a stage's percentiles are.
func fewOf(s results.StageResult) string {
	if words := s.FewWords("p99"); words != "" {
		return s.Load.Words + ": " + words
	}
	return ""
}

// num formats a number for a reader: a float64, or a *float64 that is nil if the number is not known.
func num(number any) string {
	v, _ := number.(*float64)
	if f, plain := number.(float64); plain {
		v = &f
	}
	if v == nil {
		return unknown
	}
	if *v < 1000 && *v > -1000 {
		return fmt.Sprintf("%.2f", *v)
	}
	return chart.Number(*v)
}

// share formats a share in percent.
func share(v *float64) string {
	if v == nil {
		return unknown
	}
	return fmt.Sprintf("%.2f %%", 100**v)
}

// stagesOf counts the stages of a run, and those that were planned if these are more.
func stagesOf(r *results.Result) string {
	n := words.Count(uint64(r.Run.StagesPlanned), "stage")
	if len(r.Stages) == int(r.Run.StagesPlanned) {
		return n
	}
	return fmt.Sprintf("%d of %s", len(r.Stages), n)
}

// text returns a word, or n/a.
func text(v *string) string { return *cmp.Or(v, new(unknown)) }

// Statistics of a distribution; nil: there is none.
var mean, p50, p99 = histogram.MeanOf, histogram.MedianOf, histogram.P99Of
