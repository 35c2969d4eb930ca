package page

import (
	"fmt"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/report/page/chart"
)

// distributions are the charts of the distributions of one group.
type distributions struct {
	Title  string
	Legend []legend
	Hints  []string
	Curves []figure
	Rows   []Row
	// Streams reports whether the table of percentiles has those that only streams have.
	Streams bool
}

// distributionsOf draws the distributions of a group. It returns nil if nothing was measured.
func distributionsOf(g Group, curves bool) *distributions {
	d := &distributions{Title: g.Title, Rows: g.Rows, Streams: g.Streams(),
		Hints: []string{"every second load is dashed"}}
	for i, r := range g.Rows {
		d.Legend = append(d.Legend, legend{i, chart.Style{Number: i, Of: len(g.Rows)}.Swatch(), r.Stage.Load.String()})
	}
	for i, l := range latencies {
		if f := curvesOf(g, i, l); curves && f != nil {
			d.Curves = append(d.Curves, *f)
		}
	}
	if curves && len(d.Curves) == 0 {
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
