package series

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Factors by which a frontier raises the load at first: a closed loop faster, because no server falls behind it.
const (
	closedFactor = 4
	openFactor   = 2
)

// frontier measures throughput against latency. The stages done are its whole state; the next stage is a function of
// them.
//
//	from -> bracket: large steps up, until the throughput stops growing, the server does not keep up, or `to`
//	     -> confirm: a load again whose stage ends the way up, bounds the loads within the objectives, or contradicts
//	        its neighbours. If the two do not agree within the tolerance, a third is the judge: the middle one counts
//	     -> bisect: wherever the curve between two points is not known within the tolerance
//
// What is not known between two points is a question of the curve's shape, not of their distance: see gap.
type frontier struct {
	common
	asked *spatev1.Frontier
	axis
	tolerance float64 // of logarithms
	points    int     // most stages
	factor    float64
	runs      []point // all stages, by load, those of a load in their order
	curve     []point // by load
	out       []point // loads that are not on the curve, by load
	again     bool    // the last stage is to be run again
	last      float64 // load of the last stage
	peak      string  // why no higher load is needed; empty: the load still rises, or a stage in out says why
}

// point is a stage that was run.
type point struct {
	load                         float64
	stage                        uint32
	throughput, latency, goodput float64 // 0: not known, or none
	judged                       []judged
	out                          string // why the stage is not on the curve; empty: it is
	verdict                      string
	unmeasured                   bool // the stage says nothing about the server
}

// judged is whether a stage kept the objectives: the whole, then each part of a mixture.
type judged struct {
	part  string // empty: the whole
	broke string // why an objective was missed; empty: all were kept
}

func newFrontier(template *spatev1.LoadPoint) *frontier {
	asked := template.GetFrontier()
	f := &frontier{common: common{template: template}, asked: asked, points: int(asked.GetPoints()), factor: openFactor,
		tolerance: math.Log1p(max(asked.GetTolerance(), finest))}
	f.axis = newAxis(asked.GetRate(), asked.GetConcurrency(), max(asked.GetTolerance(), finest))
	if f.integer {
		f.factor = closedFactor
	}
	// At most half of the stages are for the way up.
	f.factor = max(f.factor, math.Pow(f.to/f.from, 1/float64(max(1, f.points/2))))
	return f
}

// Next returns the next stage.
func (f *frontier) Next() (Step, bool) {
	value, purpose := f.next()
	if purpose == "" {
		return Step{}, false
	}
	return Step{Number: uint32(len(f.runs)), Purpose: purpose, Value: value, Load: f.load(f.template, value)}, true
}

// next returns the load and purpose of the next stage. An empty purpose means the frontier has ended.
func (f *frontier) next() (value float64, purpose string) {
	switch {
	case f.ended != "" || len(f.runs) >= f.points:
		return 0, ""
	case len(f.runs) == 0:
		return f.from, Bracket
	case f.again:
		return f.last, Again
	}
	if at := f.doubted(f.misleads); len(at) > 0 {
		return at[0], Confirm
	}
	if len(f.curve) > 0 && f.rising() {
		return f.up(), Bracket
	}
	last := f.doubted(f.bounds)
	if unknown, at := f.widest(); unknown > f.tolerance && len(f.runs)+len(last) < f.points {
		return at, Bisect
	}
	if len(last) > 0 {
		return last[0], Confirm
	}
	return 0, ""
}

// highest returns the point of the curve with the highest load.
func (f *frontier) highest() point { return f.curve[len(f.curve)-1] }

// ceiling returns the lowest load above the curve that is not on it, nil if there is none.
func (f *frontier) ceiling() *point {
	return lists.First(f.out, func(p *point) bool { return len(f.curve) == 0 || p.load > f.highest().load })
}

// rising reports whether higher loads are to be measured.
func (f *frontier) rising() bool { return f.peak == "" && f.ceiling() == nil }

// up returns the next load on the way up, at most `to`.
func (f *frontier) up() float64 {
	v := f.round(f.highest().load * f.factor)
	if v*math.Exp(f.tolerance) >= f.to {
		return f.to
	}
	return v
}

// widest returns how much of the curve is not known in the place where most is not known, as a logarithm, and the load
// to measure there. It returns 0 if everything is known.
func (f *frontier) widest() (unknown, at float64) {
	for i := range len(f.curve) - 1 {
		if v, ok := f.between(f.curve[i].load, f.curve[i+1].load); ok {
			if gap := f.gap(i); gap > unknown {
				unknown, at = gap, v
			}
		}
	}
	if width, v := f.overCurve(); width > unknown {
		return width, v
	}
	return unknown, at
}

// between returns the load in the middle of two, on a logarithmic scale. It returns false if the two are within the
// tolerance, or if a stage between them is not on the curve.
func (f *frontier) between(a, b float64) (middle float64, ok bool) {
	hole := slices.ContainsFunc(f.out, func(p point) bool { return p.load > a && p.load < b })
	v := f.round(math.Sqrt(a * b))
	return v, !hole && v > a && v < b && math.Log(b/a) > f.tolerance
}

// overCurve returns how far the lowest load that the server did not keep up with is above the curve, as a logarithm,
// and the load to measure between. It returns 0 if there is no such load, or if it says nothing about the server.
func (f *frontier) overCurve() (width, at float64) {
	c := f.ceiling()
	if c == nil || c.unmeasured || len(f.curve) == 0 {
		return 0, 0
	}
	high := f.highest().load
	middle, ok := f.between(high, c.load)
	if !ok {
		return 0, 0
	}
	// A saturated server completes its capacity: below it the server keeps up, a step above it does not.
	near, step := f.round(c.throughput*math.Exp(-f.tolerance/2)), f.round(high*math.Exp(f.tolerance))
	switch {
	case f.integer || c.throughput == 0:
	case near > high*math.Exp(f.tolerance/4) && near < c.load:
		middle = near
	case near <= high*math.Exp(f.tolerance/4) && c.throughput < high*math.Exp(2*f.tolerance) && step < c.load:
		middle = step
	}
	return math.Log(c.load / high), middle
}

// Take records the stage that Next returned last.
func (f *frontier) Take(stageIndex uint32, o Outcome) string {
	step, ok := f.Next()
	if !ok {
		return ""
	}
	p := f.pointOf(step, stageIndex, o)
	f.again, f.last = p.unmeasured && !o.Short && step.Purpose != Again, step.Value
	f.runs = append(f.runs, p)
	slices.SortStableFunc(f.runs, func(a, b point) int { return cmp.Compare(a.load, b.load) })
	f.settle()
	switch {
	case f.again:
		return f.againWords(p.load, p.out)
	case len(f.curve) == 0 && len(f.doubted(f.bounds)) == 0:
		f.End(fmt.Sprintf("the lowest load, %s, is not on the curve: %s", f.words(p.load), p.out))
	case len(f.curve) > 0 && len(f.doubted(f.misleads)) == 0:
		f.peak = cmp.Or(f.peak, f.saturated(), f.bounded())
	}
	if p.out != "" {
		return fmt.Sprintf("%s is not on the curve: %s", f.words(p.load), p.out)
	}
	return ""
}

// settle works out the curve from all stages.
func (f *frontier) settle() {
	f.curve, f.out = nil, nil
	for _, at := range f.loads() {
		if p := counting(at); p.out == "" {
			f.curve = append(f.curve, p)
		} else {
			f.out = append(f.out, p)
		}
	}
}

// loads returns the stages of each load.
func (f *frontier) loads() (all [][]point) {
	for i, p := range f.runs {
		if i == 0 || p.load != f.runs[i-1].load {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], p)
	}
	return all
}

// measured returns the stages of a load that say something about the server.
func measured(at []point) []point {
	return slices.DeleteFunc(slices.Clone(at), func(p point) bool { return p.unmeasured })
}

// counting returns the stage of a load that counts: the one in the middle, the better one of two. If none was measured
// it is the last one.
func counting(at []point) point {
	runs := measured(at)
	if len(runs) == 0 {
		return at[len(at)-1]
	}
	slices.SortStableFunc(runs, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.out, b.out), cmp.Compare(b.power(), a.power()))
	})
	return runs[(len(runs)-1)/2]
}

// power is throughput divided by latency.
func (p point) power() float64 { return p.throughput / p.latency }

// doubted returns the loads to measure again: those with one stage, if it is so important, those with two that do not
func (f *frontier) doubted(important func(point) bool) (at []float64) {
	for _, all := range f.loads() {
		again := false
		switch runs := measured(all); len(runs) {
		case 1:
			again = important(runs[0])
		case 2:
			again = !f.agree(runs[0], runs[1]) || f.contradicts(counting(all))
		case 3, 4:
			again = f.contradicts(counting(all)) && (!f.agree(runs[0], runs[1]) || !f.agree(runs[1], runs[2]))
		}
		if again {
			at = append(at, all[0].load)
		}
	}
	return at
}

// agree reports whether two stages of a load say the same within the tolerance.
func (f *frontier) agree(a, b point) bool {
	if a.out != "" || b.out != "" {
		return a.out != "" && b.out != ""
	}
	for j := range min(len(a.judged), len(b.judged)) {
		if (a.judged[j].broke == "") != (b.judged[j].broke == "") {
			return false
		}
	}
	return math.Abs(math.Log(a.throughput/b.throughput)) <= f.tolerance &&
		math.Abs(math.Log(a.latency/b.latency)) <= f.tolerance
}

// misleads reports whether further stages would be spent in the wrong place if a stage is wrong: it ends the way up, or
// contradicts another.
func (f *frontier) misleads(p point) bool {
	return p.out == "" && f.peak == "" && p.stage == f.highest().stage && f.saturated() != "" || f.contradicts(p)
}

// contradicts reports whether a lower load completes more than a stage on the curve, or a higher load takes less time,
// by more than the tolerance, or a higher load keeps what the stage did not.
func (f *frontier) contradicts(p point) bool {
	more := math.Exp(f.tolerance)
	return p.out == "" && slices.ContainsFunc(f.curve, func(q point) bool {
		if q.load <= p.load {
			return q.load < p.load && q.throughput > p.throughput*more
		}
		for j := range min(len(p.judged), len(q.judged)) {
			if p.judged[j].broke != "" && q.judged[j].broke == "" {
				return true
			}
		}
		return q.latency*more < p.latency
	})
}

// bounds reports whether a stage bounds the answer from above: it is the lowest that is not on the curve, or that did
// not keep the objectives.
func (f *frontier) bounds(p point) bool {
	if p.out != "" {
		c := f.ceiling()
		return c == nil || c.stage == p.stage || p.load < c.load
	}
	return slices.ContainsFunc(f.limits(), func(l *spatev1.LoadLimit) bool {
		return l.Broke != nil && l.GetBroke() == p.load
	})
}

// saturated returns how the highest load shows that no higher one is needed. Empty: it does not.
func (f *frontier) saturated() string {
	n := len(f.curve)
	if n < 2 {
		return ""
	}
	before, top := f.curve[n-2], f.curve[n-1]
	// A step that is not longer than that cannot show more.
	short := top.load <= before.load*math.Exp(2*f.tolerance)
	if short || top.throughput > before.throughput*math.Exp(f.tolerance) {
		return ""
	}
	return fmt.Sprintf("saturated: %s completed %s, %s %s", f.words(before.load), rateWords(before.throughput),
		f.words(top.load), rateWords(top.throughput))
}

// bounded returns that the highest load was measured. Empty: it was not.
func (f *frontier) bounded() string {
	if f.highest().load < f.to {
		return ""
	}
	return "the upper bound of the frontier: raise it to find where the server is saturated"
}

// pointOf returns what a stage measured.
func (f *frontier) pointOf(step Step, stageIndex uint32, o Outcome) point {
	p := point{load: step.Value, stage: stageIndex, verdict: o.Verdict, throughput: *cmp.Or(o.Throughput, new(0.)),
		latency: o.last(), goodput: o.goodput()}
	p.out = cmp.Or(unmeasured(o, step.Load, f.tolerance/2), tooShort(o))
	p.unmeasured = p.out != ""
	if p.out == "" {
		p.out = f.outside(p, step, o)
	}
	if keep := f.asked.GetKeep(); keep != nil {
		parts := o.Parts
		if !keep.GetEachPart() {
			o.Parts = nil
		}
		p.judge(keep, o)
		for _, part := range parts {
			p.judge(keep, part)
		}
	}
	return p
}

// tooShort returns why a closed loop's stage says nothing about its throughput. Empty: it does.
func tooShort(o Outcome) string {
	if o.Short && o.Aborted == "" && o.Completed > 0 {
		return "in no whole second of the stage were all of its slots busy: give it a longer duration, or more requests"
	}
	return ""
}

// judge adds whether an outcome keeps the objectives.
func (p *point) judge(keep *spatev1.Objectives, o Outcome) {
	_, reason := Judge(keep, o)
	p.judged = append(p.judged, judged{part: o.Name, broke: cmp.Or(reason, p.out)})
}

// outside returns why a stage that was measured is not on the curve. Empty: it is.
func (f *frontier) outside(p point, step Step, o Outcome) string {
	switch {
	case o.Aborted != "":
		return o.Aborted
	case p.throughput <= 0:
		return "no request completed"
	case p.latency <= 0:
		return loadpoint.LatencyWords(f.asked.GetMetric(), f.asked.GetPercentile()) + " is not known"
	case f.integer:
		return ""
	}
	_, reason := sustained(o, step.Load, f.tolerance/2)
	return reason
}
