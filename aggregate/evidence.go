package aggregate

import (
	"math"

	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TrustToDate judges what was measured of a stage so far, as a whole. What only a stage's end shows is not judged.
func TrustToDate(m Measured, rec *spatev1.StageRecord) trust.Trust {
	return trust.Judge(evidenceOf(m, rec))
}

// trustOf judges a stage's result. A stage that goes on is judged as one to date.
func (s *Stage) trustOf(rec *spatev1.StageRecord, r *StageResult) trust.Trust {
	e := evidenceOf(s.total.measured(), rec)
	e.Ended, e.Missing = rec.GetEnded(), r.Missing
	e.Requests.NeverSent = r.Requests.NeverSent
	if c := steadyConcurrency(rec.GetStage()); c != nil {
		e.Closed = &trust.Closed{Concurrency: *c}
	}
	e.Open, e.Hiccup, e.PeakTokens = openOf(rec.GetStage(), r.Arrivals), s.hiccup(), r.PeakOutputTokenThroughput
	if e.CachedShare == nil && r.ServerAccount != nil {
		e.CachedShare = r.ServerAccount.CachedShare
	}
	if r.PeakConcurrency != nil {
		e.PeakConcurrency = &r.PeakConcurrency.Requests
	}
	for _, endpoint := range r.Endpoints {
		e.Endpoints = append(e.Endpoints, endpoint.Requests.Started)
	}
	for _, a := range r.Agents {
		if a.StartErrorMs != nil && a.ClockUncertaintyMs != nil {
			e.Starts = append(e.Starts, math.Abs(*a.StartErrorMs)+*a.ClockUncertaintyMs)
		}
	}
	return trust.Judge(e)
}

// openOf compares the rate of an open loop with the one asked for, nil if the load is another: one of phases, a trace,
// or one of sessions, whose rate is not that of their requests.
func openOf(stage *spatev1.Stage, arrivals *ArrivalTime) *trust.Open {
	load := stage.GetLoad()
	if arrivals == nil || load.GetRate() <= 0 || len(load.GetPhases()) > 0 || plans.PlaysSessions(stage.GetWorkload()) {
		return nil
	}
	open := &trust.Open{Asked: load.GetRate(), Achieved: arrivals.Rate}
	switch load.GetArrival() {
	case "poisson":
		open.Shape = 1
	case "gamma":
		open.Shape = load.GetBurstiness()
	}
	return open
}

// hiccup is the second in which most frames came in one read with the one before, nil if that cannot be known.
func (s *Stage) hiccup() *trust.Hiccup {
	if s.total.counters.GetUnstampedFrames() > 0 {
		return nil
	}
	h := &trust.Hiccup{}
	for number, w := range s.windows {
		together := w.frames - min(w.frames, w.lags)
		h.All += together
		if together > h.Here || together == h.Here && number < h.Second {
			h.Here, h.Second = together, number
		}
	}
	return h
}

// steadyConcurrency is the number of requests that a closed loop is to have in flight all the time. Nil: it is another
// load, or one that has fewer in flight by its plan, since somebody thinks in between or there are not as many
// requests, or sessions, as slots.
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

// thinks says whether a workload's sessions pause between their turns.
func thinks(w *spatev1.Workload) bool {
	for _, play := range []*spatev1.SessionPlay{w.GetSessions().GetPlay(), w.GetSharegpt().GetSessions(),
		w.GetJsonl().GetSessions()} {
		if play.GetThinkTime() != nil {
			return true
		}
	}
	return false
}

// evidenceOf gathers what is known while a stage goes on, too.
func evidenceOf(m Measured, rec *spatev1.StageRecord) trust.Evidence {
	c := m.Counters
	cache := prefixCacheOf(c)
	times := func(metric spatev1.Metric) *trust.Times {
		d := m.Distribution(metric)
		if d == nil {
			return nil
		}
		return &trust.Times{Count: d.Count, Mean: d.Mean, Std: d.Std, P50: d.P50, P95: d.P95, P99: d.P99}
	}
	return trust.Evidence{
		Requests:       trust.Requests{Started: c.GetStarted(), Completed: c.GetCompleted(), Failed: c.GetFailed()},
		SendDelay:      times(spatev1.Metric_METRIC_SEND_DELAY),
		ReceiveLag:     times(spatev1.Metric_METRIC_RECEIVE_LAG),
		TTFT:           times(spatev1.Metric_METRIC_TTFT),
		TPOT:           times(spatev1.Metric_METRIC_TPOT),
		ITL:            times(spatev1.Metric_METRIC_ITL),
		E2E:            times(spatev1.Metric_METRIC_E2E),
		StartGap:       times(spatev1.Metric_METRIC_START_GAP),
		TokensPerFrame: times(spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME),
		Streams: trust.Streams{
			Frames: c.GetFrames(), CoalescedReads: c.GetCoalescedReads(), UnstampedFrames: c.GetUnstampedFrames(),
			Whole: c.GetWholeAnswers(), InOneFrame: c.GetInOneFrame(), InOneRead: c.GetInOneRead(),
			Undecided:    c.GetUndecided(),
			OutputTokens: c.GetOutputTokens(), TokenFrames: c.GetTokenFrames(), TextBytes: c.GetTextBytes(),
			HiddenReasoning: c.GetHiddenReasoningTokens(), HeadTokens: c.GetHeadTokens(),
			WithHead: c.GetWithHeadTokens(),
		},
		Lengths: trust.Lengths{
			ISLMissed: c.GetIslMissed(), ISLFar: c.GetIslFar(), ISLCompared: c.GetIslCompared(),
			OSLMissed:    c.GetOslMissed(),
			WithoutUsage: c.GetWithoutUsage(), Exact: exactOutput(rec),
		},
		SharedShare: cache.SharedShare,
		CachedShare: cache.CachedShare,
	}
}

// exactOutput says whether all agents asked for outputs of exact length, nil if none said.
func exactOutput(rec *spatev1.StageRecord) *bool {
	var exact *bool
	for _, a := range rec.GetAgents() {
		if p := a.GetPreparation(); p != nil {
			all := p.GetExactOutput() && (exact == nil || *exact)
			exact = &all
		}
	}
	return exact
}
