package page

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/report/page/chart"
	"github.com/spate-load/spate/report/tables"
)

// slow shows why requests of a stage are slow: single ones as a waterfall and in numbers.
type slow struct {
	Title  string
	Figure figure
	Table  *table.Table
}

// fewRows is how many requests a page has in numbers besides those of waterfalls. report.md has all.
const fewRows = 150

// spans are the parts of a request's time, each from the end of the one before, and the longest gaps within the last.
var spans = []string{"held back", "send delay", "connect", "sending", "to the first byte", "to the first token",
	"to the last token", "longest gaps"}

// slowOf returns what the page shows of a stage's requests. It returns nil if there is none.
func slowOf(r *results.Result, s results.StageResult) *slow {
	f := figure{"Where the time went", "", chart.Chart{
		Width: chartWidth, Height: 150, Label: "Where the time of requests went, " + s.Load.String(),
		Description: "The numbers are in the table below.", Y: chart.Axis{Max: 3},
		X: chart.Axis{Zero: true, Label: "ms since the request was due"}}}
	if s.ServerAccount != nil {
		f.Unit = "mean queue in ms, by the servers' account: " + num(s.ServerAccount.Parts.Queue)
	}
	for i := range s.Examples[:min(3, len(s.Examples))] {
		bar, end := barOf(&s.Examples[i], 2.5-float64(i))
		f.Layers = append(f.Layers, bar)
		f.Y.Ticks = append(f.Y.Ticks, chart.Tick{Value: 2.5 - float64(i), Label: s.Examples[i].Of + " " + num(end) + " ms"})
	}
	for title, part := range tables.Slowest(&results.Result{Run: r.Run, Stages: []results.StageResult{s}}).Parts() {
		part.Rows = part.Rows[:min(len(part.Rows), 3+fewRows/len(r.Stages))]
		return &slow{title, f, part}
	}
	return nil
}

// slowID returns the ID of what slowOf shows.
func slowID(s results.StageResult) string { return fmt.Sprintf("slow-%d", s.Index+1) }

// slowData leads the page's script from a point to what slowOf shows of its stage.
func slowData(s results.StageResult) string { return ` data-slow="` + slowID(s) + `"` }

// barOf returns a request as a bar in a row, with all of it in words, and its end.
func barOf(x *results.Example, row float64) (bar chart.Bar, end float64) {
	none := new(0.0)
	start := *cmp.Or(x.HeldMs, none) + x.SendDelayMs
	said := []string{fmt.Sprintf("%s: request %d of %s at %s, E2E %s ms", x.Of, x.Index, x.Agent, x.Endpoint, num(x.E2EMs))}
	add := func(span int, from, to float64) {
		if to > from {
			bar.Cells = append(bar.Cells, chart.Cell{X0: from, X1: to, Y0: row - 0.28, Y1: row + 0.28, Colour: span})
		}
	}
	for i, after := range []*float64{new(-x.SendDelayMs), none, cmp.Or(x.ConnectMs, none), x.SentMs, x.FirstByteMs,
		x.TTFTMs, &x.E2EMs} {
		if after == nil {
			said = append(said, spans[i]+" n/a")
			continue
		}
		to := max(start+*after, end)
		add(i, end, to)
		said, end = append(said, fmt.Sprintf("%s %s ms", spans[i], num(to-end))), to
	}
	var gaps []string
	for _, g := range x.Gaps {
		add(len(spans)-1, start+g.AtMs, start+g.AtMs+g.GapMs)
		gaps = append(gaps, num(g.GapMs))
	}
	said = append(said, "longest gaps in ms: "+cmp.Or(strings.Join(gaps, ", "), unknown),
		"server's queue in ms: "+num(x.ServerQueueMs))
	bar.Title = strings.Join(said, "\n")
	return bar, end
}
