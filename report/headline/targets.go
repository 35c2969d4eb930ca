package headline

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
)

// targets says how the other targets differ from the baseline. searched: the run has searches or frontiers.
func (w *writer) targets(names []string, searched bool) error {
	all := compare.ByTarget([]*compare.Run{w.run})
	tolerance, _ := compare.Tolerance(compare.DefaultTolerance)
	c, err := compare.Of(all, compare.Options{Tolerance: tolerance})
	switch {
	case errors.Is(err, compare.ErrNothingInCommon):
		w.doubt("the targets have no load in common, so they cannot be compared")
		return w.target()
	case err != nil:
		return err
	}
	w.changes = c
	if searched {
		if err := w.series(); err != nil {
			return err
		}
	}
	verdicts := []string{}
	for i := range c.Sides {
		side := &c.Sides[i]
		verdicts = words.AppendOnce(verdicts, Verdict(side))
		if i < most-1 && !searched {
			w.versus(names[0], side)
		}
		if g := w.times(side.Name, names[0]); g > 0 {
			w.doubt("%s has %.3g times the GPUs of %s", side.Name, g, names[0])
		}
		for _, text := range doubts(side, " is SUSPECT: ") { // which is told anyway
			w.doubt("%s", text)
		}
	}
	if w.Verdict = &verdicts[0]; len(verdicts) > 1 {
		w.Verdict = new(Mixed)
	}
	switch {
	case slices.ContainsFunc(w.r.Run.Series, func(s results.SeriesResult) bool { return s.Kind == loadpoint.Choice }):
		// It has said how they differ, over all of its rounds.
	case len(c.Sides) > 1:
		parts := lists.Each(c.Sides, func(a compare.Against) string { return a.Name + " " + Verdict(&a) })
		w.say("Against %s: %s", names[0], words.Shorten(parts, 2*most))
	case len(c.Sides[0].Stages)+len(c.Sides[0].Answers) == 0:
		return w.target()
	default:
		w.say("%s", capital(tally(&c.Sides[0])))
		w.say("%s", changes(&c.Sides[0]))
	}
	return nil
}

// versus says by how much a target carries more or less than the baseline, within the limit of loads and at the peak.
func (w *writer) versus(baseline string, side *compare.Against) {
	var parts []string
	within := w.pairs(baseline, side, (*curve).kept)
	for i, p := range within {
		w.uncertain(p.ours)
		w.uncertain(p.theirs)
		if i == 0 {
			parts = append(parts, w.ratio(within, baseline, side, "within "+p.theirs.limit))
		}
	}
	if peaks := w.pairs(baseline, side, (*curve).peak); len(peaks) > 0 {
		parts = append(parts, w.ratio(peaks, baseline, side, "at its peak"))
	}
	lead := Verdict(side) + ": " + side.Name + " carries "
	if undecided(Verdict(side)) {
		lead = shown(side.Name+" against "+baseline, Verdict(side)) + ", "
	}
	if len(parts) > 0 {
		w.say("%s%s", lead, strings.Join(parts, ", and "))
	}
}

// pair is a point of a target beside one of the baseline, with the change of throughput between them.
type pair struct {
	ours, theirs *point
	of           *curve
	baseline     float64
	value        float64
	difference   *compare.Difference
}

// pairs returns a point of a target beside that of the baseline, of each workload of both.
func (w *writer) pairs(baseline string, side *compare.Against, pick func(*curve) *point) (all []pair) {
	for _, c := range w.curves {
		b := w.curve(baseline, c.workload)
		if c.target != side.Name || b == nil || b.tokens != c.tokens || pick(b) == nil || pick(c) == nil {
			continue
		}
		p := pair{pick(b), pick(c), c, b.throughput(pick(b)), c.throughput(pick(c)),
			&compare.Difference{Outcome: compare.Untested}}
		if p.ours.load == p.theirs.load {
			p.difference = tested(side, c, p.ours.load)
		}
		all = append(all, p)
	}
	return all
}

// ratio says how the throughput of a target differs from the baseline's, over the workloads of both.
func (w *writer) ratio(pairs []pair, baseline string, side *compare.Against, where string) string {
	var changes, perGPU []float64
	outcomes := map[compare.Outcome]int{}
	for i, p := range pairs {
		d := p.difference
		change := *cmp.Or(d.Change, new(p.value/p.baseline-1)) // that of d is without a drift
		changes = append(changes, change)
		if g := w.times(side.Name, baseline); g > 0 {
			perGPU = append(perGPU, (1+change)/g-1)
		}
		if outcomes[d.Outcome]++; d.Why != "" && i == 0 {
			w.doubt("%s at %s: %s", p.of.unit(), p.ours.load, d.Why)
		}
		w.Rest(slices.Concat(p.ours.of, p.theirs.of)...)
	}
	detail := fmt.Sprintf("over %d workloads: %s", len(pairs), outcomeWords(outcomes))
	if len(pairs) == 1 {
		detail = pairs[0].words()
	}
	if perGPU != nil {
		detail += "; per GPU " + amount(perGPU)
	}
	if change := span(slices.Min(changes), slices.Max(changes)); undecided(Verdict(side)) {
		return fmt.Sprintf("%s %s %s (%s)", pairs[0].of.unit(), change, where, detail)
	}
	return fmt.Sprintf("%s %s than %s %s (%s)", amount(changes), pairs[0].of.unit(), baseline, where, detail)
}

// words returns the values of a pair, their loads, and what the change means.
func (p *pair) words() string {
	text := fmt.Sprintf("%s against %s", number(p.value), number(p.baseline))
	if p.ours.load != p.theirs.load {
		return fmt.Sprintf("%s, at %s and at %s; not the same load, untested", text, p.theirs.load, p.ours.load)
	}
	text += fmt.Sprintf(", both at %s; %s", p.ours.load, p.difference.Outcome)
	if d := p.difference; d.Low != nil {
		text += ", " + span(*d.Low, *d.High)
	}
	if p.difference.Drift != nil {
		text += ", without what changed over time"
	}
	return text
}

// tested returns the change of throughput at a load that both sides have.
func tested(side *compare.Against, c *curve, load string) *compare.Difference {
	for s := range lists.Refs(side.Stages) {
		if d := s.Difference(c.metric()); d != nil && s.Workload == c.workload && s.Load == load {
			return d
		}
	}
	return &compare.Difference{Outcome: compare.Untested}
}

// curve returns the curve of a target and a workload, or nil.
func (w *writer) curve(target, workload string) *curve {
	return lists.Find(w.curves, func(c *curve) bool { return c.target == target && c.workload == workload })
}

// gpus returns the number of a target's GPUs, NaN if it is not known.
func (w *writer) gpus(target string) float64 {
	if t := w.r.Run.Target(target); t != nil && t.GPUs != nil {
		return float64(*t.GPUs)
	}
	return math.NaN()
}

// times returns how many times as many GPUs a target has as the baseline. 0: as many, or not known.
func (w *writer) times(target, baseline string) float64 {
	if g := w.gpus(target) / w.gpus(baseline); g > 0 && g != 1 {
		return g
	}
	return 0
}
