package lifecycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
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
	told := r.phase == stopping && (s.immediate || !immediately)
	if !told {
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
		return r.cfg.StopGrace
	}
	return r.cfg.StopGrace + r.stage.record.GetStage().GetDrainTimeout().AsDuration()
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

// applyTimedOut fails the run and names the agents that are not ready. An agent that is ready but disconnected is not
// named: it will soon be back or lost.
func (r *Run) applyTimedOut(at clock.Instant) {
	timeout := r.applyTimeout(r.stage.record.GetStage())
	var late []string
	for _, p := range r.stage.assignments {
		if !p.applied {
			p.failure = fmt.Sprintf("not ready within %v", timeout)
			late = append(late, p.agent.name())
		}
	}
	if len(late) > 0 {
		r.failRun(at, fmt.Sprintf("not ready for the stage within %v: %s", timeout, strings.Join(late, ", ")))
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

// progressInterval is how often progress is reported.
const progressInterval = time.Second

// progress reports the progress of the stage once per progressInterval.
func (r *Run) progress(at clock.Instant) {
	s := r.stage
	if r.phase != running && r.phase != stopping || at.Sub(s.progress) < progressInterval {
		return
	}
	s.progress = at
	p := &spatev1.StageProgress{
		StageIndex: s.ref.GetStageIndex(), Elapsed: durationpb.New(at.Sub(s.start)),
	}
	for _, assignment := range s.assignments {
		if !assignment.done() {
			p.InFlight += assignment.agent.inFlight
		}
	}
	r.do(Progress{Time: r.wallTime(at), State: p})
}
