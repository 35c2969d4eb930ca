package series

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// finest is the smallest precision that written rates can have.
const finest = 1e-9

// search finds the highest load that keeps the objectives. The probes done are its whole state; the next probe is a
// function of them.
//
//	from kept -> bracket: steps up, until one breaks or `to` is kept
//	          -> bisect: between the highest that kept and the lowest that broke, to the precision
//	          -> repeat: at the load found; if most repeats break, the load broke, and the search continues below it
//
// A probe with an invalid measurement says nothing about the server, so it is run again. If it is invalid again, the
// search ends with what it knows, and says that the agents cannot measure this load.
//
// Each probe is judged by what it measured, without allowance for chance. Near the knee outcomes are random, and the
// search ends somewhere in that range. Repeats show how certain the result is.
type search struct {
	template *spatev1.LoadPoint
	asked    *spatev1.Search
	axis
	precision float64
	probes    int // most stages, including repeats
	repeats   int
	done      []probe
	invalid   []probe // probes with an invalid measurement; not in done
	again     bool    // the last invalid probe is to be run again
	ended     string  // why the search ended early; empty: it did not
}

// probe is a stage that was run.
type probe struct {
	value   float64
	stage   uint32
	reason  string // why the load broke; empty: it kept
	outcome Outcome
}

func newSearch(template *spatev1.LoadPoint) *search {
	asked := proto.CloneOf(template.GetSearch())
	s := &search{
		template: template, asked: asked,
		precision: max(asked.GetPrecision(), finest), repeats: max(1, int(asked.GetRepeats())),
	}
	s.axis = newAxis(asked.GetRate(), asked.GetConcurrency(), s.precision)
	s.probes = int(asked.GetProbes()) + s.repeats - 1
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
	case len(s.done) >= s.probes:
		return 0, ""
	case len(s.done) == 0:
		return s.from, Bracket
	}
	kept, broke := s.bracket()
	left := s.probes - len(s.done) - (s.repeats - 1) // the repeats come last
	switch {
	case kept == 0:
		return 0, ""
	case broke == 0 && kept < s.to && left > 0:
		return s.stepUp(kept, left), Bracket
	case !s.narrow(kept, broke) && left > 0:
		return s.split(kept, broke, left), Bisect
	case len(s.at(kept)) < s.repeats:
		return kept, Repeat
	}
	return 0, ""
}

// bracket returns the lowest load that broke the objectives and the highest load below it that kept them. 0: there is
// none.
func (s *search) bracket() (kept, broke float64) {
	for _, p := range s.done {
		if !s.held(p.value) && (broke == 0 || p.value < broke) {
			broke = p.value
		}
	}
	for _, p := range s.done {
		if s.held(p.value) && p.value > kept && (broke == 0 || p.value < broke) {
			kept = p.value
		}
	}
	return kept, broke
}

// held reports whether a load kept the objectives: its first probe did, and at most half of its repeats broke. The
// first probe is one of the repeats.
func (s *search) held(value float64) bool {
	stages := s.at(value)
	broken := 0
	for _, p := range stages {
		if p.reason != "" {
			broken++
		}
	}
	return stages[0].reason == "" && 2*broken <= s.repeats
}

// at returns the probes at a load, in the order in which they ran.
func (s *search) at(value float64) []probe {
	var out []probe
	for _, p := range s.done {
		if p.value == value {
			out = append(out, p)
		}
	}
	return out
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
	s.done = append(s.done, probe{value: step.Value, stage: stageIndex, reason: reason, outcome: o})
	if reason != "" {
		return fmt.Sprintf("%s is too high (%s)", s.words(step.Value), reason)
	}
	return s.words(step.Value) + " is within the limits"
}

// takeInvalid records a probe with an invalid measurement. The first time the probe is run again, the second time the
// search ends.
func (s *search) takeInvalid(stageIndex uint32, step Step, o Outcome, why string) string {
	s.invalid = append(s.invalid, probe{value: step.Value, stage: stageIndex, reason: why, outcome: o})
	if s.again = step.Purpose != Again; s.again {
		return fmt.Sprintf("%s could not be measured (%s): it is measured again", s.words(step.Value), why)
	}
	s.ended = fmt.Sprintf("%s could not be measured twice (%s): give the run more agents or cores",
		s.words(step.Value), why)
	return s.ended
}

// End ends the search early. The first reason is kept.
func (s *search) End(reason string) { s.ended = cmp.Or(s.ended, reason) }

// Curve returns nil, because a search is not a frontier.
func (s *search) Curve() *spatev1.FrontierRecord { return nil }
