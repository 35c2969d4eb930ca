package points

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// Window returns all points of one window of a stage, with the views to date where they are known. It returns none if
// the window was forgotten or has no measurements. bursts has seen the windows before.
func Window(run Run, rec *spatev1.StageRecord, merged *merge.Stage, number uint32, bursts *Bursts) []sink.Point {
	view, ok := merged.Window(number)
	if !ok {
		return nil
	}
	var toDate *merge.View
	if v, ok := merged.ToDateOf(number); ok {
		toDate = &v
	}
	scope := run.Scope(rec.GetStage())
	out := append(windows(scope, rec, view, toDate), servers(scope, rec, view)...)
	if burst, ok := bursts.See(run, scope, rec, view); ok {
		out = append(out, burst)
	}
	return out
}

// division is a way to divide a stage into parts that have points of their own.
type division struct {
	parts func(merge.View) []merge.Part
	limit func(*sink.Scope, merge.Part) // limits a scope to a part
}

var divisions = []division{
	{func(v merge.View) []merge.Part { return v.Regions }, func(s *sink.Scope, p merge.Part) { s.Region = p.Name }},
	{func(v merge.View) []merge.Part { return v.Agents },
		func(s *sink.Scope, p merge.Part) { s.Region, s.Agent = p.Region, p.Name }},
	{func(v merge.View) []merge.Part { return v.Endpoints }, func(s *sink.Scope, p merge.Part) { s.Endpoint = p.Name }},
	{func(v merge.View) []merge.Part { return v.Parts }, func(s *sink.Scope, p merge.Part) { s.Part = p.Name }},
}

// windows returns the points of one window of a stage: of all agents, and of each region, agent, endpoint and part.
// toDate is nil if the view to date is not known for this window.
func windows(scope sink.Scope, rec *spatev1.StageRecord, view merge.View, toDate *merge.View) []sink.Point {
	var total *merge.Measured
	if toDate != nil {
		total = &toDate.Total
	} else {
		toDate = &merge.View{}
	}
	whole := windowPoint(scope, rec, view.Window, &view.Total, total)
	whole.PeakInFlight = new(uint32(min(view.PeakInFlight, math.MaxUint32)))
	if total != nil {
		whole.Verdict = verdictToDate(*total, rec)
	}
	out := []sink.Point{whole}
	eachPart(scope, view, func(s sink.Scope, d division, part merge.Part) {
		out = append(out, windowPoint(s, rec, view.Window, &part.Measured, find(d.parts(*toDate), part.Name)))
	})
	// A part that measured nothing in this window may have no other window with a view to date.
	eachPart(scope, *toDate, func(s sink.Scope, d division, part merge.Part) {
		if find(d.parts(view), part.Name) == nil {
			out = append(out, windowPoint(s, rec, view.Window, nil, &part.Measured))
		}
	})
	return out
}

// eachPart calls fn with each part of a view that has points of its own, and its scope.
func eachPart(scope sink.Scope, view merge.View, fn func(sink.Scope, division, merge.Part)) {
	for _, d := range divisions {
		for _, part := range d.parts(view) {
			s := scope
			if d.limit(&s, part); s != scope { // agents without a region are only in the whole
				fn(s, d, part)
			}
		}
	}
}

// verdictToDate judges what a stage measured so far.
func verdictToDate(total merge.Measured, rec *spatev1.StageRecord) *uint64 {
	return new(results.JudgeToDate(total, rec).Verdict.Number())
}

// ToDate returns the rows of a stage up to now: as a whole, and of each region, endpoint and part.
func ToDate(run Run, rec *spatev1.StageRecord, merged *merge.Stage) (rows []sink.Row) {
	view, scope := merged.ToDateWithoutAgents(), run.Scope(rec.GetStage())
	row := func(s sink.Scope, m *merge.Measured, verdict *uint64) {
		p := windowPoint(s, rec, view.Window, nil, m)
		p.Verdict = verdict
		rows = append(rows, p.ToDateRow())
	}
	row(scope, &view.Total, verdictToDate(view.Total, rec))
	eachPart(scope, view, func(s sink.Scope, _ division, part merge.Part) { row(s, &part.Measured, nil) })
	return rows
}

// windowPoint returns the point of a part of a window. m is nil if the part measured nothing in the window, and toDate
// if what it measured to date is not known.
func windowPoint(
	scope sink.Scope, rec *spatev1.StageRecord, number uint32, m, toDate *merge.Measured,
) sink.WindowPoint {
	slo := content.HasSLO(rec.GetStage())
	p := sink.WindowPoint{Scope: scope, StageStart: rec.GetStartTime().AsTime(), Window: number}
	if m != nil {
		p.Measures = new(measures(*m, slo))
	}
	if toDate != nil {
		p.ToDate = new(measures(*toDate, slo))
	}
	return p
}

// servers returns the points of the server metrics of one window of a stage.
func servers(scope sink.Scope, rec *spatev1.StageRecord, view merge.View) []sink.Point {
	out := make([]sink.Point, 0, len(view.Servers))
	for _, v := range view.Servers {
		out = append(out, sink.ServerPoint{
			Scope: scope, StageStart: rec.GetStartTime().AsTime(), Window: view.Window,
			Source: v.URL, Metric: v.Name, Labels: v.Labels, Value: v.Value, PerSecond: v.PerSecond,
		})
	}
	return out
}

// find returns the part with a name, or nil if there is none.
func find(parts []merge.Part, name string) *merge.Measured {
	for i := range parts {
		if parts[i].Name == name {
			return &parts[i].Measured
		}
	}
	return nil
}

// measures converts counts and distributions.
func measures(m merge.Measured, slo bool) sink.Measures {
	out := sink.Measures{Windows: m.Windows, Counters: m.Counters, SLO: slo, Errors: m.Errors}
	for _, d := range m.Summaries {
		out.Distributions = append(out.Distributions,
			sink.Distribution{Name: measure.Of(d.Metric).Name, Summary: d.Summary, Buckets: d.Buckets})
	}
	return out
}

// Limits of a burst of errors. A burst starts with a window in which at least minFailures requests failed, and at least
// one in failureShare of those that ended, after calmWindows windows in which this was not the case.
const (
	minFailures  = 5
	failureShare = 10
	calmWindows  = 10
)

// Bursts finds bursts of errors in the windows of one stage, which See takes in order. The zero value is ready for use
// and may start at any window. What it finds depends only on the last calmWindows windows. If it does not start at
// window 0, it reports nothing for the first calmWindows windows.
type Bursts struct {
	started bool
	first   uint32 // first window seen
	last    uint32 // window of the last burst
	any     bool   // there was a burst
}

// See takes the next window. It returns the event of a burst that starts with this window, and false if none does.
func (b *Bursts) See(run Run, scope sink.Scope, rec *spatev1.StageRecord, v merge.View) (sink.EventPoint, bool) {
	if !b.started {
		b.started, b.first = true, v.Window
	}
	ended, failed := v.Total.Counters.GetCompleted()+v.Total.Counters.GetFailed(), v.Total.Counters.GetFailed()
	if failed < minFailures || failed*failureShare < ended {
		return sink.EventPoint{}, false
	}
	calm := !b.any || v.Window-b.last > calmWindows
	b.any, b.last = true, v.Window
	if !calm || b.first > 0 && v.Window-b.first < calmWindows {
		return sink.EventPoint{}, false
	}
	at := sink.WindowPoint{StageStart: rec.GetStartTime().AsTime(), Window: v.Window}
	return sink.EventPoint{
		RunID: run.ID, Plan: run.Plan, Time: at.Time(), Kind: sink.ErrorBurst, Stage: &scope,
		Text: fmt.Sprintf("%d of %d requests that ended in second %d failed: %s", failed, ended, v.Window,
			classes(v.Total.Errors)),
	}, true
}

// classes lists the numbers of failures by class, the largest first.
func classes(errors map[string]uint64) string {
	names := slices.Sorted(maps.Keys(errors))
	slices.SortStableFunc(names, func(a, b string) int { return int(errors[b]) - int(errors[a]) })
	var parts []string
	for _, name := range names {
		if errors[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, errors[name]))
		}
	}
	return strings.Join(parts, ", ")
}
