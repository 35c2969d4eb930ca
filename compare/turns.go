package compare

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/compare/chance"
)

// turns are the stages of two targets in the same runs. A steady change over time is taken out of the difference between
// the targets: the values are fitted by least squares with a level for each block of stages, a difference, and a drift.
// The fit is linear, so the difference and the drift are weighted sums of the stages' values.
type turns struct {
	stages []*stage
	theirs []bool    // stages of the other side
	at     []float64 // middles of the stages, in seconds; or their numbers, if the times are not known
	timed  bool      // the times are known
	block  []int
	blocks int

	// Weights of the stages' values: in the difference, in the difference without regard to time, in the drift.
	difference, raw, drift []float64
	freedom                int
	// inTurns reports whether the targets took turns, so that time and target can be told apart.
	inTurns bool
}

const (
	// mostShared is the largest share of the variance in time that the target may explain, of targets in turns. A B B A
	// has 0, A B A B 0.2, A A B B 0.8.
	mostShared = 0.5
	// inseparable is the share from which on a difference cannot be told from a drift at all: A B has 1.
	inseparable = 0.98
	// manyRepeats is the number of repeats from which on each round of turns is a block of its own: then nothing but
	// what changes between neighbours counts, at the price of a degree of freedom for each round.
	manyRepeats = 4
)

// newTurns returns the turns of stages of both targets. It returns nil if their difference cannot be told from a drift,
// or if there are fewer than two stages of each.
func newTurns(ours, theirs []stage) *turns {
	if len(ours) < 2 || len(theirs) < 2 {
		return nil
	}
	d := &turns{timed: true}
	for i := range ours {
		d.stages, d.theirs = append(d.stages, &ours[i]), append(d.theirs, false)
	}
	for i := range theirs {
		d.stages, d.theirs = append(d.stages, &theirs[i]), append(d.theirs, true)
	}
	for _, s := range d.stages {
		at, known := s.middle()
		d.at, d.timed = append(d.at, at), d.timed && known
	}
	if !d.timed {
		for i, s := range d.stages {
			d.at[i] = float64(s.result.Index)
		}
	}
	if d.divide(func(s *stage) place { return place{run: s.place.run} }); !d.fit() {
		return nil
	}
	if d.inTurns && min(len(ours), len(theirs)) >= manyRepeats {
		whole := *d
		if d.divide(func(s *stage) place { return s.place }); !d.fit() || !d.inTurns {
			*d = whole
		}
	}
	for i, is := range d.theirs {
		d.raw = append(d.raw, -1/float64(len(ours)))
		if is {
			d.raw[i] = 1 / float64(len(theirs))
		}
	}
	return d
}

// middle returns the middle of a stage in seconds since 1970, and whether it is known.
func (s *stage) middle() (float64, bool) {
	if s.result.StartTime == nil || s.result.DurationS == nil {
		return 0, false
	}
	start, err := time.Parse(time.RFC3339Nano, *s.result.StartTime)
	return float64(start.UnixNano())/nanosPerSecond + *s.result.DurationS/2, err == nil
}

// divide puts stages of the same place into a block.
func (d *turns) divide(of func(*stage) place) {
	numbers := map[place]int{}
	d.block = make([]int, len(d.stages))
	for i, s := range d.stages {
		p := of(s)
		if _, known := numbers[p]; !known {
			numbers[p] = len(numbers)
		}
		d.block[i] = numbers[p]
	}
	d.blocks = len(numbers)
}

// fit finds the weights. It returns false if the difference cannot be told from a drift.
func (d *turns) fit() bool {
	side := make([]float64, len(d.theirs))
	for i, is := range d.theirs {
		side[i] = oneIf(is)
	}
	x, t := d.centred(side), d.centred(d.at)
	xx, tt, xt := dot(x, x), dot(t, t), dot(x, t)
	det := xx*tt - xt*xt
	if d.freedom = len(d.stages) - d.blocks - 2; d.freedom < 1 || xx == 0 || tt == 0 || xt*xt > inseparable*xx*tt {
		return false
	}
	d.inTurns = xt*xt <= mostShared*xx*tt
	d.difference, d.drift = make([]float64, len(x)), make([]float64, len(x))
	for i := range x {
		d.difference[i] = (tt*x[i] - xt*t[i]) / det
		d.drift[i] = (xx*t[i] - xt*x[i]) / det
	}
	return true
}

// centred returns values less the mean of their block.
func (d *turns) centred(values []float64) []float64 {
	sum, n := make([]float64, d.blocks), make([]float64, d.blocks)
	for i, b := range d.block {
		sum[b] += values[i]
		n[b]++
	}
	out := make([]float64, len(values))
	for i, b := range d.block {
		out[i] = values[i] - sum[b]/n[b]
	}
	return out
}

// between returns the spread of a weighted sum of the stages' values by how much the stages differ from the fit.
func (d *turns) between(values, weights []float64) chance.Spread {
	y, side := d.centred(values), make([]float64, len(values))
	for i, is := range d.theirs {
		side[i] = oneIf(is)
	}
	x, t := d.centred(side), d.centred(d.at)
	difference, drift := dot(d.difference, values), dot(d.drift, values)
	square := 0.0
	for i := range y {
		off := y[i] - difference*x[i] - drift*t[i]
		square += off * off
	}
	return chance.Spread{Error: math.Sqrt(square / float64(d.freedom) * dot(weights, weights)), Freedom: float64(d.freedom)}
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// measured is a metric of all stages of turns.
type measured struct {
	*turns
	metric *Metric
	values []float64   // on the scale of the test
	moved  [][]float64 // by how much each part of each stage moves its value; nil: not known
	least  int         // parts that a request lasts
	widthS float64     // of a part
}

// spread returns the spread of a weighted sum of the stages' values: by how much the stages vary over their time, and
// beyond that by how much they differ from one another. ok is false if neither is known.
func (m *measured) spread(weights []float64) (spread chance.Spread, ok bool) {
	between := m.between(m.values, weights)
	if m.moved == nil {
		return between, m.freedom >= leastFreedom
	}
	sums := make([]float64, bins)
	for i, moved := range m.moved {
		for k, v := range moved {
			sums[k] += weights[i] * v
		}
	}
	within, ok := chance.Series(sums, m.least)
	switch {
	case m.freedom < leastFreedom:
		return within, ok
	case !ok:
		return between, true
	}
	return chance.Both(within, between), true
}

// leastFreedom is the least number of degrees of freedom with which stages say how much they differ: two repeats of each
// have one, from which nothing would follow.
const leastFreedom = 2

// compare compares the targets.
func (d *turns) compare(k key, ours, theirs []stage, o Options) (Stage, error) {
	s := newStage(k, ours, theirs)
	s.Method = Turns
	s.Requests = Sameness{Why: "repeats are compared as a whole"}
	all := make([]*series, len(d.stages))
	for i, of := range d.stages {
		var err error
		if all[i], err = newSeries(of); err != nil {
			return s, err
		}
	}
	if !d.inTurns {
		s.Marks = append(s.Marks, blockwise)
	}
	for i := range Metrics {
		m := &Metrics[i]
		a, b := valuesOf(m, ours), valuesOf(m, theirs)
		if len(a) < len(ours) || len(b) < len(theirs) {
			continue
		}
		difference := m.compare(mean(a), mean(b))
		of, ok := d.measure(m, append(a, b...), all)
		if !ok {
			s.Metrics = append(s.Metrics, difference.untested("one of the values is 0"))
			continue
		}
		s.Metrics = append(s.Metrics, of.test(difference, o))
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
			of.moved = nil
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
	corrected, raw := dot(m.difference, m.values), dot(m.raw, m.values)
	spread, ok := m.spread(m.difference)
	if !ok {
		return d.untested("two repeats without request rows do not show how far chance moves this number")
	}
	if m.inTurns {
		d.Change = new(m.metric.change(corrected))
		d.Drift = new(m.metric.change(raw - corrected))
		return d.testedAs(m.metric, corrected, spread, 0, o)
	}
	plain, _ := m.spread(m.raw)
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
func (s *Stage) tellsDriftOf(m *Metric) bool { return s.Drift == nil && slices.Contains(driftMetrics, m.Name) }

// tellDrift adds the drift of a number over all stages.
func (s *Stage) tellDrift(m *measured) {
	if spread, ok := m.spread(m.drift); ok && m.timed {
		effect := "the difference between them is not affected"
		if !m.inTurns {
			effect = "how much of the difference between them comes from that is not known"
		}
		s.addDrift(m.metric, dot(m.drift, m.values), spread, effect)
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
		s.addDrift(m, total(drifts)/bins, spread, "how much of the difference between them comes from that is not known")
	}
}

// addDrift adds a drift, and says it if chance does not make it.
func (s *Stage) addDrift(m *Metric, perSecond float64, spread chance.Spread, effect string) {
	margin := spread.Margin(confidence)
	s.Drift = &Drift{Metric: m.Name, PerSecond: perSecond, Low: perSecond - margin, High: perSecond + margin}
	if math.Abs(perSecond) <= margin {
		return
	}
	how := "slowed"
	if perSecond < 0 {
		how = "got faster"
	}
	s.Marks = append(s.Marks, fmt.Sprintf("both targets %s by %.2g %%/s (%s, %.2g to %.2g); %s", how,
		100*math.Abs(perSecond), m.Title, 100*max(0, math.Abs(perSecond)-margin), 100*(math.Abs(perSecond)+margin), effect))
}

// guarded tests a difference of one stage of each target. They ran one after the other, so that the drift within them may
// explain it: the difference is tested with and without that. x and y are by how much the parts of both move the number.
func (p *pairOf) guarded(d Difference, m *Metric, x, y []float64, least int, plain chance.Spread, o Options) Difference {
	raw := d.tested(m, plain, 0, o)
	if raw.test == nil {
		return raw
	}
	drifts, sum := p.drifts(x, y, least), 0.0
	corrected := make([]float64, bins)
	for k := range corrected {
		corrected[k] = y[k] - x[k] - p.apartS*drifts[k]
		sum += drifts[k] / bins
	}
	spread, ok := chance.Series(corrected, least)
	if !ok {
		return d.untested("the stage is too short: its numbers drift over all of its time")
	}
	return raw.and(d.testedAs(m, raw.test.difference-p.apartS*sum, spread, 0, o), onceEach)
}

// onceEach says why a difference between one stage of each target is not called.
const onceEach = "one stage of each target: what changes over time may explain it; repeats in turns take that out"

// pairOf are two stages of two targets in one run.
type pairOf struct {
	a, b   *series
	apartS float64 // from the middle of the first to that of the second, in seconds; negative: the second ran first
}

// drifts returns by how much each part of both stages moves the drift within them, the relative change in a second. The
// first and the last parts, in which requests begin and end together, do not count.
func (p *pairOf) drifts(x, y []float64, least int) []float64 {
	from, to := least, bins-least
	centre, square := float64(from+to-1)/2, 0.0
	for k := from; k < to; k++ {
		square += (float64(k) - centre) * (float64(k) - centre)
	}
	out := make([]float64, bins)
	for k := from; k < to; k++ {
		weight := bins * (float64(k) - centre) / square / 2
		out[k] = weight * (x[k]/p.a.widthNs + y[k]/p.b.widthNs) * nanosPerSecond
	}
	return out
}
