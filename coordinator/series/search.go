package series

import (
	"fmt"
	"math"

	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// finest is the smallest precision that written rates can have.
const finest = 1e-9

// search finds the highest load that keeps the objectives more often than not. The probes done are its whole state; the
// next probe is a function of them.
//
//	up     -> from `from` in steps of two, until a load breaks, and breaks again when it is probed with other requests
//	bisect -> between the highest load that kept and the lowest that broke, to the precision
//	check  -> both again, until chance does not explain them
//
// Every probe may be wrong: a bad second, of the server or of this machine, makes a load that is within the limits look
// too high. So no probe decides alone, and what many probes say decides: see tally. This is noisy bisection: Karp and
// Kleinberg, "Noisy binary search and its applications", SODA 2007; Waeber, Frazier, Henderson, "Bisection search with
// noisy responses", SIAM J. Control Optim. 51, 2013.
//
// A probe with an invalid measurement says nothing about the server, so it is run again. If it is invalid again, the
// search ends with what it knows, and says that the agents cannot measure this load.
type search struct {
	common
	asked *spatev1.Search
	axis
	precision float64
	probes    int // most stages, including repeats
	repeats   int
	factor    float64 // of a step up
	done      []probe
	invalid   []probe // probes with an invalid measurement; not in done
	again     bool    // the last invalid probe is to be run again
}

// probe is a stage that was run.
type probe struct {
	value   float64
	stage   uint32
	reason  string // why the load broke; empty: it kept
	votes   int    // how much it says
	outcome Outcome
}

// doubtful reports whether the measurement is in doubt.
func (p probe) doubtful() bool { return rank(p.outcome.Verdict) > rank("VALID") }

func newSearch(template *spatev1.LoadPoint) *search {
	asked := template.GetSearch()
	s := &search{
		common: common{template: template}, asked: asked,
		precision: max(asked.GetPrecision(), finest), repeats: max(1, int(asked.GetRepeats())),
	}
	s.axis = newAxis(asked.GetRate(), asked.GetConcurrency(), s.precision)
	s.probes = int(asked.GetProbes()) + s.repeats - 1
	// At most half of the probes are for the way up.
	s.factor = max(2, math.Pow(s.to/s.from, 1/float64(max(1, asked.GetProbes()/2))))
	return s
}

// Next returns the next probe.
func (s *search) Next() (Step, bool) {
	value, purpose := s.next()
	if purpose == "" {
		return Step{}, false
	}
	return Step{Number: uint32(len(s.done) + len(s.invalid)), Purpose: purpose, Value: value,
		Load: s.load(s.template, value)}, true
}

// next returns the load and purpose of the next probe. An empty purpose means the search has ended.
func (s *search) next() (value float64, purpose string) {
	switch {
	case s.ended != "":
		return 0, ""
	case s.again:
		return s.invalid[len(s.invalid)-1].value, Again
	case len(s.done) == 0:
		return s.from, Bracket
	}
	t := s.tally()
	if len(s.done) < s.probes-(s.repeats-1) { // the repeats come last
		if value, purpose := s.step(t); purpose != "" {
			return value, purpose
		}
	}
	if t.kept > 0 && len(s.at(t.kept)) < s.repeats && len(s.done) < s.probes {
		return t.kept, Repeat
	}
	return 0, ""
}

// step returns the load and purpose of the next probe that makes the answer better. An empty purpose means that the
// answer is as good as was asked for.
func (s *search) step(t *tally) (value float64, purpose string) {
	if v := t.doubted(); v > 0 {
		return v, Confirm
	}
	switch {
	case t.broke == 0 && t.kept < s.to:
		return s.up(t.kept), Bracket
	case t.kept > 0 && !s.narrow(t.kept, t.broke):
		return s.split(t.kept, t.broke), Bisect
	}
	if v := t.unconfirmed(); v > 0 {
		return v, Confirm
	}
	return 0, ""
}

// at returns the probes at a load, in the order in which they ran.
func (s *search) at(value float64) []probe {
	return lists.Where(s.done, func(p probe) bool { return p.value == value })
}

// narrow reports whether the bracket is within the precision.
func (s *search) narrow(kept, broke float64) bool {
	switch {
	case broke == 0:
		return kept >= s.to
	case s.integer && broke-kept <= 1:
		return true
	}
	return (broke-kept)/kept <= s.precision*(1+1e-9)
}

// Take judges the probe that Next returned last.
func (s *search) Take(stageIndex uint32, o Outcome) string {
	step, ok := s.Next()
	if !ok {
		return ""
	}
	if why := unmeasured(o, step.Load, s.precision/2); why != "" {
		return s.takeInvalid(stageIndex, step, o, why)
	}
	s.again = false
	kept, reason := Judge(s.asked.GetKeep(), o)
	if kept && !s.integer {
		// Half the precision: a server that falls behind by less sustains a rate within the precision.
		_, reason = sustained(o, step.Load, s.precision/2)
	}
	s.done = append(s.done, probe{value: step.Value, stage: stageIndex, reason: reason, outcome: o,
		votes: votes(s.asked.GetKeep(), o, reason)})
	if reason != "" {
		return fmt.Sprintf("%s was too high (%s)", s.words(step.Value), reason)
	}
	return s.words(step.Value) + " was within the limits"
}

// takeInvalid records a probe with an invalid measurement. The first time the probe is run again, the second time the
// search ends.
func (s *search) takeInvalid(stageIndex uint32, step Step, o Outcome, why string) string {
	s.invalid = append(s.invalid, probe{value: step.Value, stage: stageIndex, reason: why, outcome: o})
	if s.again = step.Purpose != Again; s.again {
		return s.againWords(step.Value, why)
	}
	s.ended = fmt.Sprintf("%s could not be measured twice (%s): give the run more agents or cores",
		s.words(step.Value), why)
	return s.ended
}
