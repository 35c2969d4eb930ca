package lifecycle

import (
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Rewind takes a run back to before the stage in progress, or before the pause in progress. The run's agents died with
// its coordinator, so new agents measure that stage again from its start. After Rewind, Restore waits for agents like a
// new run. Dead targets are tried again, and a requested stop is forgotten. Rewind returns the stage that was in
// progress, nil if there was none. The caller must discard the stage's record and snapshots from the ledger.
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
		place-- // a probe comes again from its sweep or search
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

// Left returns the stages and templates still to be run after Rewind, in order. The template of the sweep or search in
// progress comes first.
func (m *Memory) Left() []*spatev1.Stage {
	left := m.Submission.GetPlan()[min(int(m.Checkpoint.GetNext()), len(m.Submission.GetPlan())):]
	if t := m.Checkpoint.GetTemplate(); t != nil {
		return append([]*spatev1.Stage{t}, left...)
	}
	return left
}
