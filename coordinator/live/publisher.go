// Package live merges what agents measure while a run is in progress, and publishes it: windows and results of stages
// to the sinks, progress to followers, and the outcomes by which rules and searches decide. EventLog has what followers
// get.
//
// It keeps nothing on disk: each snapshot is in the ledger before it is merged, and reports are made from the ledger.
// The coordinator is its only caller.
package live

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/series"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Publisher publishes the results of a run in progress: windows and stages to the sinks, windows and progress to
// followers. One goroutine uses it.
type Publisher struct {
	run    points.Run
	stages *Stages
	sink   sink.Sink
	ledger *ledger.Ledger
	lag    *Lag
	latest *Latest
	tell   func(*spatev1.RunEvent)

	stage    uint32         // stage in progress
	begun    bool           // a stage has begun
	next     uint32         // first window not published
	arrivals merge.Arrivals // arrivals of the last window published
	bursts   points.Bursts  // of the stage in progress
	viewed   uint32         // value of next when the stage's rules were last checked
	start    clock.Instant  // of the stage in progress; zero until its first window is published
}

// NewPublisher returns the publisher of a run's stages, which calls tell with the event of each window. From now on
// latest has this run's stages. The caller closes the sink and the ledger.
func NewPublisher(
	run points.Run, stages *Stages, to sink.Sink, l *ledger.Ledger, lag *Lag, latest *Latest,
	tell func(*spatev1.RunEvent),
) *Publisher {
	latest.follow(run, stages)
	return &Publisher{run: run, stages: stages, sink: to, ledger: l, lag: lag, latest: latest, tell: tell}
}

// Windows publishes the windows that all agents have delivered. With all set, it publishes every window for
// which any snapshot came.
func (p *Publisher) Windows(all bool) {
	m, ok := p.current()
	if !ok || m.merged == nil {
		return
	}
	for ; p.next <= m.last && (all || len(m.merged.Waiting(p.next)) == 0); p.next++ {
		p.window(m, p.next)
		m.merged.Forget(p.next)
		if p.start == 0 { // once, so that later steps of the wall clock do not matter
			p.start = clock.Now().Add(time.Until(m.Record.GetStartTime().AsTime()))
		}
		p.lag.Delay.Store(int64(clock.Now().Sub(p.start.Add(time.Duration(p.next+1) * time.Second))))
		p.lag.Windows.Add(1)
	}
}

// current returns the stage that is being merged or, when its merge has ended, the last one.
func (p *Publisher) current() (Stage, bool) {
	if m, ok := p.stages.inProgress(); ok && (!p.begun || m.index() != p.stage) {
		p.stage, p.begun, p.next, p.arrivals = m.index(), true, m.first, merge.Arrivals{}
		p.viewed, p.start, p.bursts = m.first, 0, points.Bursts{}
	}
	if !p.begun {
		return Stage{}, false
	}
	return p.stages.Get(p.stage)
}

// window publishes one window: to the sink with the results to date where they are known.
func (p *Publisher) window(m Stage, number uint32) {
	p.arrivals = m.merged.Arrivals(number)
	if view, ok := m.merged.WindowWithin(number, mostAgents); ok {
		p.tell(windowEvent(m.Record, view, m.merged.Total(), p.arrivals))
	}
	if p.sink == sink.Discard {
		return
	}
	p.put(points.Window(p.run, m.Record, m.merged, number, &p.bursts))
}

// put passes points on to the sink.
func (p *Publisher) put(all []sink.Point) {
	for _, point := range all {
		p.sink.Put(point)
	}
}

// EndStage publishes the result of a stage and frees its measurements. It returns the stage's last progress, whether
// the result is complete, and the outcome by which sweeps and searches decide. If a snapshot that does not count was
// merged, it merges the stage again from the ledger, of which all reports are made.
func (p *Publisher) EndStage(
	e lifecycle.CloseStage,
) (last *spatev1.StageProgress, complete bool, o series.Outcome, err error) {
	rec := e.Record
	index := rec.GetStage().GetIndex()
	m, ok := p.stages.Get(index)
	if !ok || m.merged == nil {
		return nil, false, o, nil
	}
	if m.merged.HasUncounted(rec) {
		if m.merged, err = merge.Replay(p.ledger, rec, nil); err != nil {
			return nil, false, o, err
		}
	}
	result, total := results.OfStage(m.merged, rec), m.merged.Total()
	if p.sink != sink.Discard {
		p.put(points.EndOfStage(p.run, rec, result, m.merged))
	}
	p.latest.end(p.run, rec, m.merged, result)
	o = outcomeOf(m.merged, result, rec, e.Keep)
	p.stages.forget(index)
	return whole(index, result, total), result.Complete, o, nil
}

// Progress completes the machine's progress with what was merged.
func (p *Publisher) Progress(of lifecycle.Progress) *spatev1.RunEvent {
	if m, ok := p.stages.Get(of.State.GetStageIndex()); ok && m.merged != nil {
		fill(of.State, m.merged.Total())
		of.State.OutputTokensPerSecond, of.State.FramesPerSecond = p.arrivals.Tokens, p.arrivals.Frames
		of.State.CompletedPerSecond = new(p.arrivals.Completed)
	}
	return ProgressEvent(of.Time, of.State)
}

// whole returns the last progress of a stage, which covers the whole stage.
func whole(index uint32, result results.StageResult, total merge.Measured) *spatev1.StageProgress {
	state := &spatev1.StageProgress{StageIndex: index}
	fill(state, total)
	if result.DurationS != nil {
		state.Elapsed = durationpb.New(time.Duration(*result.DurationS * float64(time.Second)))
	}
	state.OutputTokensPerSecond, state.CompletedPerSecond = result.OutputTokenThroughput, result.RequestThroughput
	return state
}

// fill sets the fields that come from what was merged so far.
func fill(state *spatev1.StageProgress, total merge.Measured) {
	state.Failed = total.Counters.GetFailed()
	state.Completed = total.Counters.GetCompleted() + state.GetFailed()
	state.Ttft = quantiles(total.Summary(spatev1.Metric_METRIC_TTFT))
	state.Tpot = quantiles(total.Summary(spatev1.Metric_METRIC_TPOT))
	state.E2E = quantiles(total.Summary(spatev1.Metric_METRIC_E2E))
}

// ProgressEvent returns a progress event.
func ProgressEvent(at time.Time, state *spatev1.StageProgress) *spatev1.RunEvent {
	return &spatev1.RunEvent{Time: timestamppb.New(at), Event: &spatev1.RunEvent_StageProgress{StageProgress: state}}
}

// quantiles returns nil if there are no values.
func quantiles(d *histogram.Summary) *spatev1.Quantiles {
	if d == nil {
		return nil
	}
	return &spatev1.Quantiles{P50Ms: d.P50, P99Ms: d.P99}
}

// mostAgents is the largest number of agents of which a window's event has one by one.
const mostAgents = 32

// shown are the metrics of a window's event.
var shown = []spatev1.Metric{
	spatev1.Metric_METRIC_TTFT, spatev1.Metric_METRIC_E2E, spatev1.Metric_METRIC_TPOT, spatev1.Metric_METRIC_ITL,
}

// windowEvent returns the event of one window. toDate is what the stage measured so far, by which it is judged.
func windowEvent(
	rec *spatev1.StageRecord, view merge.View, toDate merge.Measured, arrivals merge.Arrivals,
) *spatev1.RunEvent {
	w := &spatev1.StageWindow{
		StageIndex: rec.GetStage().GetIndex(), Number: view.Window, PeakInFlight: view.PeakInFlight,
		Whole: partOf(merge.Part{Measured: view.Total}), Errors: view.Total.Errors,
	}
	w.Whole.OutputTokensPerSecond, w.Whole.FramesPerSecond = arrivals.Tokens, arrivals.Frames
	for _, p := range view.Regions {
		if p.Name != "" {
			w.Regions = append(w.Regions, partOf(p))
		}
	}
	w.Agents = lists.Each(view.Agents, partOf)
	judged := results.JudgeToDate(toDate, rec)
	w.Verdict = string(judged.Verdict)
	for _, c := range judged.Checks {
		if c.Verdict != trust.Valid {
			w.Doubts = append(w.Doubts, doubtOf(c))
		}
	}
	end := rec.GetStartTime().AsTime().Add(time.Duration(view.Window+1) * time.Second)
	return &spatev1.RunEvent{Time: timestamppb.New(end), Event: &spatev1.RunEvent_StageWindow{StageWindow: w}}
}

// doubtOf returns a check that did not pass.
func doubtOf(c trust.Check) *spatev1.Doubt {
	d := &spatev1.Doubt{Check: c.Name, Words: c.Words}
	if c.Remedy != nil {
		d.Remedy = *c.Remedy
	}
	return d
}

// partOf returns what a part of a stage measured in a window.
func partOf(p merge.Part) *spatev1.WindowPart {
	c := p.Measured.Counters
	seconds := max(p.Measured.Windows, 1)
	part := &spatev1.WindowPart{
		Name: p.Name, Region: p.Region, Seconds: seconds,
		Started: c.GetStarted(), Completed: c.GetCompleted(), Failed: c.GetFailed(),
		FramesPerSecond: float64(c.GetFrames()) / float64(seconds),
	}
	if c.GetUncountedFrames() == 0 {
		part.OutputTokensPerSecond = new(float64(c.GetTokensArrived()) / float64(seconds))
	}
	for _, s := range p.Measured.Summaries {
		if slices.Contains(shown, s.Metric) {
			part.Distributions = append(part.Distributions, &spatev1.WindowDistribution{
				Metric: measure.Of(s.Metric).Name, Count: s.Count, Mean: s.Mean, P50: s.P50, P90: s.P90, P99: s.P99,
				Max: s.Max,
			})
		}
	}
	return part
}
