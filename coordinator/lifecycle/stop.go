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

// failRun ends the stage in progress, with a drain, and the run after it.
func (r *Run) failRun(at clock.Instant, reason string) {
	r.fatal = cmp.Or(r.fatal, reason)
	r.incomplete = true
	r.failStage(at, reason, false)
}

// failShare ends the stage in progress because an agent cannot do its share. If the target is dead, what remains of it is skipped:
// nobody can be measured there.
func (r *Run) failShare(at clock.Instant, kind spatev1.FailureKind, reason string) {
	if target := r.stage.target(); kind == spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD {
		r.dead[target] = cmp.Or(r.dead[target], reason)
	}
	r.failStage(at, reason, true)
}

// failStage ends the stage in progress for a reason.
func (r *Run) failStage(at clock.Instant, reason string, immediately bool) {
	r.failure, r.unsaved = cmp.Or(r.failure, reason), true
	r.stage.fail(reason)
	r.endStage(at, immediately)
}

// stopStage ends the stage in progress on request.
func (r *Run) stopStage(at clock.Instant, immediately bool) {
	if r.stage.record.GetEnough() == "" || immediately {
		r.stage.record.Stopped = true
	}
	r.endStage(at, immediately)
}

// endStage tells the agents to stop and waits for their totals. Agents that were never armed have none.
func (r *Run) endStage(at clock.Instant, immediately bool) {
	s := r.stage
	r.unsaved = true
	told := r.phase == stopping && (s.immediate || !immediately)
	if !told {
		r.sendStop(immediately)
		s.deadline = at.Add(r.patience(immediately))
	}
	if r.phase == applying {
		r.incomplete = true
		r.closeStage()
		return
	}
	r.phase = stopping
	r.settle()
}

// sendStop tells those that still work on the stage to end it.
func (r *Run) sendStop(immediately bool) {
	r.stage.immediate = immediately
	for _, p := range r.stage.shares {
		if p.agent.lost == "" && !p.done() {
			r.sendStopTo(p)
		}
	}
}

// sendStopTo tells an agent to end its share.
func (r *Run) sendStopTo(p *share) {
	s := r.stage
	rec, reason := s.record, cmp.Or(s.record.GetFailure(), s.record.GetEnough(), "stopped on request")
	if rec.GetStopped() {
		reason = cmp.Or(rec.GetFailure(), "stopped on request")
	}
	r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{Stop: &spatev1.Stop{
		Ref: s.ref, Immediately: s.immediate, Reason: reason,
		Enough: rec.GetEnough() != "" && rec.GetFailure() == "" && !rec.GetStopped(),
	}}})
}

// patience bounds the wait for totals after a stop.
func (r *Run) patience(immediately bool) time.Duration {
	if immediately {
		return r.cfg.StopGrace
	}
	return r.cfg.StopGrace + r.stage.record.GetStage().GetDrainTimeout().AsDuration()
}

// checkDeadline ends what takes too long.
func (r *Run) checkDeadline(at clock.Instant) {
	if at < r.stage.deadline {
		return
	}
	switch r.phase {
	case applying:
		r.applyTimedOut(at)
	case stopping:
		r.giveUp(at)
	}
}

// applyTimedOut names those who are not ready.
func (r *Run) applyTimedOut(at clock.Instant) {
	timeout := r.applyTimeout(r.stage.record.GetStage())
	var late []string
	for _, p := range r.stage.shares {
		if !p.applied {
			p.failure = fmt.Sprintf("not ready within %v", timeout)
			late = append(late, p.agent.info.GetName())
		}
	}
	r.failRun(at, fmt.Sprintf("not ready for the stage within %v: %s", timeout, strings.Join(late, ", ")))
}

// giveUp closes the stage without the totals that did not come.
func (r *Run) giveUp(at clock.Instant) {
	for _, p := range r.stage.shares {
		if !p.done() {
			p.failure = "did not end its share after it was told to stop"
			r.notice(at, spatev1.Severity_SEVERITY_ERROR, "agent %s %s: what it measured last is missing",
				p.agent.info.GetName(), p.failure)
		}
	}
	r.settle()
}

// progressInterval is how often progress is reported.
const progressInterval = time.Second

// progress reports the stage in progress.
func (r *Run) progress(at clock.Instant) {
	s := r.stage
	if r.phase != running && r.phase != stopping || at.Sub(s.progress) < progressInterval {
		return
	}
	s.progress = at
	p := &spatev1.StageProgress{
		StageIndex: s.ref.GetStageIndex(), Elapsed: durationpb.New(at.Sub(s.start)),
	}
	for _, share := range s.shares {
		if !share.done() {
			p.InFlight += share.agent.inFlight
		}
	}
	r.do(Progress{Time: r.wallTime(at), State: p})
}
