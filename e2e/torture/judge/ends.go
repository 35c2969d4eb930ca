package judge

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/e2e/torture/script"
)

// judgeEnds reports load that is out of control: requests that start after the end of the lease of agents that
// have no coordinator, or no run.
func (j *judge) judgeEnds() {
	lease := j.Script.LeaseOf()
	gone := j.gone()
	for _, s := range j.Served {
		if after := s.Arrived.Sub(j.Notes.End); after > lease+late {
			j.wrong("stage %d request %d began %v after the run's end", s.Stage, s.Index, after)
		}
		for _, g := range gone {
			if after := s.Arrived.Sub(g.From); after > lease+late && s.Arrived < g.To {
				j.wrong("stage %d request %d began when the coordinator had been gone for %v, longer than the lease of %v", s.Stage, s.Index, after, lease)
			}
		}
	}
}

// gone returns the times in which there was no coordinator. If two faults overlap, the coordinator's later start
// counts.
func (j *judge) gone() (out []Span) {
	kills := slices.DeleteFunc(slices.Clone(j.Notes.Struck),
		func(s Strike) bool { return s.Kind != script.KillCoordinator })
	for i := range kills {
		kills[i].From = max(kills[i].From, kills[i].Begun)
	}
	slices.SortFunc(kills, func(a, b Strike) int { return cmp.Compare(a.From, b.From) })
	for _, k := range kills {
		if n := len(out); n > 0 && k.From < out[n-1].To {
			out[n-1].To = k.To
			continue
		}
		out = append(out, k.Span)
	}
	return out
}

// hurt returns the first moment at which a fault could cost measurements of an agent: a fault of its process, its link,
// the coordinator or its disk. If there is none, it returns the largest instant.
func (j *judge) hurt(agent string) Instant {
	first := Instant(math.MaxInt64)
	for _, s := range j.Notes.Stalls {
		if s.To.Sub(s.From) > harmless {
			first = min(first, s.From)
		}
	}
	for _, s := range j.Notes.Struck {
		f := script.Fault{Kind: s.Kind, Agent: s.Agent}
		if s.Kind != script.SlowTarget && (!f.OfAgent() || script.AgentName(s.Agent) == agent) {
			first = min(first, s.From)
		}
	}
	return first
}

// harmless is how long the machine may stand still without any agent being taken for lost.
const harmless = time.Second

// promised reports whether the run must be complete: by its script, on a machine that did not stand still for long and
// ended the faults in time.
func (j *judge) promised() bool {
	return j.Script.Promised() && !slices.ContainsFunc(j.Notes.Struck, j.overran) &&
		!slices.ContainsFunc(j.Notes.Stalls, func(s Span) bool { return s.To.Sub(s.From) > harmless })
}

// overran reports whether a fault lasted much longer than the script says: a busy machine may take seconds to restart a
// program.
func (j *judge) overran(s Strike) bool {
	longest := time.Duration(0)
	for _, f := range j.Script.Faults {
		if f.Kind == s.Kind && f.Agent == s.Agent {
			longest = max(longest, f.For)
		}
	}
	return s.To.Sub(s.From) > longest+harmless
}

// frozen reports whether an agent's process was stopped, or the machine stood still, before a moment. The agent may be
// behind its schedule from then on.
func (j *judge) frozen(agent string, by Instant) bool {
	return slices.ContainsFunc(j.Notes.Stalls, func(s Span) bool { return s.From < by }) ||
		slices.ContainsFunc(j.Notes.Struck, func(s Strike) bool {
			return s.Kind == script.StopAgent && script.AgentName(s.Agent) == agent && s.From < by
		})
}
