package page

import (
	"fmt"
	"math"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
	"github.com/spate-load/spate/report/page/chart"
)

// frontierFigures draws the curves of a workload's frontiers: each latency against throughput, and with an SLO
// throughput and goodput by load. It returns nothing if there are none.
func (w *workload) frontierFigures(plain bool) (figures []figure) {
	var latencies []string
	for _, g := range w.Groups {
		for _, f := range g.Series {
			if f.Kind == loadpoint.Frontier {
				latencies = words.AppendOnce(latencies, f.Latency)
			}
		}
	}
	for _, latency := range latencies {
		name := "latency"
		if len(latencies) > 1 {
			name = latency
		}
		figures = append(figures, w.latencyFigure(latency, name, plain))
	}
	if good := w.goodputChart(plain); good.Series != nil {
		figures = append(figures, figure{Caption: "Frontier: throughput and goodput by load",
			Unit: "requests per second, steady part of each stage; dashed: those that met the SLO", SVG: good.SVG()})
	}
	return figures
}

// frontierChart returns a chart without curves. what says what it shows.
func (w *workload) frontierChart(x chart.Axis, what string, plain bool) chart.Chart {
	return chart.Chart{
		Width: chartWidth, Height: chartHeight, Plain: plain, X: x, Y: chart.Axis{Zero: true},
		Label:       "Frontier, workload " + w.Name + ": " + what,
		Description: "The numbers are in the table Throughput against latency.",
	}
}

// latencyFigure draws the frontiers of one latency. name is that latency's in the caption.
func (w *workload) latencyFigure(latency, name string, plain bool) figure {
	x := chart.Axis{Label: "requests per second, steady part; numbers at points: load", Zero: true}
	curve := w.frontierChart(x, name+" against throughput", plain)
	unit := latency + ", ms"
	low, high := math.Inf(1), 0.0
	for i, g := range w.Groups {
		for _, f := range g.Series {
			if f.Latency != latency {
				continue
			}
			points := pointsOn(f, func(p results.SeriesPoint) (x, y *float64) {
				return p.RequestThroughput, p.LatencyMs
			})
			for _, p := range points {
				low, high = min(low, p.Y), max(high, p.Y)
			}
			curve.Series = append(curve.Series,
				chart.Series{Style: chart.Style{Number: i}, Lines: [][]chart.Point{points}})
		}
	}
	if low > 0 && high > 20*low {
		curve.Y.Log = true
		unit += "; logarithmic"
	}
	return figure{Caption: "Frontier: " + name + " against throughput", Unit: unit, SVG: curve.SVG()}
}

// goodputChart returns the throughput and goodput of frontiers by load. It has no series if none has a goodput.
func (w *workload) goodputChart(plain bool) chart.Chart {
	good, slo := w.frontierChart(w.loadAxis(), "throughput and goodput by load", plain), false
	for i, g := range w.Groups {
		for _, f := range g.Series {
			if f.Kind != loadpoint.Frontier {
				continue
			}
			byLoad := pointsOn(f, func(p results.SeriesPoint) (x, y *float64) { return &p.Load, p.RequestThroughput })
			goodput := pointsOn(f, func(p results.SeriesPoint) (x, y *float64) { return &p.Load, p.Goodput })
			slo = slo || len(goodput) > 0
			good.Series = append(good.Series,
				chart.Series{Style: chart.Style{Number: i}, Lines: [][]chart.Point{unlabelled(byLoad)}},
				chart.Series{Style: chart.Style{Number: i, Dashed: true}, Lines: [][]chart.Point{unlabelled(goodput)}})
		}
	}
	if !slo {
		good.Series = nil
	}
	return good
}

// pointsOn returns the points of a frontier's curve that have both values, by load. Their labels are their loads.
func pointsOn(f results.SeriesResult, of func(results.SeriesPoint) (x, y *float64)) (points []chart.Point) {
	for _, p := range f.Points {
		x, y := of(p)
		if p.LeftOut != nil || x == nil || y == nil {
			continue
		}
		label := fmt.Sprintf("%.4g", p.Load)
		points = append(points, chart.Point{X: *x, Y: *y, Label: label, Doubt: doubtOn(p),
			Title: fmt.Sprintf("%s: %s req/s, %s %s ms, %s good req/s", label, num(p.RequestThroughput), f.Latency,
				num(p.LatencyMs), num(p.Goodput))})
	}
	return points
}

// unlabelled returns points without their labels.
func unlabelled(points []chart.Point) []chart.Point {
	for i := range points {
		points[i].Label = ""
	}
	return points
}

// doubtOn returns how a point is marked.
func doubtOn(p results.SeriesPoint) chart.Doubt {
	switch {
	case p.Verdict == nil || *p.Verdict == trust.Valid:
		return chart.Sound
	case *p.Verdict == trust.Suspect:
		return chart.Suspect
	}
	return chart.Invalid
}
