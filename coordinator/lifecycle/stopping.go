package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/series"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// failRun ends the stage in progress, with a drain, and then the run.
func (r *Run) failRun(at clock.Instant, reason string) {
	r.fatal = cmp.Or(r.fatal, reason)
	r.incomplete = true
	r.failStage(at, reason, false)
}

// failAssignment ends the stage in progress because an agent cannot do its assignment. If the target is dead, its
// remaining stages are skipped.
func (r *Run) failAssignment(at clock.Instant, kind spatev1.FailureKind, reason string) {
	if target := r.stage.target(); kind == spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD {
		r.dead[target] = cmp.Or(r.dead[target], reason)
	}
	r.failStage(at, reason, true)
}

// failStage ends the stage in progress as failed.
func (r *Run) failStage(at clock.Instant, reason string, immediately bool) {
	r.failure, r.unsaved = cmp.Or(r.failure, reason), true
	r.stage.fail(reason)
	r.endStage(at, immediately)
}

// abortStage aborts the stage in progress by an abort rule. For a search or a frontier this is a valid outcome: the
// load is too high.
func (r *Run) abortStage(at clock.Instant, reason string) {
	if !r.searching() {
		r.failStage(at, reason, true)
		return
	}
	r.stage.abortedBy = reason
	r.stage.record.Enough = reason
	r.endStage(at, true)
}

// stopStage ends the stage in progress on request. A stage whose assignments are all done is not marked as stopped. Nor
// is a stage that is ending because it has measured enough, unless immediately is set.
func (r *Run) stopStage(at clock.Instant, immediately bool) {
	if (r.stage.record.GetEnough() == "" || immediately) && !r.stage.all((*assignment).done) {
		r.stage.record.Stopped = true
	}
	r.endStage(at, immediately)
}

// endStage tells the agents to stop and waits for their totals. Agents that were not armed have no totals, so the stage
// is closed at once.
func (r *Run) endStage(at clock.Instant, immediately bool) {
	s := r.stage
	r.unsaved = true
	if told := r.phase == stopping && (s.immediate || !immediately); !told {
		s.immediate = immediately
		r.sendStop(immediately)
		s.deadline = at.Add(r.totalsTimeout(immediately))
	}
	if r.phase == applying {
		r.incomplete = true
		r.closeStage(at)
		return
	}
	r.phase = stopping
	if r.joining != nil {
		r.dropJoining(at, r.joining.agent, "the stage ends")
	}
	r.settle(at)
}

// sendStop tells the agents that still work on the stage to end it.
func (r *Run) sendStop(immediately bool) {
	for _, p := range r.stage.assignments {
		if p.agent.lost == "" && !p.done() {
			r.sendStopTo(p, immediately, r.whyStopped())
		}
	}
}

// whyStopped returns the reason that agents are told.
func (r *Run) whyStopped() string {
	rec := r.stage.record
	switch {
	case rec.GetFailure() != "":
		return rec.GetFailure()
	case rec.GetStopped():
		return "stopped on request"
	case rec.GetEnough() != "":
		return rec.GetEnough()
	default:
		return "the others have ended"
	}
}

// sendStopTo tells an agent to end its assignment. Enough says that this is the regular end, of a stage that has
// measured enough.
func (r *Run) sendStopTo(p *assignment, immediately bool, reason string) {
	rec := r.stage.record
	r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{Stop: &spatev1.Stop{
		Ref: r.stage.refTo(p), Immediately: immediately, Reason: reason,
		Enough: p.failure == "" && !p.toldToEnd && rec.GetFailure() == "" && !rec.GetStopped() &&
			rec.GetEnough() != "",
	}}})
}

// totalsTimeout returns how long totals are waited for after a stop.
func (r *Run) totalsTimeout(immediately bool) time.Duration {
	if immediately {
		return stopGrace
	}
	return stopGrace + r.stage.record.GetStage().GetDrainTimeout().AsDuration()
}

// checkDeadline ends a stage whose agents take too long to get ready or to stop.
func (r *Run) checkDeadline(at clock.Instant) {
	if at < r.stage.deadline {
		return
	}
	switch r.phase {
	case applying:
		r.applyTimedOut(at)
	case stopping:
		r.closeWithoutTotals(at)
	}
}

// closeWithoutTotals closes the stage without the totals that did not arrive.
func (r *Run) closeWithoutTotals(at clock.Instant) {
	for _, p := range r.stage.assignments {
		switch {
		case p.done():
		case p.isLost():
			r.dropAssignment(at, p)
		default:
			p.failure = "did not end its assignment after it was told to stop"
			r.notice(at, spatev1.Severity_SEVERITY_ERROR, "agent %s %s: its last measurements are missing",
				p.agent.name(), p.failure)
		}
	}
	r.settle(at)
}

// closeStage asks the shell to compute the stage's result.
func (r *Run) closeStage(at clock.Instant) {
	if r.joining != nil {
		r.dropJoining(at, r.joining.agent, "the stage has ended")
	}
	r.phase = closing
	r.checkMeasured()
	r.stage.record.Ended = true
	rec := r.stage.snapshot()
	r.do(PutStage{rec})
	r.do(CloseStage{Record: rec, Keep: r.objectives()})
}

// Closed tells the machine that the shell has computed a stage's result, whether the result is complete, and the
// outcome by which sweeps and searches decide.
func (r *Run) Closed(at clock.Instant, complete bool, outcome series.Outcome) {
	if r.phase != closing {
		return
	}
	rec := r.stage.record
	r.incomplete, r.unsaved = r.incomplete || !complete, true
	if rec.Verdict = outcome.Verdict; rec.Verdict != "" {
		r.do(PutStage{r.stage.snapshot()})
	}
	r.emitEnded(at, &spatev1.StageEnded{
		StageIndex: rec.GetStage().GetIndex(), Complete: complete, Failure: rec.GetFailure(), Verdict: rec.GetVerdict(),
	})
	r.judgeTarget(at, outcome)
	r.takeOutcome(at, complete, outcome)
	r.nextStage(at)
}

// judgeTarget skips the remaining stages of a target if a stage has ended and none of its requests completed. A short
// stage may end before Observe can abort it.
func (r *Run) judgeTarget(at clock.Instant, o series.Outcome) {
	rec := r.stage.record
	st := rec.GetStage()
	if !st.GetFailFast() || rec.GetFailure() != "" || rec.GetStopped() || o.Completed > 0 || o.Failed == 0 {
		return
	}
	why := fmt.Sprintf("none of the %d requests of stage %d completed", o.Failed, st.GetIndex()+1)
	if o.Fault != "" {
		why += ": " + o.Fault
	}
	why = reason.HopelessTarget(st.GetTarget().GetName(), why)
	r.notice(at, spatev1.Severity_SEVERITY_ERROR, "%s", why)
	r.dead[st.GetTarget().GetName()], r.failure = why, cmp.Or(r.failure, why)
}

func (r *Run) emitEnded(at clock.Instant, ended *spatev1.StageEnded) {
	r.emit(at, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageEnded{StageEnded: ended}})
}
