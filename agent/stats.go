package agent

import "time"

// Stats is the state of an agent, for monitoring.
type Stats struct {
	// Connected reports whether there is a session with the coordinator.
	Connected bool
	// Sessions counts the sessions that the coordinator accepted since the agent started.
	Sessions uint64
	// InFlight is the number of requests in flight. Assigned reports whether there is an assignment.
	InFlight uint32
	Assigned bool
	// Unacked is the number of snapshots that the coordinator has not acked yet, and UnackedBytes is their size.
	Unacked, UnackedBytes int
	// Merges counts how often two snapshots were merged because too many were waiting. DroppedRows counts the request
	// rows that were dropped for the same reason.
	Merges, DroppedRows uint64
	// ClockOffset must be added to this machine's clock to get the coordinator's. ClockUncertainty is the largest error
	// of ClockOffset. ClockKnown reports whether there is an estimate.
	ClockOffset, ClockUncertainty time.Duration
	ClockKnown                    bool
}

// Stats returns the agent's current state. It may be called at any time, and does not block for long.
func (a *Agent) Stats() Stats {
	s := Stats{
		Sessions: a.welcomed.Load(), InFlight: a.supervisor.InFlight(), Assigned: a.supervisor.Ref() != nil,
		Unacked: a.outbox.Waiting(), UnackedBytes: a.outbox.Size(),
	}
	s.Merges, s.DroppedRows = a.outbox.Losses()
	if c := a.clock.Load(); c != nil {
		s.Connected = true
		if o, known := c.Now(); known {
			s.ClockOffset, s.ClockUncertainty, s.ClockKnown = time.Duration(o.Nanos), o.Uncertainty, true
		}
	}
	return s
}
