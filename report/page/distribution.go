package page

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/report/page/chart"
)

// distributions are the charts of the distributions of one group.
type distributions struct {
	Title  string
	Legend []legend
	Hints  []string
	Curves []figure
	// Heat is the heat map of gaps between tokens. Nil: there were no gaps.
	Heat *figure
	Rows []Row
	// Streams reports whether the table of percentiles has those that only streams have.
	Streams bool
}

// distributionsOf draws the distributions of a group. It returns nil if nothing was measured.
func distributionsOf(g Group, curves bool) *distributions {
	d := &distributions{Title: g.Title, Heat: heatOf(g), Rows: g.Rows, Streams: g.Streams(),
		Hints: []string{"every second load is dashed"}}
	for i, r := range g.Rows {
		d.Legend = append(d.Legend, legend{i, chart.Style{Number: i, Of: len(g.Rows)}.Swatch(), r.Stage.Load.String()})
	}
	for i, l := range latencies {
		if f := curvesOf(g, i, l); curves && f != nil {
			d.Curves = append(d.Curves, *f)
		}
	}
	if len(d.Curves) == 0 && d.Heat == nil {
		return nil
	}
	return d
}

// curvesOf draws the distributions of a latency, one line for each stage. It returns nil if there are none.
func curvesOf(g Group, number int, l latency) *figure {
	c := chart.Chart{
		Width: chartWidth, Height: chartHeight, X: chart.Axis{Label: "ms, logarithmic", Log: true},
		Y:           chart.Axis{Max: 100, Ticks: chart.TicksAt(0, 25, 50, 75, 90, 100)},
		Label:       fmt.Sprintf("Distribution of %s, %s: a line for each load", l.name, g.Title),
		Description: "Percentiles are in the table below the charts.",
	}
	for i, r := range g.Rows {
		if r.Recording == nil || r.Recording.curves[number] == nil {
			continue
		}
		line := lists.Each(r.Recording.curves[number], func(q quantile) chart.Point {
			return chart.Point{X: q.ms, Y: q.share}
		})
		c.Series = append(c.Series, chart.Series{Steps: true, Lines: [][]chart.Point{line},
			Style: chart.Style{Number: i, Of: len(g.Rows), Dashed: i%2 == 1}})
	}
	if len(c.Series) == 0 {
		return nil
	}
	return &figure{Caption: "Distribution of " + l.name, Unit: "share of values up to, %", Chart: c}
}

// Levels of the heat map: shares of a column's gaps in percent.
var (
	heatLimits = []float64{0.1, 1, 3, 10, 20, 40, 70}
	heatWords  = []string{"up to 0.1 %", "1 %", "3 %", "10 %", "20 %", "40 %", "70 %", "100 %"}
)

// wideWidth is the width of charts over time, in CSS pixels.
const wideWidth = 1080

// heatOf draws the gaps between tokens over time, the stages of a group side by side. It returns nil if there are none.
func heatOf(g Group) *figure {
	most := max(200/len(g.Rows), 4)
	c := chart.Chart{
		Width: wideWidth, Height: chartHeight, Y: chart.Axis{Log: true},
		X:           chart.Axis{Min: 0, Max: float64(len(g.Rows)), Label: "load; within each, time from left to right"},
		Label:       fmt.Sprintf("Gaps between tokens over time, %s", g.Title),
		Description: "Percentiles of ITL are in the table below the charts.",
	}
	heat := chart.Heat{Limits: heatLimits}
	for i, r := range g.Rows {
		c.X.Ticks = append(c.X.Ticks, chart.Tick{Value: float64(i) + 0.48, Label: r.Load})
		if r.Recording == nil {
			continue
		}
		columns := r.Recording.gaps.columns(most)
		for j, counts := range columns {
			width := 0.96 / float64(len(columns))
			heat.Cells = append(heat.Cells, cellsOf(counts, float64(i)+width*float64(j), width)...)
		}
	}
	if len(heat.Cells) == 0 {
		return nil
	}
	c.Layers = []chart.Layer{heat}
	return &figure{Caption: "Gaps between tokens over time", Unit: "ITL, ms, logarithmic; colour: share of a column's gaps",
		Chart: c}
}

// cellsOf returns the cells of a column.
func cellsOf(counts map[int]uint64, x, width float64) (cells []chart.Cell) {
	sum := lists.Sum(slices.Collect(maps.Values(counts)), func(n uint64) uint64 { return n })
	for _, row := range slices.Sorted(maps.Keys(counts)) {
		cells = append(cells, chart.Cell{X0: x, X1: x + width, Y0: rowStart(row), Y1: rowStart(row + 1),
			Value: 100 * float64(counts[row]) / float64(sum)})
	}
	return cells
}
