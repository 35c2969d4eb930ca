package compare

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/spate-load/spate/internal/chance"
	"github.com/spate-load/spate/internal/lists"
)

// turns are the stages of two targets in the same runs.
type turns struct {
	*chance.Turns
	stages []*stage
	timed  bool // it is known when the stages ran
}

// newTurns returns the turns of stages of both targets. It returns nil if their difference cannot be told from a drift,
// or if there are fewer than two stages of each. Of stages that ran again, the times do not matter.
func newTurns(ours, theirs []stage, again bool) *turns {
	d := &turns{timed: !again}
	var side []bool
	var at []float64
	var runs, rounds []int
	number := map[place]int{}
	for _, of := range [][]stage{ours, theirs} {
		for s := range lists.Refs(of) {
			middle, known := s.result.Middle()
			if _, seen := number[s.place]; !seen {
				number[s.place] = len(number)
			}
			d.stages, d.timed = append(d.stages, s), d.timed && known
			side, at = append(side, len(d.stages) > len(ours)), append(at, middle)
			runs, rounds = append(runs, s.place.run), append(rounds, number[s.place])
		}
	}
	if again {
		at = nil
	} else if !d.timed {
		for i, s := range d.stages {
			at[i] = float64(s.result.Index)
		}
	}
	if d.Turns = chance.NewTurns(side, at, runs, rounds); d.Turns == nil {
		return nil
	}
	return d
}

// measured is a metric of all stages of turns.
type measured struct {
	*turns
	metric *Metric
	values []float64   // on the scale of the test
	moved  [][]float64 // by how much each part of each stage moves its value; nil: not known
	few    bool        // that is because a stage has too few requests
	least  int         // parts that a request lasts
	widthS float64     // of a part
}

// spread returns the spread of a weighted sum of the stages' values: by how much the stages vary over their time, and
// beyond that by how much they differ from one another. ok is false if neither is known.
func (m *measured) spread(weights []float64) (spread chance.Spread, ok bool) {
	between := m.Between(m.values, weights)
	if m.moved == nil {
		return between, m.Freedom >= leastFreedom
	}
	sums := make([]float64, bins)
	for i, moved := range m.moved {
		floats.AddScaled(sums, weights[i], moved)
	}
	within, ok := chance.Series(sums, m.least)
	switch {
	case m.Freedom < leastFreedom:
		return within, ok
	case !ok:
		return between, true
	}
	return chance.Both(within, between), true
}

// leastFreedom is the least number of degrees of freedom with which stages say how much they differ: two repeats of
// each have one, from which nothing would follow.
const leastFreedom = 2

// compare compares the targets.
func (d *turns) compare(k key, ours, theirs []stage, o Options) (Stage, error) {
	s := newStage(k, ours, theirs)
	if s.Method = Turns; o.Again {
		s.Method = Repeats
	}
	var err error
	if s.Requests, err = samenessOf(ours, theirs); err != nil {
		return s, err
	}
	all := make([]*series, len(d.stages))
	for i, of := range d.stages {
		if all[i], err = newSeries(of); err != nil {
			return s, err
		}
	}
	if !d.InTurns {
		s.Marks = append(s.Marks, blockwise)
	}
	for m := range lists.Refs(Metrics) {
		a, b := m.values(ours, ""), m.values(theirs, "")
		if len(a) < len(ours) || len(b) < len(theirs) {
			continue
		}
		difference, middles := m.compare(mean(a), mean(b)), [2]float64{median(a), median(b)}
		of, ok := d.measure(m, append(a, b...), all)
		if !ok {
			s.Metrics = append(s.Metrics, difference.untested("one of the values is 0"))
			continue
		}
		s.Metrics = append(s.Metrics, of.test(difference, o).medians(middles, o))
		if s.tellsDriftOf(m) {
			s.tellDrift(of)
		}
	}
	return s, nil
}

// blockwise says what is wrong with targets that do not run in turns.
const blockwise = "the targets did not run in turns: time and target cannot be told apart, except for a steady drift"

// measure returns a metric of all stages, by their values and parts. It returns false if a value has no logarithm.
func (d *turns) measure(m *Metric, values []float64, all []*series) (*measured, bool) {
	of := &measured{turns: d, metric: m}
	for i, v := range values {
		if !m.Share {
			if v <= 0 {
				return nil, false
			}
			values[i] = math.Log(v)
		}
	}
	of.values = values
	for i, s := range all {
		if s == nil {
			return of, true
		}
		v := m.value(d.stages[i].result)
		moved := m.series(s, *v)
		if moved == nil {
			of.moved, of.few = nil, true
			return of, true
		}
		of.moved, of.least, of.widthS = append(of.moved, moved), max(of.least, s.residence),
			max(of.widthS, s.widthNs/nanosPerSecond)
	}
	return of, true
}

// test tests the difference between the targets, without the drift. If the targets did not run in turns, it tests that
// with the drift as well: a drift that is not steady is in both.
func (m *measured) test(d Difference, o Options) Difference {
	corrected, raw := floats.Dot(m.Difference, m.values), floats.Dot(m.Raw, m.values)
	spread, ok := m.spread(m.Difference)
	if !ok {
		if m.few {
			return d.untested("two repeats with too few requests do not show how far chance moves this number")
		}
		return d.untested("two repeats without request rows do not show how far chance moves this number")
	}
	if m.InTurns {
		d.Change = new(m.metric.change(corrected))
		d.Drift = new(m.metric.change(raw - corrected))
		return d.testedAs(m.metric, corrected, spread, 0, o)
	}
	plain, _ := m.spread(m.Raw)
	return d.testedAs(m.metric, raw, plain, 0, o).and(d.testedAs(m.metric, corrected, spread, 0, o), blockwise)
}

// and joins two tests of which each may be right: the interval holds both, and only what both find is found. why is the
// reason if only the first one finds it.
func (d Difference) and(other Difference, why string) Difference {
	alone := *d.P
	d.Low, d.High = new(min(*d.Low, *other.Low)), new(max(*d.High, *other.High))
	if *other.P > *d.P {
		d.P, d.test = other.P, other.test
	}
	if (d.test.difference > 0) != (d.Change != nil && *d.Change > 0) {
		d.P = new(1.0)
	}
	if alone <= 1-confidence && *d.P > 1-confidence {
		d.Why = why
	}
	return d
}

// Drift is how a number of both targets changed over time.
type Drift struct {
	// Metric that it is the drift of.
	Metric string `json:"metric"`
	// Change in a second, relative to the number, with the ends of its confidence interval.
	PerSecond float64 `json:"per_second"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
}

// driftMetrics are the numbers whose drift is told: of the first that a stage has.
var driftMetrics = []string{"tpot_ms.mean", "itl_ms.mean", "e2e_ms.mean"}

// tellsDriftOf reports whether the drift of a metric is the one to tell. Metrics come in the order of driftMetrics.
func (s *Stage) tellsDriftOf(m *Metric) bool {
	return s.Drift == nil && slices.Contains(driftMetrics, m.Name)
}

// tellDrift adds the drift of a number over all stages.
func (s *Stage) tellDrift(m *measured) {
	if spread, ok := m.spread(m.Drift); ok && m.timed {
		effect := "the difference between them is not affected"
		if !m.InTurns {
			effect = "how much of the difference between them comes from that is not known"
		}
		s.addDrift(m.metric, floats.Dot(m.Drift, m.values), spread, effect)
	}
}

// tellDriftWithin adds the drift of a number within two stages.
func (s *Stage) tellDriftWithin(p *pairOf, m *Metric, d Difference) {
	x, y, least := m.series(p.a, d.Baseline), m.series(p.b, d.Value), max(p.a.residence, p.b.residence)
	if x == nil || y == nil {
		return
	}
	drifts := p.drifts(x, y, least)
	if spread, ok := chance.Series(drifts, least); ok {
		s.addDrift(m, floats.Sum(drifts)/bins, spread.Fitted(), "how much of the difference between them comes from that is not known")
	}
}

// addDrift adds a drift, and says it if chance does not make it.
func (s *Stage) addDrift(m *Metric, perSecond float64, spread chance.Spread, effect string) {
	margin := spread.Margin(confidence)
	s.Drift = &Drift{Metric: m.Name, PerSecond: perSecond, Low: perSecond - margin, High: perSecond + margin}
	if math.Abs(perSecond) <= margin {
		return
	}
	how, size := "slowed", 100*math.Abs(perSecond)
	if perSecond < 0 {
		how = "got faster"
	}
	s.Marks = append(s.Marks, fmt.Sprintf("both targets %s by %.2g %%/s (%s, %.2g to %.2g); %s", how, size, m.Title,
		size-100*margin, size+100*margin, effect))
}

// guarded tests a difference of one stage of each target. They ran one after the other, so that the drift within them
// may explain it: the difference is tested with and without that. x and y are by how much the parts of both move the
// number.
func (p *pairOf) guarded(
	d Difference, m *Metric, x, y []float64, least int, plain chance.Spread, o Options,
) Difference {
	raw := d.tested(m, plain, 0, o)
	if raw.test == nil {
		return raw
	}
	drifts, corrected := p.drifts(x, y, least), floats.SubTo(make([]float64, bins), y, x)
	level(corrected, 0, bins)
	floats.AddScaled(corrected, -p.apartS, drifts)
	drift := floats.Sum(drifts) / bins
	spread, ok := chance.Series(corrected, least)
	if !ok {
		return d.untested("the stage is too short: its numbers drift over all of its time")
	}
	spread = spread.Fitted()
	return raw.and(d.testedAs(m, raw.test.difference-p.apartS*drift, spread, 0, o), onceEach)
}

// onceEach says why a difference between one stage of each target is not called.
const onceEach = "one stage of each target: what changes over time may explain it; repeats in turns take that out"

// pairOf are two stages of two targets in one run.
type pairOf struct {
	a, b *series
	// apartS is the seconds from the middle of the first to that of the second; negative: the second ran first; 0: not
	// known.
	apartS float64
}

// drifts returns by how much each part of both stages moves the drift within them, the relative change in a second,
// around the drift that they have. The first and the last parts, where requests begin and end together, do not count.
func (p *pairOf) drifts(x, y []float64, least int) []float64 {
	both := make([]float64, bins)
	for k := range both {
		both[k] = (x[k]/p.a.widthNs + y[k]/p.b.widthNs) * nanosPerSecond / 2
	}
	from, to := least, bins-least
	slope, square := level(both, from, to)
	centre := float64(from+to-1) / 2
	for k := range both {
		if k < from || k >= to {
			both[k] = 0
		}
		both[k] = both[k]*bins*(float64(k)-centre)/square + slope
	}
	return both
}

// level takes the slope of the parts from one to another out of all of them. It returns the slope, for each part, and
// the sum of the squares that it was found with.
func level(parts []float64, from, to int) (slope, square float64) {
	centre := float64(from+to-1) / 2
	for k := from; k < to; k++ {
		square += (float64(k) - centre) * (float64(k) - centre)
		slope += (float64(k) - centre) * parts[k]
	}
	slope /= square
	for k := range parts {
		parts[k] -= slope * (float64(k) - centre)
	}
	return slope, square
}
