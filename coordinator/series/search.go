package series

import (
	"cmp"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// finest is the smallest precision that rates as they are written can have.
const finest = 1e-9

// search finds the highest load that keeps objectives. What is known is in the probes done; the next one is a function
// of them.
//
//	from kept -> bracket: larger steps up, until one breaks or `to` is kept
//	          -> bisect: between the highest that kept and the lowest that broke, to the precision
//	          -> repeat: at the load found; if most of them break the load has broken, and the search goes on below it
//
// A probe whose measurement is invalid tells nothing of the server: it is run again. If it is invalid again, the search
// ends with what it knows, and says that the agents cannot measure this load.
//
// Each probe is judged by what it measured, without allowance for chance: near the knee the outcome is random, and the
// search ends within the range in which it is. Repeats tell how sure the result is.
type search struct {
	template  *spatev1.LoadPoint
	asked     *spatev1.Search
	integer   bool // a concurrency
	from, to  float64
	precision float64
	probes    int // stages at most: those of the search and the repeats
	repeats   int
	digits    int
	done      []probe
	invalid   []probe // whose measurement was invalid; they are not among those done
	again     bool    // the last one of them is to be run again
	ended     string  // why it was ended from outside, or cannot go on
}

// probe is a stage that was run.
type probe struct {
	value   float64
	stage   uint32
	reason  string // why it broke; empty: it kept
	outcome Outcome
}

func newSearch(template *spatev1.LoadPoint) *search {
	asked := proto.CloneOf(template.GetSearch())
	s := &search{
		template: template, asked: asked, integer: asked.GetConcurrency() != nil,
		precision: max(asked.GetPrecision(), finest), repeats: max(1, int(asked.GetRepeats())),
	}
	s.probes = int(asked.GetProbes()) + s.repeats - 1
	// Rounding is to stay small beside the precision.
	s.digits = digits + max(0, int(math.Ceil(-math.Log10(s.precision/0.01))))
	bounds := asked.GetRate()
	if s.integer {
		bounds = asked.GetConcurrency()
	}
	s.from, s.to = bounds.GetFrom(), max(bounds.GetFrom(), bounds.GetTo())
	if s.integer {
		s.from, s.to = math.Ceil(s.from), max(math.Ceil(s.from), math.Floor(s.to))
	}
	return s
}

// Next is the next probe.
func (s *search) Next() (Step, bool) {
	value, purpose := s.next()
	if purpose == "" {
		return Step{}, false
	}
	step := Step{Number: uint32(len(s.done) + len(s.invalid)), Purpose: purpose, Value: value}
	if s.integer {
		step.Load = closedAt(s.template, uint32(value))
	} else {
		step.Load = openAt(s.template, value)
	}
	return step, true
}

// next decides. An empty purpose is the end.
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

// bracket returns the highest load that kept the objectives and the lowest above it that did not. 0: there is none.
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

// held says whether a load kept the objectives: at the first time, and at most of its repeats, the first one among
// them.
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

// at returns the probes at a load, in their order.
func (s *search) at(value float64) []probe {
	var out []probe
	for _, p := range s.done {
		if p.value == value {
			out = append(out, p)
		}
	}
	return out
}

// narrow says whether the bracket is within the precision.
func (s *search) narrow(kept, broke float64) bool {
	switch {
	case broke == 0:
		return kept >= s.to
	case s.integer && broke-kept <= 1:
		return true
	}
	return (broke-kept)/kept <= s.precision*(1+1e-9)
}

// Take judges a probe.
func (s *search) Take(stageIndex uint32, o Outcome) string {
	step, ok := s.Next()
	if !ok {
		return ""
	}
	if why := unmeasured(o, s.precision/2); why != "" {
		return s.takeInvalid(stageIndex, step, o, why)
	}
	s.again = false
	kept, reason := Judge(s.asked.GetKeep(), o)
	if kept && !s.integer {
		// Half the precision: a rate that is not sustained by less is within the precision of one that is.
		_, reason = sustained(o, step.Load, s.precision/2)
	}
	s.done = append(s.done, probe{value: step.Value, stage: stageIndex, reason: reason, outcome: o})
	if reason != "" {
		return fmt.Sprintf("%s broke (%s)", s.words(step.Value), reason)
	}
	return s.words(step.Value) + " kept"
}

// takeInvalid takes in a probe that measured nothing: for the first time it is run again, for the second time the
// search ends.
func (s *search) takeInvalid(stageIndex uint32, step Step, o Outcome, why string) string {
	s.invalid = append(s.invalid, probe{value: step.Value, stage: stageIndex, reason: why, outcome: o})
	if s.again = step.Purpose != Again; s.again {
		return fmt.Sprintf("%s could not be measured (%s): once more", s.words(step.Value), why)
	}
	s.ended = fmt.Sprintf("%s could not be measured twice (%s): give the run more agents or cores",
		s.words(step.Value), why)
	return s.ended
}

// End ends the search before its time.
func (s *search) End(reason string) { s.ended = cmp.Or(s.ended, reason) }

// words is a load for people.
func (s *search) words(value float64) string {
	if s.integer {
		return "concurrency " + number(value)
	}
	return number(value) + " req/s"
}
