package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/spate-load/spate/internal/chance"
	"github.com/spate-load/spate/internal/lists"
)

// Options of a comparison.
type Options struct {
	// Tolerance is the largest relative change that does not matter, 0 to 1; for shares in points.
	Tolerance float64
	// AllowInvalid also compares stages that are INVALID or incomplete.
	AllowInvalid bool

	// Again: the sides ran stages of the baseline again. However few they are, they are compared as a whole.
	Again bool

	byTarget bool // the sides are targets of the same runs
	several  bool // there are more than two sides, or one of another tool
}

// confidence is that of the intervals, and 1 - the chance of any false alarm.
const confidence = 0.95

// fewestRepeats is the number of repeats from which on they are the units that vary by chance.
const fewestRepeats = 3

// ErrNothingInCommon means that no stage of a side has a counterpart in the baseline.
var ErrNothingInCommon = errors.New("no stage has a counterpart: target, workload and load must be equal")

// Of compares sides with the first one, the baseline. There must be two or more. The error is that of reading requests,
// or that a side has one run twice, or wraps ErrNothingInCommon.
func Of(sides []Side, o Options) (*Comparison, error) {
	for i := range sides {
		if err := sides[i].distinct(); err != nil {
			return nil, err
		}
	}
	if o.several = len(sides) > 2 || slices.ContainsFunc(sides, foreign); o.several {
		var err error
		if sides, err = divided(sides); err != nil {
			return nil, err
		}
	}
	c := &Comparison{Tolerance: o.Tolerance, Confidence: confidence, Baseline: sides[0].Name, Sides: []Against{},
		Several: o.several, Rows: rows(sides)}
	nothing := 0
	for i := range sides[1:] {
		rename := renaming(&sides[0], &sides[1+i])
		against, err := versus(&sides[0], &sides[1+i], rename, o)
		if err != nil {
			return nil, err
		}
		if err := against.answers(&sides[0], &sides[1+i], rename, o); err != nil {
			return nil, err
		}
		c.Sides = append(c.Sides, *against)
		if len(against.Stages)+len(against.Refused)+len(against.Answers) > 0 {
			continue
		}
		if nothing++; nothing == len(sides)-1 {
			because := ""
			if against.Tool != "" && len(against.Unmatched) > 0 {
				because = fmt.Sprintf(" (%s: %s)", against.Unmatched[0].Stage, against.Unmatched[0].Why)
			}
			return nil, fmt.Errorf("%s and %s: %w%s", sides[0].Name, sides[1+i].Name, ErrNothingInCommon, because)
		}
	}
	c.conclude(o)
	return c, nil
}

// versus compares the stages of a side with those of the baseline. rename gives a target of the side the baseline's
// name.
func versus(baseline, side *Side, rename func(string) string, o Options) (*Against, error) {
	a := &Against{Name: side.Name, Tool: side.Runs[0].Tool, Warnings: []string{}, Stages: []Stage{},
		Answers: []Answer{}, Refused: []Left{}, Unmatched: append([]Left{}, side.beside(baseline)...)}
	o.byTarget = baseline.Target != "" && baseline.Runs[0].Result == side.Runs[0].Result
	for _, run := range side.Runs {
		a.Warnings = append(a.Warnings, runWarnings(baseline.Runs[0], run, o.byTarget)...)
	}
	theirs := make(map[key]*group)
	groups := side.groups(rename)
	for _, g := range groups {
		theirs[g.key] = g
	}
	for _, g := range baseline.groups(func(name string) string { return name }) {
		other := theirs[g.key]
		delete(theirs, g.key)
		if other == nil && a.Tool != "" {
			continue // its file is one test
		}
		if other == nil {
			// The loads of a series depend on what was measured: its answers are compared.
			a.Unmatched = append(a.Unmatched, Left{Stage: g.key.String(), Why: "only in " + baseline.Name,
				inBaseline: g.stages[0].result.Probe == nil})
		} else if err := a.group(g, other, o); err != nil {
			return nil, err
		}
	}
	for _, g := range groups {
		if theirs[g.key] != nil {
			a.Unmatched = append(a.Unmatched, Left{Stage: g.key.String(), Why: "only in " + side.Name})
		}
	}
	return a, nil
}

// group compares the stages of which the same was asked: as repeats if there are enough, else one by one.
func (a *Against) group(ours, theirs *group, o Options) error {
	good, goodTheirs, from := a.usable(ours, o), a.usable(theirs, o), len(a.Stages)
	err := a.believed(ours, theirs, good, goodTheirs, o)
	for i := from; o.several && i < len(a.Stages); i++ {
		a.Stages[i].economise(&good[0], &goodTheirs[0], o)
	}
	return err
}

// believed compares those stages of groups that are good.
func (a *Against) believed(ours, theirs *group, good, goodTheirs []stage, o Options) error {
	if o.byTarget || o.Again {
		if d := newTurns(good, goodTheirs, o.Again); d != nil {
			s, err := d.compare(ours.key, good, goodTheirs, o)
			a.Stages = append(a.Stages, s)
			return err
		}
	} else if len(good) >= fewestRepeats && len(goodTheirs) >= fewestRepeats {
		a.Stages = append(a.Stages, repeats(ours.key, good, goodTheirs, o))
		return nil
	}
	for i := range good {
		other := find(goodTheirs, good[i].place)
		if other == nil {
			if theirs.at(good[i].place) == nil {
				a.Unmatched = append(a.Unmatched, Left{Stage: ours.key.String() + good[i].place.String(),
					Why: "only in the baseline", inBaseline: good[i].result.Probe == nil})
			}
			continue
		}
		s, err := pair(ours.key, &good[i], other, o)
		if err != nil {
			return err
		}
		a.Stages = append(a.Stages, s)
	}
	for i := range goodTheirs {
		if p := goodTheirs[i].place; ours.at(p) == nil {
			a.Unmatched = append(a.Unmatched, Left{Stage: ours.key.String() + p.String(), Why: "not in the baseline"})
		}
	}
	return nil
}

// usable returns the stages of a group whose numbers can be believed, and records the others.
func (a *Against) usable(g *group, o Options) (good []stage) {
	for i := range g.stages {
		s := g.stages[i]
		if why := s.refusal(); why != "" && !o.AllowInvalid {
			a.Refused = append(a.Refused, Left{Stage: g.key.String() + s.place.String(), Why: s.run.Name + ": " + why})
			continue
		}
		good = append(good, s)
	}
	return good
}

func find(stages []stage, p place) *stage { return (&group{stages: stages}).at(p) }

// String returns a place in words, after what was asked.
func (p place) String() string {
	if p == (place{}) {
		return ""
	}
	return fmt.Sprintf(", repeat %d", p.count()+1)
}

// count returns the number of the repeat among those of all runs, from 0.
func (p place) count() uint32 { return uint32(p.run) + p.repeat + p.number }

// newStage returns the comparison of stages before its metrics.
func newStage(k key, ours, theirs []stage) Stage {
	s := Stage{Target: k.target, Workload: k.workload, Load: k.load, Marks: []string{}, Method: None,
		Metrics: []Difference{}}
	for i := range ours {
		s.BaselineStages = append(s.BaselineStages, ours[i].result.Index)
		s.Marks = append(s.Marks, marksOf("baseline", &ours[i])...)
	}
	for i := range theirs {
		s.Stages = append(s.Stages, theirs[i].result.Index)
		s.Marks = append(s.Marks, marksOf(theirs[i].run.Name, &theirs[i])...)
	}
	s.Marks = append(s.Marks, stageWarnings(ours[0].result, theirs[0].result)...)
	return s
}

// marksOf returns what a reader must know of a stage.
func marksOf(side string, of *stage) []string {
	if why := of.refusal(); why != "" {
		return []string{side + " is " + why}
	} else if verdict := of.result.Trust.Verdict; verdict != "" && failed(of.result.Trust) != "" && verdict != "VALID" {
		return []string{fmt.Sprintf("%s is %s: %s", side, verdict, failed(of.result.Trust))}
	}
	return nil
}

// repeats compares repeats: each is one value.
func repeats(k key, ours, theirs []stage, o Options) Stage {
	s := newStage(k, ours, theirs)
	s.Method = Repeats
	s.Requests = Sameness{Why: "repeats are compared as a whole"}
	for m := range lists.Refs(Metrics) {
		a, b := m.values(ours, theirs[0].run.Tool), m.values(theirs, "")
		if len(a) >= fewestRepeats && len(b) >= fewestRepeats {
			s.Metrics = append(s.Metrics, m.repeats(a, b, 0, o))
		}
	}
	return s
}

// repeats tests the difference of repeats, each of which is one value. slack is as for tested.
func (m *Metric) repeats(a, b []float64, slack float64, o Options) Difference {
	d, middles := m.compare(mean(a), mean(b)), [2]float64{median(a), median(b)}
	if !m.Share {
		a, b = scaled(a, 1/d.Baseline), scaled(b, 1/d.Value)
	}
	return d.tested(m, chance.Repeats(a, b), slack, o).medians(middles, o)
}

// values returns a metric of stages by the definitions of a tool, as far as it is known.
func (m *Metric) values(stages []stage, tool string) (values []float64) {
	for i := range stages {
		if v := m.of(&stages[i], tool); v != nil {
			values = append(values, *v)
		}
	}
	return values
}

// medians puts the medians of repeats in place of their means where several runs stand beside each other.
func (d Difference) medians(of [2]float64, o Options) Difference {
	if o.several {
		d.Baseline, d.Value = of[0], of[1]
	}
	return d
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func mean(values []float64) float64 { return floats.Sum(values) / float64(len(values)) }

// pair compares two stages.
func pair(k key, ours, theirs *stage, o Options) (Stage, error) {
	s := newStage(k, []stage{*ours}, []stage{*theirs})
	s.Repeat = new(ours.place.count())
	var err error
	if s.Requests, err = sameness(ours, theirs); err != nil {
		return s, err
	}
	p, err := newPair(ours, theirs)
	if err == nil {
		s.compare(ours, theirs, p, o)
	}
	return s, err
}

// newPair divides two stages into parts. It returns nil if there are no rows of one.
func newPair(ours, theirs *stage) (*pairOf, error) {
	a, err := newSeries(ours)
	if a == nil || err != nil {
		return nil, err
	}
	b, err := newSeries(theirs)
	if b == nil || err != nil {
		return nil, err
	}
	p := &pairOf{a: a, b: b}
	from, known := ours.result.Middle()
	if to, also := theirs.result.Middle(); known && also {
		p.apartS = to - from
	}
	return p, nil
}

// requests calls each with the stage's measured requests; with none if the run has no rows.
func (s *stage) requests(each func(*Request) error) error {
	if s.run.Requests == nil {
		return nil
	}
	return s.run.Requests(s.result.Index, each)
}

// compare adds the metrics that both stages have. The pair may be nil: there are no rows.
func (s *Stage) compare(ours, theirs *stage, p *pairOf, o Options) {
	if p != nil {
		s.Method, s.BlockS = Blocks, new(0.0)
	}
	for m := range lists.Refs(Metrics) {
		x, y := m.of(ours, theirs.run.Tool), m.of(theirs, "")
		if x == nil || y == nil {
			continue
		}
		d := m.compare(*x, *y)
		if s.Method == None {
			d = d.untested(noRows)
		} else {
			var blockS float64
			d, blockS = p.inBlocks(d, m, 0, o)
			*s.BlockS = max(*s.BlockS, blockS)
			if o.byTarget && s.tellsDriftOf(m) {
				s.tellDriftWithin(p, m, d)
			}
		}
		s.Metrics = append(s.Metrics, d)
	}
}

// noRows says why a difference is not tested.
const noRows = "there are no request rows to tell chance from"

// inBlocks tests a difference by the parts of both stages. slack is as for tested. blockS is the length of a block in
// seconds, 0 if there are none.
func (p *pairOf) inBlocks(d Difference, m *Metric, slack float64, o Options) (tested Difference, blockS float64) {
	a, b := p.a, p.b
	least := max(a.residence, b.residence)
	if longest := bins / chance.FewestBlocks; least > longest {
		return d.untested(fmt.Sprintf("the stage is too short: it lasts %.1f times as long as a request, want %d or more",
			float64(bins)/float64(least), chance.FewestBlocks)), 0
	}
	x, y := m.series(a, d.Baseline), m.series(b, d.Value)
	if x == nil || y == nil {
		return d.untested("there are too few requests"), 0
	}
	difference := floats.SubTo(make([]float64, bins), y, x)
	if o.byTarget { // chance does not make a drift
		level(difference, 0, bins)
	}
	spread, ok := chance.Series(difference, least)
	blockS = float64(spread.Block) * math.Max(a.widthNs, b.widthNs) / nanosPerSecond
	if !ok {
		return d.untested("the stage is too short: its numbers drift over all of its time"), blockS
	}
	if o.byTarget {
		return p.guarded(d, m, x, y, least, spread, o), blockS
	}
	return d.tested(m, spread, slack, o), blockS
}
