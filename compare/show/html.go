package show

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/headline"
	"github.com/spate-load/spate/report/page"
	"github.com/spate-load/spate/report/page/chart"
)

var (
	//go:embed page.html.tmpl
	pageText string

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"verdict": headline.Verdict, "compared": headline.Compared, "best": headline.Best, "class": class,
		"requests": requests, "advice": advice, "curves": curves, "legend": legend, "several": sideBySide, "notes": notes,
		"swatch": func(side int) template.HTML { return styles[side].Swatch() },
		"marks": func(a *compare.Against) []string {
			return append(marked(a.Answers, AnswerTitle, answerMarks), marked(a.Stages, StageName, stageMarks)...)
		},
		"stages":  func(a *compare.Against) *table.Table { return stageTable(a.Stages, "Stage", StageName) },
		"answers": func(a *compare.Against) *table.Table { return answerTable(a.Answers, AnswerTitle) },
		"numbers": func(a *compare.Against) *table.Table { return numberTable(a, true) },
	}).Parse(table.HTML + pageText))
)

// htmlPage writes a comparison as a page without scripts that needs no network.
func htmlPage(w io.Writer, c *compare.Comparison) error {
	return page.Execute(w, pageTemplate, struct {
		*compare.Comparison
		Policy string
		Sheet  template.CSS
	}{c, page.SheetPolicy(), page.Sheet()})
}

// class returns the class of a verdict's banner. It is "valid" only if all stages of the baseline were compared.
func class(verdict string, gaps string) string {
	switch {
	case verdict == headline.Worse:
		return "invalid"
	case (verdict == headline.Better || verdict == headline.Same) && gaps == "":
		return "valid"
	}
	return "suspect"
}

// styles are those of the baseline and of what is compared with it.
var styles = [2]chart.Style{{Number: 0, Dashed: true}, {Number: 1}}

// curves returns a chart of latency against throughput for each target and workload with two stages or more: one line
// for the baseline, one for the side.
func curves(a *compare.Against) (charts []chart.Chart) {
	for _, stages := range groups(a.Stages, gridOf) {
		for _, metric := range []string{"ttft_ms.p50", "tpot_ms.mean"} {
			if c, ok := curve(stages, metric); ok {
				charts = append(charts, c)
			}
		}
	}
	return charts
}

// curve returns the chart of a latency against the output token throughput, or false if there are fewer than two
// points.
func curve(stages []compare.Stage, metric string) (chart.Chart, bool) {
	var lines [2][]chart.Point
	for s := range lists.Refs(stages) {
		x, y := s.Difference("output_token_throughput"), s.Difference(metric)
		if x == nil || y == nil {
			continue
		}
		for side, at := range [2][2]float64{{x.Baseline, y.Baseline}, {x.Value, y.Value}} {
			lines[side] = append(lines[side], chart.Point{X: at[0], Y: at[1], Title: fmt.Sprintf("%s: %s, %s %s",
				words.Printable(s.Load), value(x, at[0]), compare.TitleOf(metric), value(y, at[1]))})
		}
	}
	if len(lines[0]) < 2 {
		return chart.Chart{}, false
	}
	c := chart.Chart{Label: fmt.Sprintf("%s: %s in ms", gridOf(&stages[0]), compare.TitleOf(metric)), Width: 440, Height: 270,
		Y:           chart.Axis{Zero: true},
		Description: "The baseline is dashed, what is compared with it is solid. The table has the changes.",
		X:           chart.Axis{Label: "output tokens per second", Zero: true}}
	for side, points := range lines {
		c.Series = append(c.Series, chart.Series{Style: styles[side], Lines: [][]chart.Point{points}})
	}
	return c, true
}
