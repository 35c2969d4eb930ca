package agent

import (
	"time"

	"github.com/spate-load/spate/clock"
)

// Stats says how the agent does, for those who watch it.
type Stats struct {
	// Connected says whether there is a session with the coordinator.
	Connected bool
	// Sessions counts those that the coordinator welcomed since the agent began.
	Sessions uint64
	// InFlight is the number of requests now in flight, and Assigned says whether there is an assignment.
	InFlight uint32
	Assigned bool
	// Unacked is the number of snapshots that the coordinator does not have for good yet, and UnackedBytes their size.
	Unacked, UnackedBytes int
	// Merges counts how often two snapshots became one since too many waited, and DroppedRows the rows of requests that
	// were left out then.
	Merges, DroppedRows uint64
	// ClockOffset is to be added to this machine's clock to get the coordinator's, and ClockUncertainty how wrong it
	// may be. ClockKnown says whether there is such an estimate now.
	ClockOffset, ClockUncertainty time.Duration
	ClockKnown                    bool
}

// Stats may be called at any time. It does not block for long.
func (a *Agent) Stats() Stats {
	s := Stats{
		Sessions: a.welcomed.Load(), InFlight: a.desk.inFlight(), Assigned: a.desk.ref() != nil,
		Unacked: a.outbox.waiting(), UnackedBytes: a.outbox.size(),
	}
	s.Merges, s.DroppedRows = a.outbox.lossy()
	if offset := a.clock.Load(); offset != nil {
		s.Connected = true
		if o, known := (*offset)(); known {
			s.ClockOffset, s.ClockUncertainty, s.ClockKnown = time.Duration(o.Nanos), o.Uncertainty, true
		}
	}
	return s
}

// clockNow returns the present estimate of the clock's offset.
type clockNow func() (clock.Offset, bool)
