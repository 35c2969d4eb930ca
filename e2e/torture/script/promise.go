package script

import (
	"cmp"
	"slices"
	"time"
)

// Times of the programs that promises depend on, with room for a busy machine.
const (
	// comeBack is how long an agent may take to return after its fault has ended, counted from the last message that
	// was heard from it before.
	comeBack = 4 * time.Second
	// reassignLease is the longest lease of a stage that is reassigned.
	reassignLease = 10 * time.Second
	// unharmed is how long an agent may be cut off without being taken for lost, which happens after 3.5 s. It allows
	// for the age of the agent's last heartbeat and for a new connection.
	unharmed = 1600 * time.Millisecond
)

// LeaseOf returns how long the script's agents continue without the coordinator.
func (s Script) LeaseOf() time.Duration {
	if s.Policy == "reassign" {
		return min(s.Lease, reassignLease)
	}
	return s.Lease
}

// Promised reports whether the run must be complete: no process with measurements dies, no disk is full, and no agent
// is disconnected for longer than the policy survives.
func (s Script) Promised() bool {
	for _, f := range s.Faults {
		if f.Kind == KillAgent || f.Kind == FullDisk {
			return false
		}
	}
	for i := range s.Agents {
		if !s.bears(i) {
			return false
		}
	}
	return true
}

// bears reports whether the policy survives all absences of an agent.
func (s Script) bears(agent int) bool {
	for _, away := range s.absences(agent) {
		if away.length()+comeBack >= s.LeaseOf() {
			return false
		}
		if s.Policy == "fail" && away.cut > unharmed {
			return false
		}
	}
	return true
}

// absence is a time in which an agent and the coordinator do not hear each other, or have only just reconnected.
type absence struct {
	from, to time.Duration
	cut      time.Duration // part of it due to faults of the agent or its link
}

func (a absence) length() time.Duration { return a.to - a.from }

// absences returns the absences of an agent, in order. Absences between which the agent may not have returned are
// merged.
func (s Script) absences(agent int) []absence {
	var out []absence
	faults := slices.Clone(s.Faults)
	slices.SortStableFunc(faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	for _, f := range faults {
		if !f.silences() || f.OfAgent() && f.Agent != agent {
			continue
		}
		a := absence{from: f.At, to: f.At + f.For}
		if f.OfAgent() {
			a.cut = max(f.For, 50*time.Millisecond)
		}
		if n := len(out); n > 0 && a.from < out[n-1].to+comeBack {
			out[n-1].to, out[n-1].cut = max(out[n-1].to, a.to), out[n-1].cut+a.cut
			continue
		}
		out = append(out, a)
	}
	return out
}
