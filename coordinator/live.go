package coordinator

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/series"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// live publishes the results of a run in progress: windows and stages to the sinks, progress to followers. Only the
// run's worker uses it.
type live struct {
	run      *run
	lag      *lag
	stage    uint32         // stage in progress
	begun    bool           // a stage has begun
	next     uint32         // first window not published
	arrivals merge.Arrivals // arrivals of the last window published
	bursts   points.Bursts  // of the stage in progress
	viewed   uint32         // value of next when the stage's rules were last checked
	start    clock.Instant  // of the stage in progress; zero until its first window is published
}

// publishWindows publishes the windows that all agents have delivered. With all set, it publishes every window for
// which any snapshot came.
func (l *live) publishWindows(all bool) {
	m, ok := l.current()
	if !ok || m.merged == nil {
		return
	}
	for ; l.next <= m.last && (all || len(m.merged.Waiting(l.next)) == 0); l.next++ {
		l.window(m, l.next)
		m.merged.Forget(l.next)
		l.count(m)
	}
}

// current returns the stage in progress: the assigned stage with the highest index.
func (l *live) current() (measured, bool) {
	l.run.mu.RLock()
	defer l.run.mu.RUnlock()
	for index, m := range l.run.stages {
		if m.merged != nil && (!l.begun || index != l.stage) {
			l.stage, l.begun, l.next, l.arrivals = index, true, m.first, merge.Arrivals{}
			l.viewed, l.start, l.bursts = m.first, 0, points.Bursts{}
		}
	}
	m := l.run.stages[l.stage]
	if !l.begun || m == nil {
		return measured{}, false
	}
	return *m, true
}

// count notes that the window l.next was published.
func (l *live) count(m measured) {
	if l.start == 0 {
		l.start = startInstant(m.record.GetStartTime().AsTime())
	}
	l.lag.window(l.start.Add(time.Duration(l.next+1) * time.Second))
}

// window publishes one window, with the results to date where they are known.
func (l *live) window(m measured, number uint32) {
	l.arrivals = m.merged.Arrivals(number)
	if l.run.sink == sink.Discard {
		return
	}
	view, ok := m.merged.Window(number)
	if !ok {
		return
	}
	var toDate *merge.View
	if v, ok := m.merged.ToDateOf(number); ok {
		toDate = &v
	}
	run, scope := l.run.points(), l.run.points().Scope(m.record.GetStage())
	for _, p := range points.Windows(scope, m.record, view, toDate) {
		l.run.sink.Put(p)
	}
	for _, p := range points.Servers(scope, m.record, view) {
		l.run.sink.Put(p)
	}
	if p, ok := l.bursts.See(run, scope, m.record, view); ok {
		l.run.sink.Put(p)
	}
}

// correct merges a stage that lost an agent again, from the ledger. A snapshot that arrived while the loss was being
// decided may be in the merge, but it does not count in the ledger, from which all reports are made.
func (l *live) correct(m *measured, rec *spatev1.StageRecord) {
	lost := func(a *spatev1.AssignedAgent) bool { return a.GetLoss() != nil }
	if !slices.ContainsFunc(rec.GetAgents(), lost) {
		return
	}
	if merged, err := merge.Replay(l.run.ledger, rec); err == nil {
		m.merged = merged
	} // a ledger that cannot be read ends the run at the next write
}

// end publishes the result of a stage and frees its measurements. It returns the stage's last progress, whether the
// result is complete, and the outcome by which sweeps and searches decide.
func (l *live) end(e lifecycle.CloseStage) (last *spatev1.StageProgress, complete bool, o series.Outcome) {
	rec := e.Record
	index := rec.GetStage().GetIndex()
	m, ok := l.run.stage(index)
	if !ok || m.merged == nil {
		return nil, false, o
	}
	l.correct(&m, rec)
	result, total := results.OfStage(m.merged, rec), m.merged.Total()
	l.publishResult(rec, result, m.merged)
	o = outcomeOf(m.merged, result, rec, e.Keep)
	l.run.forget(index)
	return whole(index, result, total), result.Complete, o
}

// publishResult publishes the result of a stage.
func (l *live) publishResult(rec *spatev1.StageRecord, result results.StageResult, merged *merge.Stage) {
	if l.run.sink == sink.Discard {
		return
	}
	run := l.run.points()
	for _, p := range points.Stage(run.Scope(rec.GetStage()), rec, result, merged.ToDate()) {
		l.run.sink.Put(p)
	}
	for _, p := range points.Starts(run, rec, result) {
		l.run.sink.Put(p)
	}
}

// progress completes the machine's progress with what was merged.
func (l *live) progress(p lifecycle.Progress) *spatev1.RunEvent {
	if m, ok := l.run.stage(p.State.GetStageIndex()); ok && m.merged != nil {
		fill(p.State, m.merged.Total())
		p.State.OutputTokensPerSecond, p.State.FramesPerSecond = l.arrivals.Tokens, l.arrivals.Frames
	}
	return progressAt(p.Time, p.State)
}

// whole returns the last progress of a stage, which covers the whole stage.
func whole(index uint32, result results.StageResult, total merge.Measured) *spatev1.StageProgress {
	state := &spatev1.StageProgress{StageIndex: index}
	fill(state, total)
	if result.DurationS != nil {
		state.Elapsed = durationpb.New(time.Duration(*result.DurationS * float64(time.Second)))
	}
	state.OutputTokensPerSecond = result.OutputTokenThroughput
	return state
}

// fill sets the fields that come from what was merged so far.
func fill(state *spatev1.StageProgress, total merge.Measured) {
	state.Failed = total.Counters.GetFailed()
	state.Completed = total.Counters.GetCompleted() + state.GetFailed()
	state.Ttft = quantiles(total.Summary(spatev1.Metric_METRIC_TTFT))
	state.Tpot = quantiles(total.Summary(spatev1.Metric_METRIC_TPOT))
}

func progressAt(at time.Time, state *spatev1.StageProgress) *spatev1.RunEvent {
	return &spatev1.RunEvent{Time: timestamppb.New(at), Event: &spatev1.RunEvent_StageProgress{StageProgress: state}}
}

// quantiles returns nil if there are no values.
func quantiles(d *histogram.Summary) *spatev1.Quantiles {
	if d == nil {
		return nil
	}
	return &spatev1.Quantiles{P50Ms: d.P50, P99Ms: d.P99}
}
