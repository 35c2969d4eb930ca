// Package points converts merged results, records and events to points for sinks.
//
// The coordinator uses it while a run is in progress, and `spate runs export` uses it with the ledger later. Both write the
// same points, because the name and the time of a point follow from the ledger alone. This package does not measure or
// merge: packages merge and results have the numbers, package sink the schema.
package points

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/plans/loadpoint"
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
func whole(scope sink.Scope, rec *spatev1.StageRecord, r results.StageResult, total merge.Measured) sink.StagePoint {
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

// withServerLatencies adds the latencies from the servers' own histograms to the distributions of a stage. Their names
// are those of the clients' latencies with the prefix server_. A name that the stage already has is not added again:
// servers may also report server_ttft_ms in their streams, and those values are exact and in the windows too.
func withServerLatencies(out []sink.Distribution, a *servermetrics.ServerAccount) []sink.Distribution {
	if a == nil {
		return out
	}
	unknown := math.NaN()
	for _, l := range []struct {
		name string
		c    *servermetrics.Comparison
	}{{"server_ttft_ms", a.TTFT}, {"server_itl_ms", a.ITL}, {"server_tpot_ms", a.TPOT}, {"server_e2e_ms", a.E2E}} {
		if l.c == nil || slices.ContainsFunc(out, func(d sink.Distribution) bool { return d.Name == l.name }) {
			continue
		}
		s := l.c.Server
		out = append(out, sink.Distribution{
			Name: l.name,
			Summary: histogram.Summary{
				Count: s.Count, Mean: s.Mean, Std: unknown, Min: unknown, Max: unknown,
				P50: interpolated(s.P50), P90: unknown, P95: unknown, P99: interpolated(s.P99), P99_9: unknown,
			},
		})
	}
	return out
}

// interpolated returns the value of a quantile, or NaN if it is not known.
func interpolated(q *servermetrics.ServerQuantile) float64 {
	if q == nil || q.Value == nil {
		return math.NaN()
	}
	return *q.Value
}

// Run identifies a run in all its points.
type Run struct {
	// ID is the run's ID.
	ID string
	// Plan is the plan's name.
	Plan string
}

// Scope returns the scope of a stage as a whole.
func (r Run) Scope(st *spatev1.Stage) sink.Scope {
	return sink.Scope{
		RunID: r.ID, Plan: r.Plan, StageIndex: st.GetIndex(),
		Target: st.GetTarget().GetName(), Workload: st.GetWorkload().GetName(), Load: loadpoint.Words(st.GetLoad()),
		API: st.GetTarget().GetApi(), Model: st.GetTarget().GetModel(),
		Concurrency: st.GetLoad().GetConcurrency(), Rate: st.GetLoad().GetRate(),
	}
}
