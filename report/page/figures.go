package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
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
	// Answers are the charts that answer, Latencies those of latencies by load. Empty: nothing was measured that they
	// could show, or there is one load.
	Answers, Latencies []figure
	Distributions      []*distributions
}

// figure is a chart with its caption.
type figure struct {
	Caption, Unit string
	chart.Chart
}

// legend is an entry of a legend.
type legend struct {
	Number int // of the series, see chart.Style
	Swatch template.HTML
	Name   string
}

// manyStages is the number of stages of a run above which its page leaves out what makes it large: curves, whose
// percentiles stay, and waterfalls. histograms.hlog has all distributions, report.md the slowest requests.
const manyStages = 400

// workloadsOf gathers the groups of the same workload and kind of load, so that targets stand side by side.
func workloadsOf(in *Input) (list []workload) {
	for _, g := range in.Groups {
		name := g.Rows[0].Stage.Workload
		i := slices.IndexFunc(list, func(w workload) bool { return w.Name == name && w.OpenLoop == g.OpenLoop })
		if i < 0 {
			i = len(list)
			list = append(list, workload{Name: name, OpenLoop: g.OpenLoop, ID: fmt.Sprintf("workload-%d", i+1)})
		}
		list[i].Groups = append(list[i].Groups, g)
	}
	stages := lists.Sum(in.Groups, func(g Group) int { return len(g.Rows) })
	for i := range list {
		list[i].draw(in)
		for _, g := range list[i].Groups {
			if d := distributionsOf(g, stages <= manyStages); d != nil {
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
	chartWidth  = 480
	chartHeight = 270
)

// quantiles are those of which charts show lines.
var quantiles = []struct {
	name, key string
	dashed    bool
}{{"p99", "p99", true}, {"median", "p50", false}}

// rows returns those of all groups.
func (w *workload) rows() []Row {
	return slices.Concat(lists.Each(w.Groups, func(g Group) []Row { return g.Rows })...)
}

// draw draws the charts of a workload. Latency by load needs several loads.
func (w *workload) draw(in *Input) {
	for i, g := range w.Groups {
		w.Legend = append(w.Legend, legend{i, chart.Style{Number: i}.Swatch(), g.Rows[0].Stage.Target})
	}
	several := false
	for _, r := range w.rows() {
		several = several || r.Value != w.Groups[0].Rows[0].Value
		switch doubtIn(r.Stage) {
		case chart.Suspect:
			w.Hints = words.AppendOnce(w.Hints, "ring: SUSPECT")
		case chart.Invalid:
			w.Hints = words.AppendOnce(w.Hints, "two rings: INVALID or incomplete")
		}
	}
	w.Answers = w.userFigure(in.Result.Run.Targets)
	if several { // otherwise the table says all
		for _, l := range latencies {
			w.Latencies = append(w.Latencies, w.latencyFigure(l)...)
		}
		w.Latencies = append(w.Latencies, w.qualityFigure()...)
	}
	switch {
	case in.Changes != nil:
		w.Answers = append(w.Answers, w.changeFigure(in.Changes, in.Result)...)
	case len(w.Groups) == 1 && len(w.Latencies) > 0:
		w.Answers, w.Latencies = append(w.Answers, w.Latencies[0]), w.Latencies[1:]
	}
}

// nameOf returns the name of a group's target for its line, empty if it is the only one.
func (w *workload) nameOf(g Group) string {
	if len(w.Groups) == 1 {
		return ""
	}
	return g.Rows[0].Stage.Target
}

// newChart returns a chart without series.
func newChart(x chart.Axis) chart.Chart {
	return chart.Chart{Width: chartWidth, Height: chartHeight, X: x, Y: chart.Axis{Zero: true},
		Description: "The numbers are in the tables of the workload."}
}

// figure returns a chart with its caption, nothing if it has no values.
func (w *workload) figure(caption, unit string, c chart.Chart) []figure {
	if low, high := c.Range(); low > high {
		return nil
	}
	c.Label = caption + ", workload " + w.Name
	return []figure{{caption, unit, c}}
}

// loadAxis returns an axis with a tick for each load.
func (w *workload) loadAxis() chart.Axis {
	a := chart.Axis{Label: "requests in flight"}
	if w.OpenLoop {
		a.Label = "requests per second"
	}
	values := lists.Each(w.rows(), func(r Row) float64 { return r.Value })
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

// latencyFigure draws a latency of all targets by load: its median and its 99th percentile. It returns nothing if it
// has no point, as for answers in one piece, which have only E2E.
func (w *workload) latencyFigure(l latency) []figure {
	unit := l.name + ": " + l.long + ", ms; solid: median, dashed: p99 (of few: dots)"
	c := newChart(w.loadAxis())
	c.Typed = l.name + " as-is"
	for i, g := range w.Groups {
		for _, q := range quantiles {
			s := chart.Series{Style: chart.Style{Number: i, Dashed: q.dashed}, Lines: [][]chart.Point{nil}}
			for _, r := range byValue(g.Rows) {
				of := l.of(r.Stage)
				value := of.At(q.key)
				if value == nil {
					continue
				}
				p := chart.Point{X: r.Value, Y: *value, Doubt: doubtIn(r.Stage), Data: slowData(r.Stage),
					Title: pointTitle(r, fmt.Sprintf("%s %s %s ms of %s, %s tok/s", l.name, q.name, num(value), sample(of, q.key),
						num(r.Stage.OutputTokenThroughput)))}
				if of.FewAt(q.key) == nil {
					s.Lines[0] = append(s.Lines[0], p)
				} else { // a point without a line
					s.Lines = append(s.Lines, []chart.Point{p})
				}
			}
			if !q.dashed {
				s.Name = w.nameOf(g)
			}
			c.Series = append(c.Series, s)
		}
	}
	if low, high := c.Range(); low > 0 && high > 20*low {
		c.Y.Log = true
		unit += ", logarithmic"
	}
	return w.figure(l.name+" by load", unit, c)
}

// qualityFigure draws how many canaries are answered as when quiet, by load, and how many tasks right. It returns
// nothing without canaries.
func (w *workload) qualityFigure() []figure {
	c := newChart(w.loadAxis())
	for i, g := range w.Groups {
		same := chart.Series{Style: chart.Style{Number: i}, Name: w.nameOf(g), Lines: [][]chart.Point{nil}}
		right := chart.Series{Style: chart.Style{Number: i, Dashed: true}, Lines: [][]chart.Point{nil}}
		for _, r := range byValue(g.Rows) {
			if r.Stage.Canaries == nil {
				continue
			}
			add := func(to *chart.Series, good, all uint64, how string) {
				if all == 0 {
					return
				}
				to.Lines[0] = append(to.Lines[0], chart.Point{X: r.Value, Y: 100 * float64(good) / float64(all),
					Doubt: doubtIn(r.Stage), Title: pointTitle(r, fmt.Sprintf("%d of %d %s", good, all, how))})
			}
			load := r.Stage.Canaries.Load
			add(&same, load.Asked-load.Differing, load.Asked, "canaries answered as when quiet")
			add(&right, load.Right, load.Tasks, "tasks answered right")
		}
		c.Series = append(c.Series, same, right)
	}
	return w.figure("Quality by load", "%; solid: canaries answered as when quiet, dashed: tasks answered right", c)
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

// pointTitle describes a point: "concurrency 8: TTFT p99 10.40 ms of 640 values, 2,279 tok/s, SUSPECT".
func pointTitle(r Row, value string) string {
	return strings.Join(slices.Insert(marksOf(r.Stage), 0, r.Stage.Load.String()+": "+value), ", ")
}
