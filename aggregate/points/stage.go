package points

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// EndOfStage returns all points of a stage that has ended, with the result of what was merged. A stage that never
// started has no points, because they would have no time.
func EndOfStage(run Run, rec *spatev1.StageRecord, r results.StageResult, merged *merge.Stage) []sink.Point {
	if rec.GetStartTime() == nil {
		return nil
	}
	scope := run.Scope(rec.GetStage())
	return slices.Concat(stage(scope, rec, r, merged.ToDateWithoutAgents()), starts(run, rec, r), doubts(scope, rec, r))
}

// Result returns the row of the result of a stage as a whole.
func Result(run Run, rec *spatev1.StageRecord, r results.StageResult, merged *merge.Stage) []sink.Row {
	return whole(run.Scope(rec.GetStage()), rec, r, merged.Total()).Rows()
}

// stage returns the points of a stage's results: as a whole, by region, endpoint and part. v is the view of the
// whole stage, without its agents.
func stage(scope sink.Scope, rec *spatev1.StageRecord, r results.StageResult, v merge.View) []sink.Point {
	out := []sink.Point{whole(scope, rec, r, v.Total)}
	eachPart(scope, v, func(s sink.Scope, _ division, p merge.Part) {
		out = append(out, part(s, rec, p.Measured, r.DurationS, r.Complete))
	})
	return out
}

// whole returns the point of a stage as a whole.
func whole(
	scope sink.Scope, rec *spatev1.StageRecord, r results.StageResult, total merge.Measured,
) sink.StagePoint {
	p := part(scope, rec, total, r.DurationS, r.Complete)
	p.Verdict, p.NeverSent = new(r.Trust.Verdict.Number()), r.Requests.NeverSent
	p.Measures.Distributions = withServerLatencies(p.Measures.Distributions, r.ServerAccount)
	if s := r.Steady; s != nil {
		p.Steady = sink.Throughput{Seconds: &s.DurationS, Requests: &s.RequestThroughput,
			OutputTokens: s.OutputTokenThroughput}
	}
	return p
}

// part returns the point of a stage, of a region, of an endpoint, or of a part of the mixture. seconds is the time of
// its rates.
func part(
	scope sink.Scope, rec *spatev1.StageRecord, m merge.Measured, seconds *float64, complete bool,
) sink.StagePoint {
	rates := sink.Throughput{Seconds: seconds}
	rates.Requests, rates.OutputTokens, rates.TotalTokens = merge.Throughputs(m.Counters, seconds)
	return sink.StagePoint{
		Scope: scope, StageStart: rec.GetStartTime().AsTime(), Complete: complete, Failure: rec.GetFailure(),
		Measures: measures(m, content.HasSLO(rec.GetStage())), Whole: rates,
	}
}

// doubts returns an event for each check that the result did not pass, the worst first, with its remedy.
func doubts(scope sink.Scope, rec *spatev1.StageRecord, r results.StageResult) (out []sink.Point) {
	end := rec.GetStartTime().AsTime()
	if r.DurationS != nil {
		end = end.Add(time.Duration(*r.DurationS * float64(time.Second)))
	}
	for _, c := range r.Trust.Failed() {
		text := fmt.Sprintf("%s: %s.", c.Verdict, strings.TrimSuffix(c.Words, "."))
		if c.Remedy != nil {
			text += " What to do: " + *c.Remedy
		}
		out = append(out, sink.EventPoint{
			RunID: scope.RunID, Plan: scope.Plan, Time: end, Kind: sink.Doubt, Stage: &scope, Check: c.Name, Text: text,
		})
	}
	return out
}

// starts returns points of how far from the armed start agents started their load. If a name has several processes,
// only the first one counts, because the others joined after the start.
func starts(run Run, rec *spatev1.StageRecord, r results.StageResult) (out []sink.Point) {
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
