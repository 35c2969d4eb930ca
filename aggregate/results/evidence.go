package results

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
	"github.com/spate-load/spate/workload/content"
)

// JudgeToDate judges what was measured in a stage so far. It leaves out checks that need the end of the stage.
func JudgeToDate(m merge.Measured, rec *spatev1.StageRecord) trust.Trust {
	return trust.Judge(evidenceOf(m, rec))
}

// trustOf judges a stage's result. A stage in progress is judged by what is known so far.
func (s sums) trustOf(rec *spatev1.StageRecord, r *StageResult) trust.Trust {
	e := evidenceOf(s.Total.Measured(), rec)
	e.Ended, e.Missing = rec.GetEnded(), r.Missing
	e.AgentLost, e.Reassigned = s.lostAgent(rec), rec.GetStage().GetOnAgentLoss() == "reassign"
	e.Values = s.Total.Values
	e.NeverSent, e.AfterFailure = r.Requests.NeverSent, r.Requests.AfterFailure
	if c := steadyConcurrency(rec.GetStage()); c != nil {
		e.Closed = &trust.Closed{Concurrency: *c}
	}
	e.Open, e.PeakTokens = openOf(rec.GetStage(), r.Arrivals), r.PeakOutputTokenThroughput
	if e.CachedShare == nil && r.ServerAccount != nil {
		e.CachedShare = r.ServerAccount.CachedShare
	}
	if r.PeakConcurrency != nil {
		e.PeakConcurrency = &r.PeakConcurrency.Requests
	}
	for _, endpoint := range r.Endpoints {
		e.Endpoints = append(e.Endpoints, endpoint.Requests.Started)
	}
	e.Models = answeredBy(r)
	for _, a := range r.Agents {
		if a.StartErrorMs != nil && a.ClockUncertaintyMs != nil {
			e.Starts = append(e.Starts, math.Abs(*a.StartErrorMs)+*a.ClockUncertaintyMs)
		}
	}
	return trust.Judge(e)
}

// answeredBy returns the models that answers named, for each part of a mixture, whose parts can ask for different
// models.
func answeredBy(r *StageResult) (all [][]trust.AnsweredBy) {
	lists := [][]AnswerModel{r.AnswerModels}
	if len(r.Parts) > 0 {
		lists = nil
		for _, p := range r.Parts {
			lists = append(lists, p.AnswerModels)
		}
	}
	for _, list := range lists {
		var named []trust.AnsweredBy
		for _, m := range list {
			named = append(named, trust.AnsweredBy{Name: m.Name, Requests: m.Requests, MeanE2EMs: m.MeanE2EMs})
		}
		if named != nil {
			all = append(all, named)
		}
	}
	return all
}

// lostAgent reports whether an agent of a stage that started was lost. If the loss failed the run, the ledger has no
// loss, only an agent that failed without totals: one that ended early by itself has totals.
func (s sums) lostAgent(rec *spatev1.StageRecord) bool {
	return rec.GetStartTime() != nil && slices.ContainsFunc(rec.GetAgents(), func(a *spatev1.AssignedAgent) bool {
		agent := s.Agent(a)
		return agent.Loss != nil || agent.Totals == nil && a.GetFailure() != ""
	})
}

// openOf compares the rate of an open loop with the rate of its plan. It returns nil for other loads: closed loops,
// traces, phases, and sessions, whose rate is not the rate of their requests.
func openOf(stage *spatev1.Stage, arrivals *ArrivalTime) *trust.Open {
	load := stage.GetLoad()
	if arrivals == nil || load.GetRate() <= 0 || len(load.GetPhases()) > 0 ||
		content.PlaysSessions(stage.GetWorkload()) {
		return nil
	}
	return &trust.Open{Asked: load.GetRate(), Achieved: arrivals.Rate, Shape: schedule.GapShape(load)}
}

// steadyConcurrency returns the number of requests that a closed loop must have in flight all the time. It returns nil
// for other loads, and for closed loops that have fewer in flight by plan: those with phases or think time, and those
// with fewer requests, or sessions, than slots.
func steadyConcurrency(stage *spatev1.Stage) *uint64 {
	load := stage.GetLoad()
	asked := uint64(load.GetConcurrency())
	switch {
	case asked == 0, len(load.GetPhases()) > 0, load.GetThinkTime() != nil, thinks(stage.GetWorkload()):
		return nil
	case load.GetRequests() > 0 && load.GetRequests()+load.GetWarmupRequests() < asked:
		return nil
	}
	return &asked
}

// thinks reports whether a workload's sessions pause between their turns.
func thinks(w *spatev1.Workload) bool {
	return slices.ContainsFunc(content.Parts(w), func(part *spatev1.Workload) bool {
		play, _ := content.Play(part)
		return play.GetThinkTime() != nil
	})
}

// evidenceOf returns the evidence that is already known while a stage is in progress.
func evidenceOf(m merge.Measured, rec *spatev1.StageRecord) trust.Evidence {
	c := m.Counters
	cache := prefixCacheOf(c)
	e := trust.Evidence{
		Counts:      measure.CountsOf(c),
		Whole:       !defaults.Streams(rec.GetStage().GetTarget()),
		MaxInFlight: rec.GetStage().GetLoad().GetMaxInFlight(),
		SharedShare: cache.SharedShare, CachedShare: cache.CachedShare, Errors: m.Errors,
		CacheBusting:   rec.GetStage().GetWorkload().GetCacheBusting() == "request",
		NewConnections: rec.GetStage().GetTarget().GetConnection().GetReuse() == "new",
	}
	for _, a := range rec.GetAgents() {
		if p := a.GetPreparation(); p != nil {
			e.ExactOutput = new(p.GetExactOutput()) // the same for all agents
			e.TemplateTokens = max(e.TemplateTokens, p.GetTemplateTokens())
		}
	}
	for i := range m.Summaries {
		e.Summaries[m.Summaries[i].Metric] = &m.Summaries[i].Summary
	}
	return e
}

// Marks of numbers in tables.
const (
	// Doubted: a check of the verdict touches the number.
	Doubted = "!"
	// OfFew: fewer than ten values lie beyond the percentile.
	OfFew = "*"
)

// Number returns a number of the stage by its name in results.json: "ttft_ms.p99", "request_throughput", "goodput.share".
// Nil: it is not known.
func (r *StageResult) Number(name string) *float64 {
	switch name {
	case "request_throughput":
		return r.RequestThroughput
	case "output_token_throughput":
		return r.OutputTokenThroughput
	case "total_token_throughput":
		return r.TotalTokenThroughput
	case "goodput.share":
		if r.Goodput == nil {
			return nil
		}
		return r.Goodput.Share
	}
	return r.Latencies.Number(name)
}

// Number returns a statistic of a main latency by its name in results.json: "ttft_ms.p99". Nil: it is not known.
func (l *Latencies) Number(name string) *float64 {
	metric, statistic, _ := strings.Cut(name, ".")
	return l.Latency(metric).At(statistic)
}

// Latency returns a main latency by its name in results.json, or nil.
func (l *Latencies) Latency(name string) *histogram.Summary {
	switch name {
	case "ttft_ms":
		return l.TTFT
	case "tpot_ms":
		return l.TPOT
	case "itl_ms":
		return l.ITL
	case "e2e_ms":
		return l.E2E
	}
	return nil
}

// Mark returns the mark of a number, by its name in results.json: "ttft_ms.p99", "request_throughput". "": it has none.
func (r *StageResult) Mark(number string) string { return r.MarkIn(&r.Latencies, number) }

// MarkIn is Mark for a number of a part of the stage, whose latencies are given: what doubts a number of the stage
// doubts that of its parts.
func (r *StageResult) MarkIn(part *Latencies, number string) string {
	metric, statistic, _ := strings.Cut(number, ".")
	switch {
	case r.Trust.Doubts(number):
		return Doubted
	case part.Latency(metric).FewAt(statistic) != nil:
		return OfFew
	}
	return ""
}

// FewWords says of how many values a percentile of some latencies is, and their 95 % confidence intervals, if one of
// them is of few values: "p99 of 10 requests: E2E from 320.10, TTFT 4.40 to 9.12 ms". "": none is.
func (r *StageResult) FewWords(percentile string) string {
	var list []string
	count := uint64(0)
	for _, l := range []struct {
		name string
		s    *histogram.Summary
	}{{"E2E", r.E2E}, {"TTFT", r.TTFT}, {"TPOT", r.TPOT}} {
		f := l.s.FewAt(percentile)
		if f == nil {
			continue
		}
		var ends []string
		switch {
		case f.Low == nil && f.High == nil:
			ends = []string{"unknown"}
		case f.High == nil:
			ends = []string{"from", fmt.Sprintf("%.2f", *f.Low)}
		case f.Low == nil:
			ends = []string{"to", fmt.Sprintf("%.2f", *f.High)}
		default:
			ends = []string{fmt.Sprintf("%.2f", *f.Low), "to", fmt.Sprintf("%.2f", *f.High)}
		}
		count = max(count, l.s.Count)
		list = append(list, strings.Join(slices.Concat([]string{l.name}, ends), " "))
	}
	if list == nil {
		return ""
	}
	return fmt.Sprintf("%s of %d requests, 95 %% confidence: %s ms", percentile, count, strings.Join(list, ", "))
}
