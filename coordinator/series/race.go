package series

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/spate-load/spate/internal/chance"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// alarm is the largest chance with which the best target is dropped. All rounds have the same limit (Pocock, "Group
// sequential methods in the design and analysis of clinical trials", Biometrika 64, 1977): alarm / looks^looking. A
// round holds the values of those before it, so that an equal part (looking 1) is less than it may be. By simulation of
// 2 to 20 rounds, limits down to 0.005 would keep 0.69 to 0.75.
const alarm, looking = 0.05, 0.75

// confidence is that of the intervals, listed how many targets a list in a sentence has.
const confidence, listed = 0.95, 3

// race finds the best of several targets at one load.
//
//	round   -> each target that is left, in turns: forward, then backward
//	drop    -> the targets that are worse than the best, if chance does not explain it; those beyond the limits
//	end     -> one is left, or all that are left are as good, or the rounds or the budget are spent
//
// Dropping by confidence bounds is the Hoeffding race (Maron and Moore, "Hoeffding races", NIPS 1993). Rounds as blocks,
// and tests against the best with Holm's correction, are those of the F-race's t-test variant (Birattari, Stützle,
// Paquete, Varrentrapp, "A racing algorithm for configuring metaheuristics", GECCO 2002).
//
// A stage with an invalid measurement is run again. If it is invalid again, the target is dropped, and told apart from
// those that lost.
type race struct {
	common
	asked       *spatev1.Choose
	sign        float64 // -1: less is better
	rivals      []*rival
	turn        []*rival // those that the round has still to measure
	round       int      // from 0
	stages      uint32
	again, over bool    // the last stage is to be run again; nothing more is to be measured
	first, last float64 // middles of the first and the last stage
	unsure      string  // why the best is not known for sure

	layout *chance.Rounds // of the values; nil: they say nothing
	sides  []int          // numbers of its sides
	fitted uint32         // stages that it has
}

// rival is a target of a race, with a probe for each round. The values of probes are logarithms, more is better.
type rival struct {
	name   string
	number int
	probes []probe
	out    string // why it was dropped; empty: it was not
}

func newRace(template *spatev1.LoadPoint, targets []*spatev1.Stage) *race {
	s := &race{common: common{template: template}, asked: template.GetChoose()}
	s.sign = map[bool]float64{true: 1, false: -1}[loadpoint.IsThroughput(s.asked.GetBest())]
	for i, t := range targets {
		s.rivals = append(s.rivals, &rival{name: t.GetTarget().GetName(), number: i})
	}
	s.turn = s.left()
	return s
}

// Next returns the next stage.
func (s *race) Next() (Step, bool) {
	if s.ended != "" || s.over {
		return Step{}, false
	}
	step := Step{Number: uint32(s.round), Purpose: Round, Entrant: s.turn[0].number, Load: plain(s.template)}
	step.Load.Repeat = uint32(s.round)
	return step, true
}

// left returns the targets that were not dropped, in the plan's order.
func (s *race) left() []*rival {
	return slices.DeleteFunc(slices.Clone(s.rivals), func(r *rival) bool { return r.out != "" })
}

// Take records the stage of a target.
func (s *race) Take(stageIndex uint32, o Outcome) string {
	for len(s.turn) > 0 && s.turn[0].name != o.Target { // dropped by a coordinator that is gone
		s.Drop(s.turn[0].name, "it did not run to its end")
	}
	if len(s.turn) == 0 {
		return ""
	}
	r, value := s.turn[0], s.value(o)
	s.stages, s.first, s.last = s.stages+1, cmp.Or(s.first, o.Middle), o.Middle
	_, broke := Judge(cmp.Or(s.asked.GetWithin(), &spatev1.Objectives{}), o)
	switch why := s.invalid(o); {
	case why != "" && !s.again:
		s.again = true
		return fmt.Sprintf("%s could not be measured (%s): it is measured again", r.name, why)
	case why != "":
		return s.drop(r, "could not be measured twice: "+why)
	case value <= 0:
		return s.drop(r, cmp.Or(broke, s.unit()+" is 0 or not known"))
	}
	r.probes = append(r.probes, probe{value: s.sign * math.Log(value), stage: stageIndex, reason: broke, outcome: o})
	s.again, s.turn = false, s.turn[1:]
	return s.settle()
}

// invalid returns why a stage says nothing about its target. Empty: it does.
func (s *race) invalid(o Outcome) string {
	verdict := map[string]string{"INVALID": cmp.Or(o.Doubts, "the stage is INVALID")}[o.Verdict]
	short := map[float64]string{1: tooShort(o)}[s.sign]
	return cmp.Or(unmeasured(o, s.template, s.asked.GetTolerance()), verdict, short)
}

// value returns what is compared. 0: there is none.
func (s *race) value(o Outcome) float64 {
	switch best := s.asked.GetBest(); {
	case s.sign < 0:
		return o.last()
	case best == "output_throughput":
		return *cmp.Or(o.OutputThroughput, new(0.))
	case best == "goodput":
		return o.goodput()
	}
	return *cmp.Or(o.Throughput, new(0.))
}

// Drop leaves a target out.
func (s *race) Drop(target, why string) {
	s.drop(s.rivals[slices.IndexFunc(s.rivals, func(r *rival) bool { return r.name == target })], why)
}

// drop leaves a target out, and returns what a person should know.
func (s *race) drop(r *rival, why string) string {
	r.out, s.again = why, false
	s.turn = slices.DeleteFunc(s.turn, func(o *rival) bool { return o == r })
	return strings.Trim(fmt.Sprintf("%s is left out: %s; %s", r.name, why, s.settle()), "; ")
}

// settle judges the targets at the end of a round, and begins the next one. It returns what a person should know.
func (s *race) settle() (text string) {
	if len(s.turn) > 0 || s.over {
		return ""
	}
	if dropped := s.judge(); len(dropped) > 0 {
		text = fmt.Sprintf("dropped after round %d: %s", s.round+1, strings.Join(dropped, ", "))
	}
	s.conclude()
	s.round++
	if s.turn = s.left(); s.round%2 == 1 {
		slices.Reverse(s.turn)
	}
	return text
}

// judge drops the targets that cannot be the best, and returns their names.
func (s *race) judge() (dropped []string) {
	out := func(r *rival, why string) { r.out, dropped = why, append(dropped, r.name) }
	for _, r := range s.left() {
		if n, broke := r.breaks(); 2*n-len(r.probes) >= lead {
			out(r, fmt.Sprintf("beyond the limits in %d of %d rounds: %s", n, len(r.probes), broke))
		}
	}
	best := s.best()
	var worse []*rival
	var ps []float64
	for _, r := range s.left() {
		if d, spread := s.versus(r, best); d < 0 {
			worse, ps = append(worse, r), append(ps, spread.Beyond(d, 0))
		}
	}
	level := alarm / math.Pow(float64(s.asked.GetRounds()-1), looking) // the first round says nothing
	if len(ps) > 1 {
		level *= 2 // that the best one looks worse than another is one side; of two targets, either may be called worse
	}
	for i, p := range chance.Holm(ps) {
		if p <= level {
			out(worse[i], s.changeWords(worse[i], best)+" against "+best.name)
		}
	}
	return dropped
}

// conclude ends the race if no more is to be measured.
func (s *race) conclude() {
	best, rivals, round := s.best(), s.left(), s.round+1
	apart := slices.ContainsFunc(rivals, func(r *rival) bool { // or not known not to be
		n, _ := r.breaks()
		d, spread := s.versus(r, best)
		return r != best && (spread.Freedom == 0 || 2*n >= len(r.probes) ||
			math.Abs(d)+spread.Margin(confidence) > math.Log1p(s.asked.GetTolerance()))
	})
	// The end of the next round, in seconds after the first stage.
	next := (s.last - s.first) / float64(max(1, s.stages-1)) * float64(int(s.stages)+len(rivals))
	switch budget := s.asked.GetBudget().AsDuration(); {
	case !apart:
	case round >= int(s.asked.GetRounds()):
		s.unsure = fmt.Sprintf("%d rounds do not tell them apart: raise rounds or make each stage longer", round)
	case budget > 0 && round >= 2 && next > budget.Seconds():
		s.unsure = fmt.Sprintf("the budget of %s does not tell them apart", budget)
	}
	s.over = !apart || s.unsure != ""
}

// breaks returns in how many rounds the target was beyond the limits, and the last reason.
func (r *rival) breaks() (n int, broke string) {
	for _, p := range r.probes {
		if p.reason != "" {
			n, broke = n+1, p.reason
		}
	}
	return n, broke
}

// values returns the values of all probes.
func (r *rival) values() []float64 {
	return lists.Each(r.probes, func(p probe) float64 { return p.value })
}

// mean returns the mean of all values.
func (r *rival) mean() float64 { return floats.Sum(r.values()) / float64(max(1, len(r.probes))) }

// good returns the targets that are left and mostly within the limits, in the plan's order.
func (s *race) good() []*rival {
	return slices.DeleteFunc(s.left(), func(r *rival) bool { n, _ := r.breaks(); return 2*n >= len(r.probes) })
}

// best returns the best of the good targets. Nil: there is none.
func (s *race) best() (best *rival) {
	for _, r := range s.good() {
		if best == nil || r.mean() > best.mean() {
			best = r
		}
	}
	return best
}

// versus returns how much better a target is than another, as a logarithm, over the rounds of both, and the spread of
// that, by all stages. Without degrees of freedom it is not known.
func (s *race) versus(r, other *rival) (difference float64, spread chance.Spread) {
	if s.fitted != s.stages {
		s.fit()
	}
	if r == other || other == nil || s.layout == nil || min(len(r.probes), len(other.probes)) == 0 {
		return 0, spread
	}
	return s.layout.Difference(slices.Index(s.sides, r.number), slices.Index(s.sides, other.number))
}

// fit fits the values of all stages.
func (s *race) fit() {
	var values, at []float64
	var side, round []int
	for _, r := range s.rivals {
		values = append(values, r.values()...)
		for k, p := range r.probes {
			at, side, round = append(at, p.outcome.Middle), append(side, r.number), append(round, k)
		}
	}
	s.layout, s.sides, s.fitted = chance.NewRounds(values, at, side, round), slices.Compact(side), s.stages
}

// Record returns the best target so far, how the others compare with it, and why they were dropped.
func (s *race) Record() *spatev1.SeriesRecord {
	rec := &spatev1.SeriesRecord{Load: s.template, Stages: s.stages, Reason: cmp.Or(s.ended, s.unsure)}
	best, rivals := s.best(), slices.Clone(s.rivals)
	place := func(r *rival) int { return slices.Index([]bool{r == best, r.out == "", true}, true) }
	slices.SortStableFunc(rivals, func(a, b *rival) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(len(b.probes), len(a.probes)),
			cmp.Compare(b.mean(), a.mean()))
	})
	for _, r := range rivals {
		for _, p := range r.probes {
			if rank(p.outcome.Verdict) > rank(rec.GetVerdict()) {
				rec.Verdict = p.outcome.Verdict
			}
		}
		rec.Rivals = append(rec.Rivals, s.record(r, best))
	}
	if s.over && best == nil {
		rec.Reason = "no target is within the limits"
	}
	var found []string
	if best != nil && s.round > 0 {
		rec.Target, rec.Complete, rec.Converged, found = best.name, true, rec.GetReason() == "", s.found(best, rivals)
	}
	rec.Sentence = sentence(rec, found, words.Count(uint64(s.stages), "stage"))
	return rec
}

// found says which target is best, by how much, and what became of the others. Those that are not told apart lead
// together, in the plan's order: which of them was the best is chance.
func (s *race) found(best *rival, rivals []*rival) []string {
	who, verb, how := best.name, "is the best of", "as good within "+percent(s.asked.GetTolerance())+": "
	if s.unsure != "" || s.ended != "" {
		together := s.good()
		who = words.Shorten(lists.Each(together, func(r *rival) string { return r.name }), listed)
		verb = map[bool]string{true: "leads", false: "lead"}[len(together) == 1]
		how = "not told apart from " + best.name + ": "
	}
	value := strings.Replace(rateWords(math.Exp(best.mean())), "req/s", s.unit(), 1)
	if s.sign < 0 {
		value = s.unit() + " " + loadpoint.Milliseconds(time.Duration(math.Exp(-best.mean())*float64(time.Second)))
	}
	if len(best.probes) > 2 {
		_, spread := chance.Mean(best.values())
		value += " ± " + percent(math.Expm1(spread.Margin(confidence)))
	}
	found := []string{fmt.Sprintf("%s %s %d targets: %s in %s", who, verb, len(rivals), value,
		words.Count(uint64(len(best.probes)), "round"))}
	names := map[string][]string{}
	for _, r := range rivals[1:] {
		list := map[bool]string{true: how, false: "dropped: "}[r.out == ""]
		why := strings.TrimSuffix(cmp.Or(r.out, s.changeWords(r, best)), " against "+best.name)
		names[list] = append(names[list], fmt.Sprintf("%s (%s)", r.name, why))
	}
	for _, list := range []string{how, "dropped: "} {
		if len(names[list]) > 0 {
			found = append(found, list+words.Shorten(names[list], listed))
		}
	}
	return found
}

// record returns a target for the ledger, against another.
func (s *race) record(r, other *rival) *spatev1.Rival {
	v := &spatev1.Rival{Target: r.name, Dropped: r.out}
	v.Stages = lists.Each(r.probes, func(p probe) uint32 { return p.stage })
	if d, spread := s.versus(r, other); spread.Freedom > 0 {
		d, margin := d*s.sign, spread.Margin(confidence)
		v.Change, v.Low, v.High = new(math.Expm1(d)), new(math.Expm1(d-margin)), new(math.Expm1(d+margin))
	}
	return v
}

// changeWords says how a target's value differs from another's: "-2.1 %, -3 to -1.2 %".
func (s *race) changeWords(r, other *rival) string {
	v := s.record(r, other)
	if v.Change == nil {
		return "no interval"
	}
	return fmt.Sprintf("%+.3g %%, %+.3g to %+.3g %%", 100*v.GetChange(), 100*v.GetLow(), 100*v.GetHigh())
}

// unit names what is compared.
func (s *race) unit() string {
	units := map[string]string{"throughput": "req/s", "output_throughput": "tok/s", "goodput": "good req/s"}
	return cmp.Or(units[s.asked.GetBest()], loadpoint.LatencyWords(s.asked.GetBest(), s.asked.GetPercentile()))
}
