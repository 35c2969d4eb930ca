package coordinator

import (
	"math"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// scopeOf names the series of a stage as a whole.
func scopeOf(r *run, st *spatev1.Stage) sink.Scope {
	return sink.Scope{
		RunID: r.id, Plan: r.plan(), StageIndex: st.GetIndex(),
		Target: st.GetTarget().GetName(), Workload: st.GetWorkload().GetName(), Load: plans.LoadWords(st.GetLoad()),
		Concurrency: st.GetLoad().GetConcurrency(), Rate: st.GetLoad().GetRate(),
	}
}

// windowPoints are the points of a window: of all agents, of each region and of each agent. toDate may be nil.
func windowPoints(scope sink.Scope, rec *spatev1.StageRecord, view aggregate.View, toDate *aggregate.View) []sink.WindowPoint {
	slo := rec.GetStage().GetSlo() != nil
	point := func(scope sink.Scope, m aggregate.Measured, find func(aggregate.View) *aggregate.Measured) sink.WindowPoint {
		p := sink.WindowPoint{
			Scope: scope, StageStart: rec.GetStartTime().AsTime(), Window: view.Window, Measures: measures(m, slo),
		}
		if toDate != nil {
			if d := find(*toDate); d != nil {
				sums := measures(*d, slo)
				p.ToDate = &sums
			}
		}
		return p
	}
	whole := point(scope, view.Total, func(v aggregate.View) *aggregate.Measured { return &v.Total })
	peak := uint32(min(view.PeakInFlight, math.MaxUint32))
	whole.PeakInFlight = &peak
	out := []sink.WindowPoint{whole}
	for _, part := range view.Regions {
		if part.Name == "" {
			continue // no region: the whole has it
		}
		s := scope
		s.Region = part.Name
		out = append(out, point(s, part.Measured, func(v aggregate.View) *aggregate.Measured { return find(v.Regions, part.Name) }))
	}
	for _, part := range view.Agents {
		s := scope
		s.Agent = part.Name
		out = append(out, point(s, part.Measured, func(v aggregate.View) *aggregate.Measured { return find(v.Agents, part.Name) }))
	}
	return out
}

// find returns the part of a name, nil if there is none.
func find(parts []aggregate.Part, name string) *aggregate.Measured {
	for i := range parts {
		if parts[i].Name == name {
			return &parts[i].Measured
		}
	}
	return nil
}

// measures hands on counts and distributions.
func measures(m aggregate.Measured, slo bool) sink.Measures {
	out := sink.Measures{Counters: m.Counters, SLO: slo, Errors: m.Errors}
	for _, d := range m.Distributions {
		out.Distributions = append(out.Distributions, sink.Distribution{
			Name: d.Name, Count: d.Distribution.Count, Mean: d.Distribution.Mean, Std: d.Distribution.Std,
			Min: d.Distribution.Min, Max: d.Distribution.Max, P50: d.Distribution.P50, P90: d.Distribution.P90,
			P95: d.Distribution.P95, P99: d.Distribution.P99, P99_9: d.Distribution.P99_9,
		})
	}
	return out
}

// stagePoint is the result of a stage.
func stagePoint(scope sink.Scope, rec *spatev1.StageRecord, r aggregate.StageResult, total aggregate.Measured) sink.StagePoint {
	p := sink.StagePoint{
		Scope: scope, StageStart: rec.GetStartTime().AsTime(), Complete: r.Complete, Failure: rec.GetFailure(),
		Measures: measures(total, rec.GetStage().GetSlo() != nil), NeverSent: r.Requests.NeverSent,
		Whole: sink.Throughput{
			Seconds: r.DurationS, Requests: r.RequestThroughput,
			OutputTokens: r.OutputTokenThroughput, TotalTokens: r.TotalTokenThroughput,
		},
	}
	if s := r.Steady; s != nil {
		p.Steady = sink.Throughput{Seconds: &s.DurationS, Requests: &s.RequestThroughput, OutputTokens: &s.OutputTokenThroughput}
	}
	return p
}

// eventPoint turns an event into a point, false if sinks have no use for it.
func eventPoint(r *run, e *spatev1.RunEvent) (sink.EventPoint, bool) {
	p := sink.EventPoint{RunID: r.id, Plan: r.plan(), Time: e.GetTime().AsTime()}
	switch e := e.GetEvent().(type) {
	case *spatev1.RunEvent_RunBegan:
		p.Kind = sink.RunBegan
	case *spatev1.RunEvent_RunEnded:
		p.Kind, p.Text = sink.RunEnded, e.RunEnded.GetReason()
	case *spatev1.RunEvent_StageBegan:
		p.Kind, p.Stage = sink.StageBegan, stageScope(r, e.StageBegan.GetStageIndex())
	case *spatev1.RunEvent_StageEnded:
		p.Kind, p.Stage = sink.StageEnded, stageScope(r, e.StageEnded.GetStageIndex())
		p.Text = e.StageEnded.GetFailure()
	case *spatev1.RunEvent_Notice:
		p.Kind, p.Text = sink.Warning, e.Notice.GetText()
		return p, e.Notice.GetSeverity() > spatev1.Severity_SEVERITY_INFO
	default:
		return p, false
	}
	return p, true
}

// stageScope is the scope of a stage that has been assigned or skipped.
func stageScope(r *run, index uint32) *sink.Scope {
	m, ok := r.stage(index)
	if !ok {
		return nil
	}
	s := scopeOf(r, m.record.GetStage())
	return &s
}
