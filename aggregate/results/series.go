package results

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/plans/loadpoint"
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

// Lowered returns the share by which ramp-up and drain lower the throughput of a closed loop, 0 if it is not known: the
// rest of an incomplete stage is lower for other reasons.
func (s *StageResult) Lowered() float64 {
	if !s.Complete || s.Steady == nil || s.Load.Concurrency == nil || s.RequestThroughput == nil ||
		s.Steady.RequestThroughput <= 0 {
		return 0
	}
	return max(0, 1-*s.RequestThroughput/s.Steady.RequestThroughput)
}

// seriesOf returns what searches, frontiers and sweeps found, with the numbers of their stages.
func seriesOf(records []*spatev1.SeriesRecord, stages []StageResult) []SeriesResult {
	out := []SeriesResult{}
	for _, r := range records {
		search, frontier, choice := r.GetLoad().GetSearch(), r.GetLoad().GetFrontier(), r.GetLoad().GetChoose()
		s := SeriesResult{
			Series: r.GetSeries(), Kind: loadpoint.Kind(r.GetLoad()), Target: r.GetTarget(), Workload: r.GetWorkload(),
			Unit: "rate", Objectives: objectives(cmp.Or(search.GetKeep(), frontier.GetKeep(), choice.GetWithin())),
			Best: choice.GetBest(), Rivals: []Rival{},
			Limits: []LoadLimit{}, Points: []SeriesPoint{}, Knee: r.Knee, HighestGoodput: r.Best,
			MeanThroughput: r.MeanThroughput, ThroughputMargin: r.ThroughputMargin,
			Stages: r.GetStages(), Overruled: r.GetOverruled(), Caution: unlessZero(r.GetCaution()),
			Verdict: unlessZero(trust.Verdict(r.GetVerdict())), Doubts: unlessZero(r.GetDoubts()),
			End: unlessZero(r.GetEnd()), Converged: r.GetConverged(),
			Tolerance: cmp.Or(search.GetPrecision(), frontier.GetTolerance(), choice.GetTolerance()),
			Reason:    unlessZero(r.GetReason()), Sentence: r.GetSentence(),
		}
		if _, concurrency := loadpoint.Varied(r.GetLoad()); concurrency != nil || r.GetLoad().GetConcurrency() > 0 {
			s.Unit = "concurrency"
		}
		if s.Best != "" && !loadpoint.IsThroughput(s.Best) {
			s.Best = loadpoint.LatencyWords(s.Best, choice.GetPercentile())
		}
		if frontier != nil {
			s.Latency = loadpoint.LatencyWords(frontier.GetMetric(), frontier.GetPercentile())
		}
		for _, v := range r.GetRivals() {
			s.Rivals = append(s.Rivals, Rival{v.GetTarget(), append([]uint32{}, v.GetStages()...), v.Change, v.Low,
				v.High, unlessZero(v.GetDropped())})
		}
		for _, p := range r.GetPoints() {
			s.Points = append(s.Points, pointOf(p, stages))
		}
		for _, l := range r.GetLimits() {
			limit := LoadLimit{Part: unlessZero(l.GetPart()), Kept: l.Kept, Broke: l.Broke,
				Reason: unlessZero(l.GetReason())}
			if l.Kept != nil {
				limit.Stage = new(l.GetStageIndex())
			}
			s.Limits = append(s.Limits, limit)
		}
		out = append(out, s)
	}
	return out
}

// pointOf returns a point with the numbers of its stage, if the ledger has the stage.
func pointOf(r *spatev1.SeriesPoint, stages []StageResult) SeriesPoint {
	p := SeriesPoint{Stage: r.GetStageIndex(), Load: r.GetLoad(), Reason: unlessZero(r.GetBroke()),
		LeftOut: unlessZero(r.GetLeftOut()), Pareto: r.GetPareto(), RequestThroughput: r.Throughput}
	if r.Latency != nil {
		p.LatencyMs = new(1000 * r.GetLatency())
	}
	s := StageAt(stages, p.Stage)
	if s == nil {
		return p
	}
	_, p.OutputTokenThroughput = s.Sustained()
	p.Verdict = unlessZero(s.Trust.Verdict)
	if g := s.Goodput; g != nil {
		p.GoodShare = g.Share
		if r.Throughput != nil && s.Requests.Completed > 0 {
			p.Goodput = new(r.GetThroughput() * float64(g.Requests) / float64(s.Requests.Completed))
		}
	}
	return p
}

// SeriesOf returns the series of a kind, such as loadpoint.Search.
func (r *RunResult) SeriesOf(kind string) (all []*SeriesResult) {
	for i := range r.Series {
		if r.Series[i].Kind == kind {
			all = append(all, &r.Series[i])
		}
	}
	return all
}

// Limit returns the highest load that met the objectives, of the whole. It has no load if there is none.
func (s *SeriesResult) Limit() LoadLimit {
	if len(s.Limits) == 0 {
		return LoadLimit{}
	}
	return s.Limits[0]
}

// Words says what was found, and what was asked: of a search the load first.
func (s *SeriesResult) Words() string {
	asked := s.Kind
	switch s.Kind {
	case loadpoint.Search:
		limits := strings.Join(s.Objectives, ", ")
		if load, rest, found := strings.Cut(s.Sentence, " is within the limits"); found {
			return load + " is within the limits (" + limits + ")" + rest
		}
		asked = "search for the highest load with " + limits
	case loadpoint.Frontier:
		asked = "frontier of throughput in the steady part of each stage against " + s.Latency
	}
	return asked + ": " + s.Sentence
}

// objectives returns objectives in words: "p99 TTFT ≤ 500 ms".
func objectives(o *spatev1.Objectives) []string {
	out := []string{}
	for _, l := range o.GetLatencies() {
		out = append(out, loadpoint.LatencyWords(l.GetMetric(), l.GetPercentile())+" ≤ "+
			loadpoint.Milliseconds(l.GetAtMost().AsDuration()))
	}
	if o != nil && o.ErrorShare != nil {
		out = append(out, "failed requests ≤ "+percent(o.GetErrorShare()))
	}
	if o != nil && o.Goodput != nil {
		out = append(out, "good requests ≥ "+percent(o.GetGoodput()))
	}
	if o.GetEachPart() {
		out = append(out, "in each part of the mixture as well")
	}
	return out
}

// percent formats a share in percent, without the rounding error that a factor of 100 leaves in the last digits.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 12, 64) + " %" }
