package lifecycle

import (
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Rewind takes a run back to before its stage in progress, or before the pause that it is in: its agents died with its
// coordinator, so others measure that stage again, from its start. Restore then waits for agents as a new run does.
// Targets that were given up get another chance, and a stop that somebody asked for is forgotten. It returns the stage
// in progress, whose record and snapshots the caller must discard from the ledger. Nil: there was none.
func (m *Memory) Rewind() (again *spatev1.Stage) {
	c, next := m.Checkpoint, m.Checkpoint.GetPending()
	begun, failure := c.GetBegun(), c.GetFailure()
	if rec := m.Stage; rec != nil && inStage(c) {
		again, next = rec.GetStage(), rec.GetStage()
		begun--
		if failure == rec.GetFailure() {
			failure = ""
		}
	}
	place := c.GetNext()
	if next != nil && next.GetProbe() == nil {
		place-- // a probe is made again by its sweep or search
	}
	m.Stage = nil
	m.Checkpoint = &spatev1.Checkpoint{
		Phase: phases[gathering], Next: place, Begun: begun, BegunSeries: c.GetBegunSeries(), Probes: c.GetProbes(),
		Template: c.GetTemplate(), Noted: c.GetNoted(), Failure: failure, Incomplete: c.GetIncomplete(),
	}
	return again
}

// inStage reports whether a checkpoint was written while a stage was in progress.
func inStage(c *spatev1.Checkpoint) bool {
	for p, name := range phases {
		if name == c.GetPhase() {
			return p >= applying && p <= closing
		}
	}
	return false
}

// Left returns the stages and templates that are still to be run after Rewind, in order. The sweep or search under way
// comes first, as its template.
func (m *Memory) Left() []*spatev1.Stage {
	left := m.Submission.GetPlan()[min(int(m.Checkpoint.GetNext()), len(m.Submission.GetPlan())):]
	if t := m.Checkpoint.GetTemplate(); t != nil {
		return append([]*spatev1.Stage{t}, left...)
	}
	return left
}
