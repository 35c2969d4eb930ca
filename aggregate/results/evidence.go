package results

import (
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/trust"
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
	if rec.GetFailure() == "" { // else that is why requests were never sent
		e.NeverSent, e.AfterFailure = r.Requests.NeverSent, r.Requests.AfterFailure
	}
	if c := steadyConcurrency(rec.GetStage()); c != nil {
		e.Closed = &trust.Closed{Concurrency: *c, Lowered: r.Lowered()}
	}
	e.Open, e.PeakTokens = s.open(rec, r.Arrivals), r.PeakOutputTokenThroughput
	if e.CachedShare == nil && r.ServerAccount != nil {
		e.CachedShare = r.ServerAccount.CachedShare
	}
	e.Seconds = s.steadySeconds(r.Steady, e.Open != nil)
	if r.PeakConcurrency != nil {
		e.PeakConcurrency = &r.PeakConcurrency.Requests
	}
	for _, endpoint := range r.Endpoints {
		e.Endpoints = append(e.Endpoints, endpoint.Requests.Started)
		if c := endpoint.Canaries; c != nil {
			_, name, _ := strings.Cut(endpoint.URL, "://")
			e.Canaries = append(e.Canaries, trust.Canaries{Endpoint: name, Asked: c.Load.Asked,
				Differing: c.Load.Differing, QuietAsked: c.Quiet.Asked, QuietDiffering: c.Quiet.Differing,
				QuietTasks: c.Quiet.Tasks, QuietRight: c.Quiet.Right})
		}
	}
	e.Models = answeredBy(r, rec.GetStage().GetWorkload().GetMix())
	for _, a := range r.Agents {
		if a.StartErrorMs != nil && a.ClockUncertaintyMs != nil {
			e.Starts = append(e.Starts, math.Abs(*a.StartErrorMs)+*a.ClockUncertaintyMs)
		}
	}
	return trust.Judge(e)
}

// answeredBy returns the models that answers named, for each part of a mixture, whose parts can ask for different
// models. A part that asks for several itself is left out.
func answeredBy(r *StageResult, mix *spatev1.Mixture) (all [][]trust.AnswerModel) {
	if len(r.Parts) == 0 && len(r.AnswerModels) > 0 {
		return [][]trust.AnswerModel{r.AnswerModels}
	}
	for i, p := range r.Parts {
		if mix.GetParts()[i].GetModels() == nil && len(p.AnswerModels) > 0 {
			all = append(all, p.AnswerModels)
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

// open compares the rate of an open loop with the rate of its plan. It returns nil for other loads: closed loops,
// traces, phases, and sessions, whose rate is not the rate of their requests.
func (s sums) open(rec *spatev1.StageRecord, arrivals *ArrivalTime) *trust.Open {
	load := rec.GetStage().GetLoad()
	if arrivals == nil || load.GetRate() <= 0 || len(load.GetPhases()) > 0 ||
		content.PlaysSessions(rec.GetStage().GetWorkload()) {
		return nil
	}
	o := &trust.Open{Asked: load.GetRate(), Achieved: arrivals.Rate, Shape: schedule.GapShape(load)}
	if f, ok := s.Flow(); ok && rec.GetEnded() {
		o.Flow = &f
	}
	return o
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
		CacheBusting: rec.GetStage().GetWorkload().GetCacheBusting() == "request",
	}
	for _, a := range rec.GetAgents() {
		if p := a.GetPreparation(); p != nil {
			e.ExactOutput = new(p.GetExactOutput()) // the same for all agents
			e.Uncounted = p.GetLengths() == "words" && rec.GetStage().GetTarget().GetTokenizer() == "auto"
			e.TemplateTokens = max(e.TemplateTokens, p.GetTemplateTokens())
		}
	}
	for i := range m.Summaries {
		e.Summaries[m.Summaries[i].Metric] = &m.Summaries[i].Summary
	}
	return e
}
