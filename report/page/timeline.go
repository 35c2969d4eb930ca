package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/report/page/chart"
)

// Event is something that happened during the run.
type Event struct {
	// At is when, in seconds since the start of the run.
	At float64
	// Text is what happened.
	Text string
}

// timeline is the run over time.
type timeline struct{ Figures []figure }

// timelineColumns is how many points a line over time has at most: one for each pixel or two.
const timelineColumns = 720

// column is what happened in some seconds of a stage.
type column struct {
	x                        float64
	tokens, inFlight, failed float64 // of the highest second
	unknown                  bool    // tokens are not known
}

// timelineOf draws the run over time. It returns nil if no second was measured.
func timelineOf(in *Input) *timeline {
	t := &timeline{}
	var bands chart.Bands
	var lines [][]column
	end := 0.0
	for _, r := range in.Recordings {
		if n := len(r.seconds); n > 0 {
			end = max(end, r.stageStart+float64(r.seconds[n-1].Window)+1)
		}
	}
	if end == 0 {
		return nil
	}
	step, stages := math.Ceil(end/timelineColumns), in.Result.Ran()
	for i, r := range in.Recordings {
		if len(r.seconds) == 0 {
			continue
		}
		s := stages[i]
		lines = append(lines, columnsOf(r, step))
		name := fmt.Sprintf("stage %d: %s, %s, %s", s.Index+1, s.Target, s.Workload, s.Load)
		bands = append(bands, chart.Band{From: r.stageStart, Label: fmt.Sprint(s.Index + 1),
			To:    r.stageStart + float64(r.seconds[len(r.seconds)-1].Window) + 1,
			Title: strings.Join(slices.Insert(marksOf(*s), 0, name), ", ")})
	}
	t.draw(in, bands, lines, step, end)
	return t
}

// panels are the charts of the timeline.
var panels = []struct {
	caption, unit string
	of            func(column) (float64, bool)
	failures      bool
}{
	{"Output tokens", "tokens per second", func(c column) (float64, bool) { return c.tokens, !c.unknown }, false},
	{"Requests in flight", "requests", func(c column) (float64, bool) { return c.inFlight, true }, false},
	{"Failed requests", "requests per second", func(c column) (float64, bool) { return c.failed, true }, true},
}

// draw draws the charts: of all stages' columns of step seconds, until the end of the run. A chart of which no second
// is known is left out.
func (t *timeline) draw(in *Input, bands chart.Bands, lines [][]column, step, end float64) {
	each := "each second"
	if step > 1 {
		each = fmt.Sprintf("highest second in each %v s", step)
	}
	for i, p := range panels {
		c := chart.Chart{
			Width: wideWidth, Height: 170, Layers: []chart.Layer{bands, marksAt(in.Events)},
			X: chart.Axis{Max: end, Ticks: chart.RoundTicks(end), Label: "seconds since the run's start"},
			Y: chart.Axis{Zero: true}, Label: p.caption + " over time", Description: "The numbers of stages are in the tables of workloads.",
			Series: []chart.Series{{Style: chart.Style{Number: i, Failures: p.failures}, Area: true}},
		}
		for _, columns := range lines {
			var line []chart.Point
			for _, at := range columns {
				if v, known := p.of(at); known {
					line = append(line, chart.Point{X: at.x, Y: v})
				}
			}
			c.Series[0].Lines = append(c.Series[0].Lines, line)
		}
		if !slices.ContainsFunc(c.Series[0].Lines, func(line []chart.Point) bool { return len(line) > 0 }) {
			continue
		}
		t.Figures = append(t.Figures, figure{Caption: p.caption, Unit: p.unit + ", " + each, Chart: c})
	}
}

// marksAt returns the events as marks.
func marksAt(events []Event) (marks chart.Marks) {
	for _, e := range events {
		marks = append(marks, chart.Mark{X: e.At, Title: fmt.Sprintf("second %.0f: %s", e.At, e.Text)})
	}
	return marks
}

// columnsOf joins the seconds of a stage into columns of step seconds.
func columnsOf(r *Recording, step float64) (columns []column) {
	for _, s := range r.seconds {
		x := r.stageStart + math.Floor(float64(s.Window)/step)*step + step/2
		if len(columns) == 0 || columns[len(columns)-1].x != x {
			columns = append(columns, column{x: x})
		}
		c := &columns[len(columns)-1]
		c.inFlight = max(c.inFlight, float64(s.InFlight))
		c.failed = max(c.failed, float64(s.Failed))
		if s.Tokens == nil {
			c.unknown = true
			continue
		}
		c.tokens = max(c.tokens, float64(*s.Tokens))
	}
	return columns
}
