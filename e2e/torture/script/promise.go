package script

import (
	"cmp"
	"slices"
	"time"
)

// Times of the programs, as far as promises depend on them, with room for a busy machine.
const (
	// comeBack is how long an agent may take to be back when nothing keeps it away any more, from the last word that
	// was heard of it before.
	comeBack = 4 * time.Second
	// reassignLease is the longest lease of a stage that is reassigned.
	reassignLease = 10 * time.Second
	// unharmed is how long an agent may be cut off without being taken for lost, which it is after 3.5 s: whenever its
	// last heartbeat was, and if it has to connect again.
	unharmed = 1600 * time.Millisecond
)

// LeaseOf is how long its agents go on without the coordinator.
func (s Script) LeaseOf() time.Duration {
	if s.Policy == "reassign" {
		return min(s.Lease, reassignLease)
	}
	return s.Lease
}

// Promised says whether the run must be complete: no process with measurements dies, no disk is full, and nobody is
// away for longer than the policy bears.
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

// bears says whether an agent is never away for too long.
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

// absence is a time in which an agent and the coordinator do not hear each other, or have hardly begun to.
type absence struct {
	from, to time.Duration
	cut      time.Duration // of that, by faults of the agent or its link
}

func (a absence) length() time.Duration { return a.to - a.from }

// absences are those of an agent, in order: those between which it may not have come back are one.
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
