package points

import (
	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Stage are the results of a stage: as a whole, by region, by endpoint, and of its observers. v is all of the stage to
// date. A stage that never started has none: its points would have no time.
func Stage(scope sink.Scope, rec *spatev1.StageRecord, r aggregate.StageResult, v aggregate.View) []sink.StagePoint {
	if rec.GetStartTime() == nil {
		return nil
	}
	out := []sink.StagePoint{whole(scope, rec, r, v.Total)}
	for _, region := range r.Regions {
		m := find(v.Regions, region.Name)
		if region.Name == "" || m == nil {
			continue // no region: the whole has it
		}
		s := scope
		s.Region = region.Name
		out = append(out, part(s, rec, *m, region.Contribution, r.DurationS, r.Complete))
	}
	for _, e := range v.Endpoints {
		s := scope
		s.Endpoint = e.Name
		out = append(out, endpoint(s, rec, e.Measured, r))
	}
	for _, o := range r.Observers {
		m := find(v.Observers, o.Region)
		if m == nil {
			continue
		}
		s := scope
		s.Region, s.Observer = o.Region, true
		out = append(out, part(s, rec, *m, o.Contribution, o.DurationS, len(o.Missing) == 0))
	}
	return out
}

// whole is the result of a stage.
func whole(scope sink.Scope, rec *spatev1.StageRecord, r aggregate.StageResult,
	total aggregate.Measured) sink.StagePoint {
	verdict := r.Trust.Verdict.Number()
	p := sink.StagePoint{
		Scope: scope, StageStart: rec.GetStartTime().AsTime(), Complete: r.Complete, Verdict: &verdict,
		Failure:  rec.GetFailure(),
		Measures: measures(total, rec.GetStage().GetSlo() != nil), NeverSent: r.Requests.NeverSent,
		Whole: sink.Throughput{
			Seconds: r.DurationS, Requests: r.RequestThroughput,
			OutputTokens: r.OutputTokenThroughput, TotalTokens: r.TotalTokenThroughput,
		},
	}
	p.Measures.Distributions = append(p.Measures.Distributions, ofServers(r.ServerAccount)...)
	if s := r.Steady; s != nil {
		p.Steady = sink.Throughput{Seconds: &s.DurationS, Requests: &s.RequestThroughput,
			OutputTokens: s.OutputTokenThroughput}
	}
	return p
}

// part is the result of a region, or of its observer, over some time.
func part(
	scope sink.Scope, rec *spatev1.StageRecord, m aggregate.Measured, c aggregate.Contribution, seconds *float64,
	complete bool,
) sink.StagePoint {
	return sink.StagePoint{
		Scope: scope, StageStart: rec.GetStartTime().AsTime(), Complete: complete, Failure: rec.GetFailure(),
		Measures: measures(m, rec.GetStage().GetSlo() != nil),
		Whole: sink.Throughput{
			Seconds: seconds, Requests: c.RequestThroughput, OutputTokens: c.OutputTokenThroughput,
			TotalTokens: c.TotalTokenThroughput,
		},
	}
}

// endpoint is the result of an endpoint. Its throughput is over the time of the whole stage.
func endpoint(scope sink.Scope, rec *spatev1.StageRecord, m aggregate.Measured,
	r aggregate.StageResult) sink.StagePoint {
	var c aggregate.Contribution
	c.RequestThroughput, c.OutputTokenThroughput, c.TotalTokenThroughput = m.Throughputs(r.DurationS)
	return part(scope, rec, m, c, r.DurationS, r.Complete)
}

// Starts are how far off agents began their load, at the stage's start. Of a name with several processes the first
// counts: those that came later have no part in the start.
func Starts(run Run, rec *spatev1.StageRecord, r aggregate.StageResult) (out []sink.AgentPoint) {
	if rec.GetStartTime() == nil {
		return nil
	}
	for _, a := range r.Agents {
		if a.StartErrorMs == nil {
			continue
		}
		out = append(out, sink.AgentPoint{
			RunID: run.ID, Plan: run.Plan, Agent: a.Name, Region: a.Region, Time: rec.GetStartTime().AsTime(),
			StartErrorMs: a.StartErrorMs,
		})
	}
	return out
}
