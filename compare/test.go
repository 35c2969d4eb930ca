package compare

import (
	"math"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/chance"
)

// test is the test of one difference: on the logarithm of the ratio, or on the points of a share.
type test struct {
	metric     *Metric
	difference float64
	spread     chance.Spread
	slack      float64 // how far the difference may be off apart from chance
}

// scale returns a change (relative, or in points) on the scale of the test.
func (m *Metric) scale(change float64) float64 {
	if m.Share {
		return change
	}
	return math.Log1p(change)
}

// change returns a difference on the scale of the test as a change.
func (m *Metric) change(difference float64) float64 {
	if m.Share {
		return difference
	}
	return math.Expm1(difference)
}

// difference returns the difference of a metric without a test.
func (m *Metric) compare(baseline, value float64) Difference {
	d := Difference{Metric: m.Name, Unit: m.Unit, Baseline: baseline, Value: value, Outcome: Untested}
	switch {
	case m.Share:
		d.Change = new(value - baseline)
	case baseline != 0 && !math.IsInf(value/baseline, 0): // values of a foreign file can be any
		d.Change = new(value/baseline - 1)
	}
	return d
}

// untested says why a difference was not tested.
func (d Difference) untested(why string) Difference {
	d.Why = why
	return d
}

// tested adds a test to a difference. slack is how far the difference may be off apart from chance, on the scale of the
// test. The outcome follows when all tests are known.
func (d Difference) tested(m *Metric, spread chance.Spread, slack float64, o Options) Difference {
	switch {
	case m.Share:
		return d.testedAs(m, d.Value-d.Baseline, spread, slack, o)
	case d.Baseline > 0 && d.Value > 0:
		return d.testedAs(m, math.Log(d.Value/d.Baseline), spread, slack, o)
	}
	return d.untested("one of the values is 0")
}

// testedAs is tested with a difference, on the scale of the test, that is not that of the two values.
func (d Difference) testedAs(m *Metric, difference float64, spread chance.Spread, slack float64, o Options) Difference {
	spread.Error = math.Hypot(spread.Error, m.resolution)
	d.test = &test{m, difference, spread, slack}
	margin := spread.Margin(confidence) + slack
	d.Low, d.High = new(m.change(difference-margin)), new(m.change(difference+margin))
	d.P = new(spread.Beyond(difference, m.scale(o.Tolerance)+slack))
	return d
}

// conclude judges all tests of a comparison together.
func (c *Comparison) conclude(o Options) {
	var all []*Difference
	var ps []float64
	for i := range c.Sides {
		for _, d := range c.Sides[i].Differences() {
			if d.test != nil {
				all, ps = append(all, d), append(ps, *d.P)
			}
		}
	}
	for i, p := range chance.Holm(ps) {
		all[i].PAdjusted = &p
		all[i].conclude(o, (1-confidence)/float64(len(ps)))
	}
}

// conclude sets the outcome of a difference. level is that of one of all tests.
func (d *Difference) conclude(o Options, level float64) {
	t, within := d.test, d.test.metric.scale(o.Tolerance)+d.test.slack
	reach := t.spread.Reach(level) * t.spread.Error
	d.Detectable = new(t.metric.change(within + reach))
	switch {
	case *d.PAdjusted <= 1-confidence:
		d.Outcome = Worse
		if (t.difference > 0) == t.metric.Higher {
			d.Outcome = Better
		}
	case -o.Tolerance <= *d.Low && *d.High <= o.Tolerance:
		d.Outcome = Same
	default:
		d.Outcome = Unclear
		if beyond := math.Abs(t.difference) - within; beyond > 0 {
			missing := reach / beyond
			d.LengthFactor = new(missing * missing)
		}
	}
}

// Margin returns half the width of the 95 % confidence interval of a number of a stage, relative to the number, by how
// much the stage varies over its time. Nil: the run has no request rows, or the stage is too short. The error is that
// of reading requests.
func (r *Run) Margin(index uint32, m *Metric) (*float64, error) {
	s := results.StageAt(r.Result.Stages, index)
	if s == nil || m.value(s) == nil {
		return nil, nil //nolint:nilnil // nil is the answer: it is not known
	}
	of, err := newSeries(&stage{run: r, result: s})
	if of == nil || err != nil {
		return nil, err
	}
	if moved := m.series(of, *m.value(s)); moved != nil {
		if spread, ok := chance.Series(moved, of.residence); ok {
			return new(spread.Margin(confidence)), nil
		}
	}
	return nil, nil //nolint:nilnil // as above
}
