package web

import (
	"html/template"
	"io"
	"slices"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/show"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/report/headline"
)

// maxCharts is how many charts a history has.
const maxCharts = 20

// History is the state that the page of a number over runs shows.
type History struct {
	// Plans are all plans that have a history. Lines are what was asked for, for all targets.
	Plans []string
	Lines []*compare.Line
	// Plan, Target and Metric are those of the form. Empty: any.
	Plan, Target, Metric string
}

// historyLine is a chart with its table. Links are the runs of its rows that still have a page; others are empty.
type historyLine struct {
	Title, Unit string
	Figure      template.HTML
	Table       *table.Table
	Links       []string
}

// Write writes the page.
func (h History) Write(w io.Writer, f Frame) error {
	var targets []string
	var drawn []historyLine
	var shown []*compare.Line
	more := 0
	for _, l := range h.Lines {
		if !slices.Contains(targets, l.Target) {
			targets = append(targets, l.Target)
		}
		switch {
		case h.Target != "" && l.Target != h.Target:
		case len(drawn) == maxCharts:
			more++
		default:
			drawn, shown = append(drawn, historyOf(l)), append(shown, l)
		}
	}
	return writePage(w, "history.html.tmpl", map[string]any{
		"Title": "Spate: history", "Events": "", "Frame": f, "Asked": h, "Targets": targets, "Metrics": compare.Metrics,
		"Lines": drawn, "More": more, "Answer": headline.Newest(shown),
	})
}

// historyOf returns the chart and the table of a line, with the newest run first.
func historyOf(l *compare.Line) historyLine {
	t := show.HistoryTable(l)
	out := historyLine{Title: show.LineTitle(l), Unit: l.Unit, Figure: show.HistoryChart(l), Table: t}
	slices.Reverse(t.Rows)
	for _, p := range slices.Backward(l.Points) {
		link := ""
		if !p.Removed {
			link = p.Run
		}
		out.Links = append(out.Links, link)
	}
	return out
}
