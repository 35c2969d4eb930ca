package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/report/page/chart"
)

// Event is something that happened during the run.
type Event struct {
	// At is when, in seconds since the start of the run.
	At float64
	// Text is what happened.
	Text string
}

// timeline is the run over time, in charts with one axis. The page's script needs all but Figures.
type timeline struct {
	Figures []figure
	Columns []column
	Lines   []string // names of the columns' values
	End     float64  // in seconds since the start of the run
}

// wideWidth is the width of charts over time, in CSS pixels.
const wideWidth = 1080

// timelineColumns is how many points a line over time has at most: one for each pixel or two.
const timelineColumns = 720

// column is what happened in some seconds of a stage, given by its number from 1: of each line of the panels the
// highest value, below 0 if none is known. X is the middle of the seconds.
type column struct {
	X      float64
	Stage  uint32
	Values []float64
}

// panels are the charts of the timeline, each with the names of its lines. The second line is dashed.
var panels = []struct {
	caption, unit string
	lines         []string
}{
	{"Output tokens", "tokens per second", []string{"output tok/s"}},
	{"Requests in flight", "requests", []string{"in flight"}},
	{"TTFT of the requests that ended", "ms; solid: mean, dashed: longest", []string{"mean TTFT ms", "longest TTFT ms"}},
	{"Gaps between tokens", "ms; solid: mean, dashed: longest", []string{"mean ITL ms", "longest ITL ms"}},
	{"Requests at the servers", "by their metrics; solid: running, dashed: waiting", []string{"running", "waiting"}},
	{"KV cache in use", "share, mean of the servers", []string{"KV cache"}},
	{"Power of the GPUs", "W, all together", []string{"power W"}},
	{failures, "requests per second", []string{"failed"}},
	{"Agents that measured", "agents", []string{"agents"}},
}

// failures is the panel in the colour of failures.
const failures = "Failed requests"

// values returns a second's values of all lines of the panels. Those that are not known are below 0.
func (r *Recording) values(s *results.Second) []float64 {
	const nanosPerMs = 1e6
	values := []float64{-1, float64(s.InFlight)}
	if s.Tokens != nil {
		values[0] = float64(*s.Tokens)
	}
	for _, w := range r.waits[s.Window] {
		mean, longest := -1.0, -1.0
		if w.count > 0 {
			mean, longest = float64(w.sum)/float64(w.count)/nanosPerMs, float64(w.longest)/nanosPerMs
		}
		values = append(values, mean, longest)
	}
	load := lists.Each(s.Load[:], func(v *float64) float64 { return *cmp.Or(v, new(-1.0)) })
	return append(append(values, load...), float64(s.Failed), float64(s.Agents))
}

// end returns when the last second of a stage ended, in seconds since the start of the run. 0: there was none.
func (r *Recording) end() float64 {
	if len(r.seconds) == 0 {
		return 0
	}
	return r.stageStart + float64(r.seconds[len(r.seconds)-1].Window) + 1
}

// timelineOf draws the run over time. It returns nil if no second was measured.
func timelineOf(in *Input) *timeline {
	t := &timeline{}
	for _, r := range in.Recordings {
		t.End = max(t.End, r.end())
	}
	if t.End == 0 {
		return nil
	}
	var bands chart.Bands
	step, stages := math.Ceil(t.End/timelineColumns), in.Result.Ran()
	for i, r := range in.Recordings {
		if r.end() == 0 {
			continue
		}
		s := stages[i]
		t.Columns = append(t.Columns, columnsOf(r, s.Index+1, step)...)
		name := fmt.Sprintf("stage %d: %s, %s, %s", s.Index+1, s.Target, s.Workload, s.Load)
		bands = append(bands, chart.Band{From: r.stageStart, To: r.end(), Label: fmt.Sprint(s.Index + 1),
			Title: strings.Join(slices.Insert(marksOf(*s), 0, name), ", ")})
	}
	t.draw(in, bands, step)
	return t
}

// draw draws the charts of columns of step seconds. A chart of which no second is known is left out.
func (t *timeline) draw(in *Input, bands chart.Bands, step float64) {
	each := "each second"
	if step > 1 {
		each = fmt.Sprintf("highest second in each %v s", step)
	}
	for i, p := range panels {
		c := chart.Chart{
			Width: wideWidth, Height: 150, Left: 72, Typed: p.caption, Layers: []chart.Layer{bands, marksAt(in.Events)},
			X: chart.Axis{Max: t.End, Ticks: chart.RoundTicks(t.End), Label: "seconds since the run's start"},
			Y: chart.Axis{Zero: true}, Label: p.caption + " over time", Description: "The numbers of stages are in the tables of workloads.",
		}
		for j, name := range p.lines {
			c.Series = append(c.Series, chart.Series{Lines: t.lines(len(t.Lines)), Area: len(p.lines) == 1,
				Style: chart.Style{Number: i, Dashed: j > 0, Failures: p.caption == failures}})
			t.Lines = append(t.Lines, name)
		}
		if low, high := c.Range(); low <= high {
			t.Figures = append(t.Figures, figure{Caption: p.caption, Unit: p.unit + ", " + each, Chart: c})
			bands = nil // the first chart has them
		}
	}
}

// lines returns the lines through the values at a place. They stop where one is not known, and where a stage ends.
func (t *timeline) lines(at int) (lines [][]chart.Point) {
	before := column{}
	for _, c := range t.Columns {
		if c.Stage != before.Stage || before.Values[at] < 0 {
			lines = append(lines, nil)
		}
		if before = c; c.Values[at] >= 0 {
			lines[len(lines)-1] = append(lines[len(lines)-1], chart.Point{X: c.X, Y: c.Values[at]})
		}
	}
	return lines
}

// marksAt returns the events as marks.
func marksAt(events []Event) chart.Marks {
	return lists.Each(events, func(e Event) chart.Mark {
		return chart.Mark{X: e.At, Title: fmt.Sprintf("second %.0f: %s", e.At, e.Text)}
	})
}

// columnsOf joins the seconds of a stage into columns of step seconds.
func columnsOf(r *Recording, stage uint32, step float64) (columns []column) {
	for i := range r.seconds {
		x := r.stageStart + math.Floor(float64(r.seconds[i].Window)/step)*step + step/2
		values, last := r.values(&r.seconds[i]), len(columns)-1
		if last < 0 || columns[last].X != x {
			columns = append(columns, column{x, stage, values})
			continue
		}
		for at, v := range values {
			columns[last].Values[at] = max(columns[last].Values[at], v)
		}
	}
	return columns
}
