package results

import (
	"github.com/spate-load/spate/aggregate/trust"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// leastSteady is the shortest steady part of an open loop, in seconds, whose throughput is used instead of the whole
// stage's: a shorter one has too few arrivals. In the steady part of a closed loop each slot has a request.
const leastSteady = 5

// Sustained returns completed requests and output tokens per second: of the steady part, or else of the whole stage,
// where ramp-up and drain lower them. The steady part of an open loop must be at least 5 s long.
func (s *StageResult) Sustained() (requests, outputTokens *float64) {
	if s.Steady != nil && (s.Load.Concurrency != nil || s.Steady.DurationS >= leastSteady) {
		return &s.Steady.RequestThroughput, s.Steady.OutputTokenThroughput
	}
	return s.RequestThroughput, s.OutputTokenThroughput
}

// frontiersOf returns what frontiers found, with the numbers of their stages.
func frontiersOf(records []*spatev1.FrontierRecord, stages []StageResult) []FrontierResult {
	out := []FrontierResult{}
	for _, r := range records {
		asked := r.GetFrontier()
		f := FrontierResult{
			Series: r.GetSeries(), Target: r.GetTarget(), Workload: r.GetWorkload(),
			Unit:    unitOf(asked.GetConcurrency()),
			Latency: latencyWords(asked.GetMetric(), asked.GetPercentile()), Points: []FrontierPoint{},
			Knee: r.Knee, HighestGoodput: r.Best, Objectives: objectives(asked.GetKeep()), Limits: []FrontierLimit{},
			End: unlessZero(r.GetEnd()), Tolerance: asked.GetTolerance(), Converged: r.GetConverged(),
			Reason: unlessZero(r.GetReason()), Sentence: r.GetSentence(),
		}
		for _, p := range r.GetPoints() {
			f.Points = append(f.Points, frontierPoint(p, stages))
		}
		for _, l := range r.GetLimits() {
			limit := FrontierLimit{Part: unlessZero(l.GetPart()), Kept: l.Kept, Broke: l.Broke,
				Reason: unlessZero(l.GetReason())}
			if l.Kept != nil {
				limit.Stage = new(l.GetStageIndex())
			}
			f.Limits = append(f.Limits, limit)
		}
		out = append(out, f)
	}
	return out
}

// frontierPoint returns a point with the numbers of its stage, if the ledger has the stage.
func frontierPoint(r *spatev1.FrontierPoint, stages []StageResult) FrontierPoint {
	p := FrontierPoint{Stage: r.GetStageIndex(), Load: r.GetLoad(), LeftOut: unlessZero(r.GetLeftOut()),
		Pareto: r.GetPareto(), RequestThroughput: r.Throughput}
	if r.Latency != nil {
		p.LatencyMs = new(1000 * r.GetLatency())
	}
	s := StageAt(stages, p.Stage)
	if s == nil {
		return p
	}
	_, p.OutputTokenThroughput = s.Sustained()
	p.Verdict = unlessZero[trust.Verdict](s.Trust.Verdict)
	if g := s.Goodput; g != nil {
		p.GoodShare = g.Share
		if r.Throughput != nil && s.Requests.Completed > 0 {
			p.Goodput = new(r.GetThroughput() * float64(g.Requests) / float64(s.Requests.Completed))
		}
	}
	return p
}
