package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Merged tells the machine that a new snapshot is in the ledger. Snapshots of assignments that were dropped must have
// been refused by the shell.
func (r *Run) Merged(at clock.Instant, snapshot *spatev1.Snapshot) {
	p := r.senderOf(snapshot)
	if p == nil || p.failure != "" {
		return
	}
	p.take(snapshot)
	p.agreed(snapshot.GetRevision())
	p.delivered = at
	if r.stage.record.MeasuredFromNs != nil {
		if why := r.stage.disagreement(); why != "" {
			r.failStage(at, why, false)
		}
	}
	r.passOn(at, p)
	r.actOnTotals(at, p)
	r.settle(at)
}

// senderOf returns the assignment that sent a snapshot, nil if the snapshot is not of the stage in progress.
func (r *Run) senderOf(snapshot *spatev1.Snapshot) *assignment {
	s := r.stage
	if s == nil || snapshot.GetStageIndex() != s.ref.GetStageIndex() || r.phase != running && r.phase != stopping {
		return nil
	}
	return s.assignment(snapshot.GetKey().GetAgent(), snapshot.GetKey().GetIncarnation())
}

// Refused tells the machine that the shell refused a snapshot. Its content, perhaps the totals, is missing for good, so
// the assignment ends.
func (r *Run) Refused(at clock.Instant, s *spatev1.Snapshot, reason string) {
	if p := r.senderOf(s); p != nil {
		r.endFaulty(at, p, fmt.Sprintf("the coordinator refused its snapshot of window %d: %s", s.GetWindow(), reason))
	}
}

// LoadEnded tells the machine that the load of an agent has ended while its totals are not here yet: the agent scrapes
// servers, and waits for the last scrape until no agent sends requests. LoadEnded reports whether the load of all
// agents has ended. The agent asks again until it has. From then on the agent takes nothing over. An agent that was
// given something too late gets true, so that it ends at once and others can take that over.
func (r *Run) LoadEnded(name string, ref *spatev1.AssignmentRef) (all bool) {
	if r.phase != running && r.phase != stopping || !r.stage.concerns(ref) {
		return false
	}
	p := r.assignmentOf(r.agents[name])
	if p == nil {
		return false
	}
	p.ended = true
	if r.stage.hasUnappliedHandover(p) {
		return true
	}
	others := r.stage.where(func(p *assignment) bool { return !p.done() && !p.ended })
	return len(others) == 0
}

// actOnTotals acts on an assignment's totals, if they are here: a failure, or the assignment's end.
func (r *Run) actOnTotals(at clock.Instant, p *assignment) {
	if p.failedItself() {
		if !r.toleratesLossOf(p) {
			r.failAssignment(at, p.totals.GetFailureKind(), "agent "+p.agent.name()+": "+p.totals.GetFailure())
			return
		}
		r.sayFailedItself(at, p)
	}
	if p.whole() {
		r.endAssignment(at, p)
	}
}

// failedItself reports whether the assignment ended by a failure of its own agent.
func (p *assignment) failedItself() bool {
	return p.totals.GetFailure() != "" && !p.totals.GetStopped()
}

// sayFailedItself tells followers, once, that an agent has ended its assignment early.
func (r *Run) sayFailedItself(at clock.Instant, p *assignment) {
	if p.lossTold {
		return
	}
	follows := "its part of the load is missing from then on"
	if r.phase == running && r.policy() == reassign {
		follows = "the others take its part over"
	}
	r.sayLost(at, p, p.totals.GetFailure(), follows)
}

// endAssignment checks whether an assignment whose snapshots are all merged has done all that it should.
func (r *Run) endAssignment(at clock.Instant, p *assignment) {
	if p.totals.GetStopped() && r.phase == running && !p.toldToEnd {
		r.markToldToEnd(p, "was stopped, but not by its run") // else the loss would go unnoticed
		if !r.toleratesLossOf(p) {
			r.failAssignment(at, spatev1.FailureKind_FAILURE_KIND_AGENT, "agent "+p.agent.name()+" "+p.lost)
			return
		}
		r.sayLost(at, p, p.lost, r.consequence(p))
	}
	switch {
	case p.failedItself(), p.toldToEnd && p.totals.GetStopped():
		r.handOn(at, p)
	case r.phase == running && p.hasLeft && r.stage.part(p) > 0:
		r.markToldToEnd(p, "left, and no other agent was there to take the rest over")
		r.handOn(at, p)
	case r.phase == running && r.stage.hasUnappliedHandover(p):
		if !r.passOnUnapplied(at, p) {
			r.markToldToEnd(p, cmp.Or(p.lost, "ended its assignment before it learned of a change"))
			r.handOn(at, p)
		}
	default:
		p.lost, r.unsaved = "", r.unsaved || p.toldToEnd
	}
}

// handOn applies the policy to an assignment that has ended early and whose snapshots are all merged.
func (r *Run) handOn(at clock.Instant, p *assignment) {
	if r.phase == running && r.policy() == reassign {
		r.takeOver(at, p)
		r.tellTakers(at)
		return
	}
	r.writeOff(p)
	r.do(PutStage{r.stage.snapshot()})
	r.sayMissing(at, p)
}

// checkStalled ends the assignments of agents that send heartbeats but deliver no snapshots, so that no stage waits for
// them forever.
func (r *Run) checkStalled(at clock.Instant) {
	if r.phase != running {
		return
	}
	for _, p := range r.stage.assignments {
		switch {
		case p.done():
		case p.isLost() || p.agent.lost != "" || p.agent.disconnected != "" || p.delivered == 0:
			p.delivered = max(at, r.stage.start.Add(p.joined)) // restarts the count until it can deliver
		case at.Sub(max(p.delivered, r.heldUpAt)) >= r.cfg.Stall:
			r.endFaulty(at, p, fmt.Sprintf("it sends heartbeats, but delivered no measurements for %v: check its "+
				"log and the network between", r.cfg.Stall))
		}
		if r.phase != running {
			return
		}
	}
}

// endFaulty ends an assignment that cannot become whole although its agent is there.
func (r *Run) endFaulty(at clock.Instant, p *assignment, reason string) {
	switch {
	case p.done() || p.toldToEnd:
	case r.toleratesLossOf(p):
		r.tellToEnd(at, p, reason)
	default:
		p.failure = reason
		r.sendStopTo(p, true, reason)
		r.failAssignment(at, spatev1.FailureKind_FAILURE_KIND_AGENT, "agent "+p.agent.name()+": "+reason)
	}
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
	p := &spatev1.StageProgress{StageIndex: s.ref.GetStageIndex(), Elapsed: durationpb.New(at.Sub(s.start))}
	working := lists.Where(s.assignments, func(a *assignment) bool { return !a.done() })
	p.InFlight = lists.Sum(working, func(a *assignment) uint32 { return a.agent.inFlight })
	r.do(Progress{Time: r.wallTime(at), State: p})
}

// settle closes the stage when no assignment is waited for any more.
func (r *Run) settle(at clock.Instant) {
	if (r.phase == running || r.phase == stopping) && r.stage.all((*assignment).done) {
		r.closeStage(at)
	}
}
