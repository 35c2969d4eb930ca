package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/series"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// nextStage begins the next stage that can run, or the pause before it, or ends the run.
func (r *Run) nextStage(at clock.Instant) {
	r.stage = nil
	for r.fatal == "" && !r.stopped {
		st := r.upcoming(at)
		if st == nil {
			break
		}
		if reason, dead := r.dead[st.GetTarget().GetName()]; dead {
			r.skip(at, st, reason)
			continue
		}
		r.pending = st
		if slices.ContainsFunc(r.plan, func(st *spatev1.Stage) bool { return st.GetBlock() > 0 }) {
			r.awaitServer(at)
			return
		}
		r.pauseOrBegin(at)
		return
	}
	r.finish(at)
}

// serverLate is how much later than it may be ready the word of a server may come.
const serverLate = 2 * time.Minute

// awaitServer waits until the client that submitted the run says that the server of the pending stage is ready.
func (r *Run) awaitServer(at clock.Instant) {
	target := r.pending.GetTarget()
	r.phase, r.resume, r.unsaved = serving, at.Add(target.GetReady().GetWithin().AsDuration()+serverLate), true
	r.emit(at, &spatev1.RunEvent{Event: &spatev1.RunEvent_ServerWanted{ServerWanted: &spatev1.ServerWanted{
		StageIndex: r.begun, Target: target.GetName(), Block: r.pending.GetBlock()}}})
}

// ServerReported handles what the client says of the server of a stage: that it is ready, or why it cannot be used. The
// stages of its target are then skipped, or the run ends, as its plan says.
func (r *Run) ServerReported(at clock.Instant, q *spatev1.ReportServerRequest) {
	waits, stage, failure := r.phase == serving || r.phase == pausing, q.GetStageIndex(), q.GetFailure()
	switch {
	case waits && stage == r.begun && failure != "":
		r.leaveOut(at, failure)
	case r.phase == serving && stage == r.begun:
		r.pending.ServerNotes = q.GetNotes()
		r.pauseOrBegin(at)
	case r.phase.inStage() && r.phase != closing && stage == r.stage.ref.GetStageIndex() && failure != "":
		r.failAssignment(at, spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD, failure)
	}
}

// leaveOut skips the pending stage because its server cannot be used.
func (r *Run) leaveOut(at clock.Instant, failure string) {
	st := r.pending
	r.pending = nil
	r.notice(at, spatev1.Severity_SEVERITY_ERROR, "%s", failure)
	r.dead[st.GetTarget().GetName()] = failure
	if r.series != nil {
		r.series.steps.End(failure)
	}
	r.skip(at, st, failure)
	if st.GetTarget().GetServer().GetOnStartFailure() == "fail" {
		r.fatal = failure
	}
	r.nextStage(at)
}

// pauseOrBegin begins the pending stage, or the pause before it.
func (r *Run) pauseOrBegin(at clock.Instant) {
	if pause := r.pending.GetPause().AsDuration(); pause > 0 && r.begun > 0 {
		r.phase, r.resume, r.unsaved = pausing, at.Add(pause), true
		return
	}
	r.beginPending(at)
}

// beginPending begins the pending stage, or ends the run if there are no agents for it.
func (r *Run) beginPending(at clock.Instant) {
	if why := r.updateRoster(at, r.pending); why != "" {
		r.fatal, r.incomplete = why, true
		r.finish(at)
		return
	}
	st := r.pending
	r.pending = nil
	r.count(st)
	r.assign(at, st, 1)
}

// count gives a stage its index in the run.
func (r *Run) count(st *spatev1.Stage) {
	st.Index = r.begun
	r.begun++
}

// skip records a stage as skipped.
func (r *Run) skip(at clock.Instant, st *spatev1.Stage, reason string) {
	reason = "skipped: " + reason
	r.count(st)
	r.incomplete = true
	r.do(PutStage{&spatev1.StageRecord{Stage: st, Failure: reason, Ended: true}})
	r.emitEnded(at, &spatev1.StageEnded{StageIndex: st.GetIndex(), Failure: reason})
}

// upcoming returns the next stage to begin, without its index: the next stage of the series in progress, or else of the
// plan. It returns nil at the end. A template of a dead target is returned as it is, to be skipped.
func (r *Run) upcoming(at clock.Instant) *spatev1.Stage {
	for {
		if r.series != nil {
			if step, ok := r.series.steps.Next(); ok {
				return r.series.stage(step)
			}
			r.concludeSeries(at)
		}
		if r.next == len(r.plan) {
			return nil
		}
		st := r.plan[r.next]
		e := r.seriesOf(st)
		if r.next += max(1, len(e.templates)); e.steps == nil {
			return clone(st)
		}
		for _, t := range e.templates {
			if why, dead := r.dead[t.GetTarget().GetName()]; dead && len(e.templates) == 1 {
				return clone(st)
			} else if dead {
				e.steps.Drop(t.GetTarget().GetName(), why)
			}
		}
		e.number, r.series = r.begunSeries, e
		r.begunSeries++
	}
}

// seriesOf returns the series of a template of the plan: the templates of a choice's targets have the same seed. It has
// no steps if the stage is not a template.
func (r *Run) seriesOf(st *spatev1.Stage) *activeSeries {
	e := &activeSeries{templates: []*spatev1.Stage{st}}
	if st.GetLoad().GetChoose() != nil {
		e.templates = slices.DeleteFunc(slices.Clone(r.plan), func(o *spatev1.Stage) bool {
			return o.GetSeed() != st.GetSeed() || o.GetLoad().GetChoose() == nil
		})
	}
	e.steps = series.New(st.GetLoad(), e.templates...)
	return e
}

// mostStages returns the largest number of stages that the plan can become.
func mostStages(plan []*spatev1.Stage) (n uint32) {
	return lists.Sum(plan, func(st *spatev1.Stage) uint32 { return plans.EstimateOf(st).Stages })
}

// activeSeries is a template of the plan that becomes stages one after another. A choice has one for each target.
type activeSeries struct {
	templates []*spatev1.Stage
	number    uint32
	steps     series.Series
	probes    []uint32 // stages whose outcomes steps has been given
}

// template returns the first template.
func (e *activeSeries) template() *spatev1.Stage { return e.templates[0] }

// searching reports whether the stage in progress is a probe of a series that is not a sweep.
func (r *Run) searching() bool {
	return r.series != nil && r.series.template().GetLoad().GetSweep() == nil
}

// objectives returns what the outcomes of the series in progress must contain, nil if there is none.
func (r *Run) objectives() *spatev1.Objectives {
	if r.series == nil {
		return nil
	}
	return series.Asks(r.series.template().GetLoad())
}

// takeOutcome passes the outcome of the stage that has ended to its series. If the stage did not run as it should, or
// its result is incomplete, the series ends, because conclusions from it would not be about the target.
func (r *Run) takeOutcome(at clock.Instant, complete bool, o series.Outcome) {
	if r.series == nil {
		return
	}
	rec := r.stage.snapshot()
	dead, isDead := r.dead[r.stage.target()]
	switch cut := cutShort(rec); {
	case isDead:
		r.series.steps.Drop(r.stage.target(), dead)
	case cut != "":
		r.series.steps.End(cut)
	case rec.GetStopped():
		r.series.steps.End("stopped on request")
	case !complete:
		r.series.steps.End(fmt.Sprintf("the result of stage %d is not complete", rec.GetStage().GetIndex()+1))
	default:
		o.Aborted = r.stage.abortedBy
		if text := r.series.take(rec.GetStage().GetIndex(), o); text != "" {
			r.notice(at, spatev1.Severity_SEVERITY_INFO, "%s: %s", r.series.name(), text)
		}
	}
}

// take records the outcome of a stage and returns what a person should know about it.
func (e *activeSeries) take(stageIndex uint32, o series.Outcome) string {
	e.probes = append(e.probes, stageIndex)
	return e.steps.Take(stageIndex, o)
}

// cutShort returns why a stage, or an agent's part of it, did not run as it should. Empty: it did.
func cutShort(rec *spatev1.StageRecord) string {
	for _, a := range rec.GetAgents() {
		if rec.GetFailure() == "" && a.GetFailure() != "" {
			return "agent " + a.GetAgent().GetName() + " " + a.GetFailure()
		}
	}
	return rec.GetFailure()
}

// concludeSeries ends the series, tells followers what it found, and records it.
func (r *Run) concludeSeries(at clock.Instant) {
	e := r.series
	r.series = nil
	rec := clone(e.steps.Record())
	rec.Series, rec.Workload = e.number, e.template().GetWorkload().GetName()
	rec.Target = cmp.Or(rec.GetTarget(), map[int]string{1: e.template().GetTarget().GetName()}[len(e.templates)])
	severity := spatev1.Severity_SEVERITY_INFO
	if !rec.GetComplete() || !rec.GetConverged() {
		severity = spatev1.Severity_SEVERITY_WARNING
	}
	r.notice(at, severity, "%s: %s", e.name(), rec.GetSentence())
	r.incomplete = r.incomplete || !rec.GetComplete()
	r.do(PutSeries{rec})
}

// endSeries ends the series in progress early.
func (r *Run) endSeries(at clock.Instant, reason string) {
	if r.series != nil {
		r.series.steps.End(reason)
		r.concludeSeries(at)
	}
}

// name returns the name of the series for people.
func (e *activeSeries) name() string {
	only, many := map[int]string{1: e.template().GetTarget().GetName()}, len(e.templates)
	return fmt.Sprintf("%s of %s, %s", loadpoint.Kind(e.template().GetLoad()),
		cmp.Or(only[many], fmt.Sprintf("%d targets", many)), e.template().GetWorkload().GetName())
}
