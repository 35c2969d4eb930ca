package points

import (
	"math"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Windows returns the points of one window of a stage: of all agents, and of each region, agent, endpoint and observer.
// toDate is nil if the view to date is not known for this window.
func Windows(
	scope sink.Scope, rec *spatev1.StageRecord, view merge.View, toDate *merge.View,
) []sink.WindowPoint {
	w := window{rec: rec, number: view.Window, toDate: toDate, slo: rec.GetStage().GetSlo() != nil}
	whole := w.point(scope, view.Total, func(v merge.View) *merge.Measured { return &v.Total })
	peak := uint32(min(view.PeakInFlight, math.MaxUint32))
	whole.PeakInFlight = &peak
	if toDate != nil {
		verdict := results.JudgeToDate(toDate.Total, rec).Verdict.Number()
		whole.Verdict = &verdict
	}
	out := []sink.WindowPoint{whole}
	for _, part := range view.Regions {
		if part.Name == "" {
			continue // agents without a region are only in the whole
		}
		s := scope
		s.Region = part.Name
		out = append(out, w.point(s, part.Measured,
			func(v merge.View) *merge.Measured { return find(v.Regions, part.Name) }))
	}
	for _, part := range view.Agents {
		s := scope
		s.Region, s.Agent = part.Region, part.Name
		out = append(out, w.point(s, part.Measured,
			func(v merge.View) *merge.Measured { return find(v.Agents, part.Name) }))
	}
	for _, part := range view.Endpoints {
		s := scope
		s.Endpoint = part.Name
		out = append(out, w.point(s, part.Measured,
			func(v merge.View) *merge.Measured { return find(v.Endpoints, part.Name) }))
	}
	for _, part := range view.Observers {
		s := scope
		s.Region, s.Observer = part.Name, true
		out = append(out, w.point(s, part.Measured,
			func(v merge.View) *merge.Measured { return find(v.Observers, part.Name) }))
	}
	return out
}

// Servers returns the points of the server metrics of one window of a stage.
func Servers(scope sink.Scope, rec *spatev1.StageRecord, view merge.View) []sink.ServerPoint {
	out := make([]sink.ServerPoint, 0, len(view.Servers))
	for _, v := range view.Servers {
		out = append(out, sink.ServerPoint{
			Scope: scope, StageStart: rec.GetStartTime().AsTime(), Window: view.Window,
			Source: v.URL, Metric: v.Name, Labels: v.Labels, Value: v.Value, PerSecond: v.PerSecond,
		})
	}
	return out
}

// window is what the points of one window share.
type window struct {
	rec    *spatev1.StageRecord
	number uint32
	toDate *merge.View // nil: not known
	slo    bool
}

// point returns the point of a part of the window. find returns the same part of the view to date.
func (w window) point(
	scope sink.Scope, m merge.Measured, find func(merge.View) *merge.Measured,
) sink.WindowPoint {
	p := sink.WindowPoint{Scope: scope, StageStart: w.rec.GetStartTime().AsTime(), Window: w.number,
		Measures: measures(m, w.slo)}
	if w.toDate != nil {
		if d := find(*w.toDate); d != nil {
			sums := measures(*d, w.slo)
			p.ToDate = &sums
		}
	}
	return p
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
			sink.Distribution{Name: measure.Of(d.Metric).Name, Summary: d.Summary})
	}
	return out
}
