package points

import (
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Stage returns the points of a stage's results: as a whole, by region, by endpoint, and of its observers. v is the
// view of the whole stage. A stage that never started has no points, because they would have no time.
func Stage(scope sink.Scope, rec *spatev1.StageRecord, r results.StageResult, v merge.View) []sink.StagePoint {
	if rec.GetStartTime() == nil {
		return nil
	}
	out := []sink.StagePoint{whole(scope, rec, r, v.Total)}
	for _, region := range r.Regions {
		m := find(v.Regions, region.Name)
		if region.Name == "" || m == nil {
			continue // agents without a region are only in the whole
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

// whole returns the point of a stage as a whole.
func whole(
	scope sink.Scope, rec *spatev1.StageRecord, r results.StageResult, total merge.Measured,
) sink.StagePoint {
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
	p.Measures.Distributions = withServerLatencies(p.Measures.Distributions, r.ServerAccount)
	if s := r.Steady; s != nil {
		p.Steady = sink.Throughput{Seconds: &s.DurationS, Requests: &s.RequestThroughput,
			OutputTokens: s.OutputTokenThroughput}
	}
	return p
}

// part returns the point of a region, of its observer, or of an endpoint. seconds is the time of its rates.
func part(
	scope sink.Scope, rec *spatev1.StageRecord, m merge.Measured, c results.Contribution, seconds *float64,
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

// endpoint returns the point of an endpoint. Its throughput is over the duration of the whole stage.
func endpoint(
	scope sink.Scope, rec *spatev1.StageRecord, m merge.Measured, r results.StageResult,
) sink.StagePoint {
	var c results.Contribution
	c.RequestThroughput, c.OutputTokenThroughput, c.TotalTokenThroughput = merge.Throughputs(m.Counters, r.DurationS)
	return part(scope, rec, m, c, r.DurationS, r.Complete)
}

// Starts returns points of how far from the armed start agents started their load. If a name has several processes,
// only the first one counts, because the others joined after the start.
func Starts(run Run, rec *spatev1.StageRecord, r results.StageResult) (out []sink.AgentPoint) {
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
