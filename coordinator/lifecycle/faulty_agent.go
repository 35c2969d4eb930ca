package lifecycle

import (
	"fmt"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Refused tells the machine that the shell refused a snapshot. Its content, perhaps the totals, is missing for good, so
// the assignment ends.
func (r *Run) Refused(at clock.Instant, s *spatev1.Snapshot, reason string) {
	if p := r.senderOf(s); p != nil {
		r.endFaulty(at, p, fmt.Sprintf("the coordinator refused its snapshot of window %d: %s", s.GetWindow(), reason))
	}
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
