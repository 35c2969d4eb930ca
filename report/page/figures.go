package page

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report/page/chart"
)

// workload is a section of the page: all targets under one workload and one kind of load.
type workload struct {
	Name     string
	ID       string // of its heading
	OpenLoop bool
	Groups   []Group
	// Legend and Hints explain the charts.
	Legend []legend
	Hints  []string
	// Knees and Latencies are the charts. Empty: nothing was measured that they could show, or there is one load.
	Knees, Latencies []figure
	// Frontiers are the charts of frontiers.
	Frontiers     []figure
	Distributions []*distributions
}

// figure is a chart with its caption.
type figure struct {
	Caption, Unit string
	SVG           template.HTML
}

// legend is an entry of a legend.
type legend struct {
	Number int // of the series, see chart.Style
	Swatch template.HTML
	Name   string
}

// manyStages is the number of stages of a run above which its page leaves out what makes it large: curves, whose
// percentiles stay, and the texts of markers, whose numbers are in the tables. histograms.hlog has all distributions.
const manyStages = 400

// workloadsOf gathers the groups of the same workload and kind of load, so that targets stand side by side.
func workloadsOf(groups []Group) (list []workload) {
	for _, g := range groups {
		name := g.Rows[0].Stage.Workload
		i := slices.IndexFunc(list, func(w workload) bool { return w.Name == name && w.OpenLoop == g.OpenLoop })
		if i < 0 {
			i = len(list)
			list = append(list, workload{Name: name, OpenLoop: g.OpenLoop, ID: fmt.Sprintf("workload-%d", i+1)})
		}
		list[i].Groups = append(list[i].Groups, g)
	}
	stages := 0
	for _, g := range groups {
		stages += len(g.Rows)
	}
	many := stages > manyStages
	for i := range list {
		list[i].draw(many)
		for _, g := range list[i].Groups {
			if d := distributionsOf(g, !many); d != nil {
				list[i].Distributions = append(list[i].Distributions, d)
			}
		}
	}
	return list
}

// latency is a metric with charts.
type latency struct {
	name, long string
	metric     spatev1.Metric
}

// latencies are the metrics with charts.
var latencies = []latency{
	{"TTFT", "time to first token", spatev1.Metric_METRIC_TTFT},
	{"TPOT", "time per output token after the first", spatev1.Metric_METRIC_TPOT},
	{"ITL", "gaps between token frames", spatev1.Metric_METRIC_ITL},
	{"E2E", "time to the end of the answer", spatev1.Metric_METRIC_E2E},
}

// key returns the latency's name in results.json.
func (l latency) key() string { return measure.Of(l.metric).Name }

// of returns the latency of a stage.
func (l latency) of(s results.StageResult) *histogram.Summary { return s.Latency(l.key()) }

// Size of charts in CSS pixels: small enough to be read on a phone without scaling down much.
const (
	chartWidth  = 440
	chartHeight = 270
)

// charted is one of which charts show lines.
type charted struct {
	name, key string
	dashed    bool
	of        func(*histogram.Summary) *float64
}

var quantiles = []charted{{"p99", "p99", true, p99}, {"median", "p50", false, p50}}

// draw draws the charts of a workload. Latency by load needs several loads.
func (w *workload) draw(many bool) {
	doubts := map[chart.Doubt]bool{}
	several := false
	for i, g := range w.Groups {
		w.Legend = append(w.Legend, legend{i, chart.Style{Number: i}.Swatch(), g.Rows[0].Stage.Target})
		for _, r := range g.Rows {
			doubts[doubtIn(r.Stage)] = true
			several = several || r.Value != g.Rows[0].Value
		}
	}
	w.Hints = []string{"solid: median, dashed: p99"}
	if doubts[chart.Suspect] {
		w.Hints = append(w.Hints, "ring: SUSPECT")
	}
	if doubts[chart.Invalid] {
		w.Hints = append(w.Hints, "two rings: INVALID or incomplete")
	}
	w.Frontiers = w.frontierFigures(many)
	for _, l := range latencies[:2] {
		w.Knees = append(w.Knees, w.figures(l, "Throughput against "+l.name, throughputs, many)...)
	}
	for _, l := range latencies {
		if !several {
			break // the table says all
		}
		w.Latencies = append(w.Latencies, w.figures(l, l.name+" by load", loads, many)...)
	}
}

// abscissa is what a chart of latencies has below it.
type abscissa struct {
	of       func(Row) *float64
	axis     func(*workload) chart.Axis
	labelled bool // points of the first target show their loads
}

var (
	throughputs = abscissa{
		of: func(r Row) *float64 { return r.Stage.OutputTokenThroughput },
		axis: func(*workload) chart.Axis {
			return chart.Axis{Label: "output tokens per second; numbers at points: load", Zero: true}
		},
		labelled: true,
	}
	loads = abscissa{of: func(r Row) *float64 { return &r.Value }, axis: (*workload).loadAxis}
)

// loadAxis returns an axis with a tick for each load.
func (w *workload) loadAxis() chart.Axis {
	a := chart.Axis{Label: "requests in flight"}
	if w.OpenLoop {
		a.Label = "requests per second"
	}
	var values []float64
	for _, g := range w.Groups {
		for _, r := range g.Rows {
			values = append(values, r.Value)
		}
	}
	slices.Sort(values)
	values = slices.Compact(values)
	low, high := values[0], values[len(values)-1]
	a.Min, a.Max = low, high
	a.Log = low > 0 && high >= 8*low
	if len(values) < 2 || len(values) > 9 {
		return a
	}
	a.Ticks = chart.TicksAt(values...)
	return a
}

// figures draws a latency of all targets: its median and its 99th percentile. It returns nothing if there is no point,
// as for answers in one piece, which have only E2E.
func (w *workload) figures(l latency, caption string, x abscissa, plain bool) []figure {
	f := figure{Caption: caption, Unit: l.name + ": " + l.long + ", ms"}
	c := chart.Chart{
		Width: chartWidth, Height: chartHeight, Plain: plain, X: x.axis(w), Y: chart.Axis{Zero: true},
		Label:       fmt.Sprintf("%s, workload %s: median and p99", caption, w.Name),
		Description: "The numbers are in the tables of the workload.",
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i, g := range w.Groups {
		for _, q := range quantiles {
			few := func(r Row) bool { return l.of(r.Stage).FewAt(q.key) != nil }
			lines := [][]chart.Point{} // percentiles of few values are points without a line
			for _, rows := range append([][]Row{slices.DeleteFunc(slices.Clone(g.Rows), few)}, alone(g.Rows, few)...) {
				line := pointsOf(rows, l, q, x.of)
				for j, p := range line {
					low, high = min(low, p.Y), max(high, p.Y)
					if !x.labelled || q.dashed {
						line[j].Label = ""
					}
				}
				lines = append(lines, line)
			}
			c.Series = append(c.Series, chart.Series{Style: chart.Style{Number: i, Dashed: q.dashed}, Lines: lines})
		}
	}
	if low > high {
		return nil
	}
	if low > 0 && high > 20*low {
		c.Y.Log = true
		f.Unit += ", logarithmic"
	}
	f.SVG = c.SVG()
	return []figure{f}
}

// alone returns each row that is one of few values, as rows of its own.
func alone(rows []Row, few func(Row) bool) (list [][]Row) {
	for _, r := range rows {
		if few(r) {
			list = append(list, []Row{r})
		}
	}
	return list
}

// pointsOf returns the points of those rows that have both values, in the order of their loads.
func pointsOf(rows []Row, l latency, q charted, x func(Row) *float64) (points []chart.Point) {
	for _, r := range byValue(rows) {
		at, value := x(r), q.of(l.of(r.Stage))
		if at == nil || value == nil {
			continue
		}
		points = append(points, chart.Point{X: *at, Y: *value, Doubt: doubtIn(r.Stage), Label: r.Load,
			Title: pointTitle(r, fmt.Sprintf("%s %s %s ms of %s", l.name, q.name, num(value), sample(l.of(r.Stage), q.key)))})
	}
	return points
}

// byValue returns the rows in the order of their loads.
func byValue(rows []Row) []Row {
	return slices.SortedStableFunc(slices.Values(rows), func(a, b Row) int { return cmp.Compare(a.Value, b.Value) })
}

// doubtIn returns how a stage's points are marked.
func doubtIn(s results.StageResult) chart.Doubt {
	switch {
	case s.Trust.Verdict == trust.Invalid || !s.Complete:
		return chart.Invalid
	case s.Trust.Verdict == trust.Suspect:
		return chart.Suspect
	}
	return chart.Sound
}

// sample says of how many values a percentile is, and its interval if they are few.
func sample(s *histogram.Summary, percentile string) string {
	text := words.Count(s.Count, "value")
	if f := s.FewAt(percentile); f != nil {
		text += fmt.Sprintf(" (few: %s ms with 95 %% confidence)", f.Words())
	}
	return text
}

// pointTitle describes a point: "concurrency 8: TTFT p99 10.40 ms of 640 values, 2,279 tok/s".
func pointTitle(r Row, value string) string {
	text := fmt.Sprintf("%s: %s, %s tok/s", r.Stage.Load, value, num(r.Stage.OutputTokenThroughput))
	for _, mark := range marksOf(r.Stage) {
		text += ", " + mark
	}
	return text
}
