package live

import (
	"strings"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// View returns what the machine needs to check the rules of the stage in progress. It returns false if the stage has no
// rules or if no window was completed since the last call: rules are checked once per window, after all agents have
// delivered the window.
func (p *Publisher) View() (lifecycle.View, bool) {
	m, ok := p.current()
	if !ok || m.merged == nil || p.next == p.viewed {
		return lifecycle.View{}, false
	}
	p.viewed = p.next
	load := m.Record.GetStage().GetLoad()
	if !m.Record.GetStage().GetFailFast() && load.GetAbort() == nil && load.GetUntil() == nil &&
		load.GetWarmupUntilSteady() == nil {
		return lifecycle.View{}, false
	}
	c := m.merged.Counters()
	v := lifecycle.View{
		StageIndex: p.stage, Ended: c.GetCompleted() + c.GetFailed(), Failed: c.GetFailed(),
		Percentile: percentile(m.merged, load.GetUntil()),
	}
	if load.GetWarmupUntilSteady() != nil && m.Record.MeasuredFromNs == nil {
		v.Frames = m.merged.UnmeasuredFrames(p.next-min(p.next, lifecycle.SteadyWindows), p.next)
	}
	return v, true
}

// percentile returns the interval of the percentile that a precision rule names, nil if it is not known.
func percentile(s *merge.Stage, until *spatev1.Precision) *lifecycle.Interval {
	if until == nil {
		return nil
	}
	i, ok := s.Interval(series.Metric(until.GetMetric()), until.GetPercentile(), until.GetConfidence())
	if !ok {
		return nil
	}
	return &lifecycle.Interval{Value: i.Value, Low: i.Low, High: i.High, Count: i.Count}
}

// outcomeOf returns the outcome by which series decide.
func outcomeOf(
	s *merge.Stage, r results.StageResult, rec *spatev1.StageRecord, keep *spatev1.Objectives,
) series.Outcome {
	o := series.Outcome{
		Completed: r.Requests.Completed, Failed: r.Requests.Failed, Cancelled: r.Requests.Cancelled,
		Good: s.Counters().GetGood(), Target: r.Target,
	}
	o.Middle, _ = r.Middle()
	o.Throughput, o.OutputThroughput = r.Sustained()
	o.Short = r.Load.Concurrency != nil && r.Steady == nil
	o.Fault = faultOf(r)
	o.Verdict, o.Doubts, o.Unmeasured = string(r.Trust.Verdict), strings.Join(r.Trust.Reasons(), "; "),
		r.Trust.Unmeasured()
	if n, broken := r.Requests.NeverSent, r.Requests.AfterFailure; n != nil && broken != nil && rec.GetEnough() == "" {
		o.NeverSent = *n - min(*broken, *n)
	}
	for _, limit := range keep.GetLatencies() {
		metric := series.Metric(limit.GetMetric())
		o.Latencies = append(o.Latencies, known(s.Latency(metric, limit.GetPercentile())))
		o.Fastest = append(o.Fastest, known(s.Latency(metric, series.FastestPercentile)))
	}
	if keep.GetEachPart() {
		s.Read(rec, func(sums *merge.Sums) { o.Parts = partsOf(sums, rec, keep) })
	}
	if f, ok := s.Flow(); ok {
		o.Backlog = backlog(f, rec.GetStage())
	}
	return o
}

// known returns a value if it is known, else nil.
func known(v time.Duration, ok bool) *time.Duration {
	if !ok {
		return nil
	}
	return &v
}

// partsOf returns what a search with objectives for each part of a mixture needs of the parts.
func partsOf(sums *merge.Sums, rec *spatev1.StageRecord, keep *spatev1.Objectives) (parts []series.Outcome) {
	for i, t := range sums.Parts {
		o := series.Outcome{
			Name:      rec.GetStage().GetWorkload().GetMix().GetParts()[i].GetWorkload().GetName(),
			Completed: t.Counters.GetCompleted(), Failed: t.Counters.GetFailed(), Cancelled: t.Counters.GetCancelled(),
			Good: t.Counters.GetGood(),
		}
		for _, limit := range keep.GetLatencies() {
			o.Latencies = append(o.Latencies, known(t.Latency(series.Metric(limit.GetMetric()), limit.GetPercentile())))
		}
		parts = append(parts, o)
	}
	return parts
}

// Outcome merges a stage that an earlier coordinator ended again, from the ledger, and returns the outcome by which
// series decide.
func Outcome(l *ledger.Ledger, rec *spatev1.StageRecord, keep *spatev1.Objectives) (series.Outcome, error) {
	merged, err := merge.Replay(l, rec, nil)
	if err != nil {
		return series.Outcome{}, err
	}
	o := outcomeOf(merged, results.OfStage(merged, rec), rec, keep)
	o.Aborted = lifecycle.AbortReason(rec)
	return o, nil
}

// faultOf returns the most frequent error class of a stage's requests, with an example if there is one.
func faultOf(r results.StageResult) string {
	most := r.MostFrequentError()
	if example := r.ErrorExamples[most]; example != "" {
		return most + ": " + example
	}
	return most
}

// backlog compares a stage's flow with the requests that its load asks for. A rate of sessions does not determine the
// rate of requests, because a session starts its next request only when the last one has ended. For sessions, the
// requests due are therefore the requests that started.
func backlog(f merge.Flow, st *spatev1.Stage) *series.Backlog {
	b := &series.Backlog{Level: f.Level, InFlight: f.InFlight, Started: f.Started, Ended: f.Ended, Seconds: f.Seconds}
	b.Due = st.GetLoad().GetRate() * f.Seconds
	if content.PlaysSessions(st.GetWorkload()) {
		b.Due = float64(f.Started)
	}
	return b
}
