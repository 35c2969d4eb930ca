package page

import (
	"fmt"
	"math"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/report/page/chart"
)

// frontierFigures draws the curves of a workload's frontiers: latency against throughput, and with an SLO throughput
// and goodput by load. It returns nothing if there are none.
func (w *workload) frontierFigures(plain bool) []figure {
	curve := chart.Chart{
		Width: chartWidth, Height: chartHeight, Plain: plain,
		X:           chart.Axis{Label: "completed requests per second; numbers at points: load", Zero: true},
		Y:           chart.Axis{Zero: true},
		Label:       "Frontier, workload " + w.Name + ": latency against throughput",
		Description: "The numbers are in the table Throughput against latency.",
	}
	good := curve
	good.X, good.Label = w.loadAxis(), "Frontier, workload "+w.Name+": throughput and goodput by load"
	latency, answers, slo := "", "", false
	low, high := math.Inf(1), 0.0
	for i, g := range w.Groups {
		for _, f := range g.Frontiers {
			latency = f.Latency
			answers += answerWords(f, len(w.Groups) > 1)
			style := chart.Style{Number: i}
			points := pointsOn(f, func(p results.FrontierPoint) (x, y *float64) {
				return p.RequestThroughput, p.LatencyMs
			})
			for _, p := range points {
				low, high = min(low, p.Y), max(high, p.Y)
			}
			curve.Series = append(curve.Series, chart.Series{Style: style, Lines: [][]chart.Point{points}})
			byLoad := pointsOn(f, func(p results.FrontierPoint) (x, y *float64) { return &p.Load, p.RequestThroughput })
			goodput := pointsOn(f, func(p results.FrontierPoint) (x, y *float64) { return &p.Load, p.Goodput })
			slo = slo || len(goodput) > 0
			good.Series = append(good.Series, chart.Series{Style: style, Lines: [][]chart.Point{unlabelled(byLoad)}},
				chart.Series{Style: chart.Style{Number: i, Dashed: true}, Lines: [][]chart.Point{unlabelled(goodput)}})
		}
	}
	if curve.Series == nil {
		return nil
	}
	unit := latency + ", ms" + answers
	if low > 0 && high > 20*low {
		curve.Y.Log = true
		unit += "; logarithmic"
	}
	figures := []figure{{Caption: "Frontier: latency against throughput", Unit: unit, SVG: curve.SVG()}}
	if slo {
		figures = append(figures, figure{Caption: "Frontier: throughput and goodput by load",
			Unit: "requests per second; dashed: those that met the SLO", SVG: good.SVG()})
	}
	return figures
}

// answerWords returns the loads of a frontier's knee and highest goodput, with its target if there are several.
func answerWords(f results.FrontierResult, several bool) (words string) {
	of := ""
	if several {
		of = f.Target + ": "
	}
	for _, p := range f.Points {
		if f.Knee != nil && *f.Knee == p.Stage {
			words += fmt.Sprintf("; %sknee at %.4g", of, p.Load)
		}
		if f.HighestGoodput != nil && *f.HighestGoodput == p.Stage {
			words += fmt.Sprintf("; %shighest goodput at %.4g", of, p.Load)
		}
	}
	return words
}

// pointsOn returns the points of a frontier's curve that have both values, by load. Their labels are their loads.
func pointsOn(f results.FrontierResult, of func(results.FrontierPoint) (x, y *float64)) (points []chart.Point) {
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
func doubtOn(p results.FrontierPoint) chart.Doubt {
	switch {
	case p.Verdict == nil || *p.Verdict == trust.Valid:
		return chart.Sound
	case *p.Verdict == trust.Suspect:
		return chart.Suspect
	}
	return chart.Invalid
}
