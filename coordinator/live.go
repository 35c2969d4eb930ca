package coordinator

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// live shows a run while it goes on: windows and stages to the sinks, progress to followers. Only the run's worker uses
// it.
type live struct {
	run      *run
	shown    *shown
	stage    uint32             // stage in progress
	begun    bool               // there is one
	next     uint32             // first window not shown
	arrivals aggregate.Arrivals // of the last window shown
	bursts   points.Bursts      // of the stage in progress
	viewed   uint32             // windows shown when the stage's rules were last looked at
	start    clock.Instant      // of the stage in progress; zero until its first window is shown
}

// show hands on the windows that all agents have delivered, or all that anything came from.
func (l *live) show(all bool) {
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

// current returns the stage in progress: the highest that has been assigned.
func (l *live) current() (measured, bool) {
	l.run.mu.RLock()
	defer l.run.mu.RUnlock()
	for index, m := range l.run.stages {
		if m.merged != nil && (!l.begun || index != l.stage) {
			l.stage, l.begun, l.next, l.arrivals = index, true, m.first, aggregate.Arrivals{}
			l.viewed, l.start, l.bursts = m.first, 0, points.Bursts{}
		}
	}
	m := l.run.stages[l.stage]
	if !l.begun || m == nil {
		return measured{}, false
	}
	return *m, true
}

// count notes when the next window was handed on.
func (l *live) count(m measured) {
	if l.start == 0 {
		l.start = startInstant(m.record.GetStartTime().AsTime())
	}
	l.shown.window(l.start.Add(time.Duration(l.next+1) * time.Second))
}

// window hands on one window, with what came to date where that is known.
func (l *live) window(m measured, number uint32) {
	l.arrivals = m.merged.Arrivals(number)
	if l.run.sink == sink.Discard {
		return
	}
	view, ok := m.merged.Window(number)
	if !ok {
		return
	}
	var toDate *aggregate.View
	if v, ok := m.merged.ToDateOf(number); ok {
		toDate = &v
	}
	run, scope := l.run.points(), l.run.points().Scope(m.record.GetStage())
	for _, p := range points.Windows(scope, m.record, view, toDate) {
		l.run.sink.Window(p)
	}
	for _, p := range points.Servers(scope, m.record, view) {
		l.run.sink.Server(p)
	}
	if p, ok := l.bursts.See(run, scope, m.record, view); ok {
		l.run.sink.Event(p)
	}
}

// correct merges a stage anew that lost an agent: what came of it while that was decided may stand in the merge, but
// not in the ledger's account, which every report is made from.
func (l *live) correct(m *measured, rec *spatev1.StageRecord) {
	lost := func(a *spatev1.AssignedAgent) bool { return a.GetLoss() != nil }
	if !slices.ContainsFunc(rec.GetAgents(), lost) {
		return
	}
	if merged, err := aggregate.Replay(l.run.ledger, rec); err == nil {
		m.merged = merged
	} // else the ledger cannot be read, and the next write to it ends the run
}

// end hands on the result of a stage and lets go of its measurements. It returns the stage's last progress, whether the
// result is complete, and what sweeps and searches go on by.
func (l *live) end(e lifecycle.CloseStage) (last *spatev1.StageProgress, complete bool, o series.Outcome) {
	rec := e.Record
	index := rec.GetStage().GetIndex()
	m, ok := l.run.stage(index)
	if !ok || m.merged == nil {
		return nil, false, o
	}
	l.correct(&m, rec)
	result, total := m.merged.Result(rec), m.merged.Total()
	l.hand(rec, result, m.merged)
	o = outcomeOf(m.merged, result, rec, e.Keep)
	l.run.forget(index)
	return whole(index, result, total), result.Complete, o
}

// hand hands on the result of a stage.
func (l *live) hand(rec *spatev1.StageRecord, result aggregate.StageResult, merged *aggregate.Stage) {
	if l.run.sink == sink.Discard {
		return
	}
	run := l.run.points()
	for _, p := range points.Stage(run.Scope(rec.GetStage()), rec, result, merged.ToDate()) {
		l.run.sink.Stage(p)
	}
	for _, p := range points.Starts(run, rec, result) {
		l.run.sink.Agent(p)
	}
}

// progress fills in what was merged.
func (l *live) progress(p lifecycle.Progress) *spatev1.RunEvent {
	if m, ok := l.run.stage(p.State.GetStageIndex()); ok && m.merged != nil {
		fill(p.State, m.merged.Total())
		p.State.OutputTokensPerSecond, p.State.FramesPerSecond = l.arrivals.Tokens, l.arrivals.Frames
	}
	return progressAt(p.Time, p.State)
}

// whole is the last progress of a stage: all of it, over its whole length.
func whole(index uint32, result aggregate.StageResult, total aggregate.Measured) *spatev1.StageProgress {
	state := &spatev1.StageProgress{StageIndex: index}
	fill(state, total)
	if result.DurationS != nil {
		state.Elapsed = durationpb.New(time.Duration(*result.DurationS * float64(time.Second)))
	}
	state.OutputTokensPerSecond = result.OutputTokenThroughput
	return state
}

// fill fills in what was merged so far.
func fill(state *spatev1.StageProgress, total aggregate.Measured) {
	state.Failed = total.Counters.GetFailed()
	state.Completed = total.Counters.GetCompleted() + state.GetFailed()
	state.Ttft = quantiles(total.Distribution(spatev1.Metric_METRIC_TTFT))
	state.Tpot = quantiles(total.Distribution(spatev1.Metric_METRIC_TPOT))
}

func progressAt(at time.Time, state *spatev1.StageProgress) *spatev1.RunEvent {
	return &spatev1.RunEvent{Time: timestamppb.New(at), Event: &spatev1.RunEvent_StageProgress{StageProgress: state}}
}

// quantiles are unset if there are no values.
func quantiles(d *aggregate.Distribution) *spatev1.Quantiles {
	if d == nil {
		return nil
	}
	return &spatev1.Quantiles{P50Ms: d.P50, P99Ms: d.P99}
}
