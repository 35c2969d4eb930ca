package page

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/page/chart"
)

// carried returns the name of the throughput in results.json and its unit: of output tokens, or of requests if those of
// a stage are not known.
func (w *workload) carried() (metric, unit string) {
	for _, g := range w.Groups {
		for _, r := range g.Rows {
			if r.Stage.OutputTokenThroughput == nil && r.Stage.Requests.Completed > 0 {
				return "request_throughput", "req/s"
			}
		}
	}
	return "output_token_throughput", "output tok/s"
}

// perGPU returns what divides the throughput of each group: the GPUs of its target if those of all are known, else 1.
func (w *workload) perGPU(targets []results.RunTarget) (divisors []float64, of string) {
	for _, g := range w.Groups {
		at := slices.IndexFunc(targets, func(t results.RunTarget) bool { return t.Name == g.Rows[0].Stage.Target })
		if at < 0 || targets[at].GPUs == nil || *targets[at].GPUs == 0 {
			return slices.Repeat([]float64{1}, len(w.Groups)), " of the target"
		}
		divisors = append(divisors, float64(*targets[at].GPUs))
	}
	return divisors, " per GPU"
}

// felt is what a user gets: tokens each second, or where those are not known an answer's time.
type felt struct {
	caption, unit, how string
	of                 func(*results.StageResult) *float64
	limit              func(*results.Goodput) (at *float64, words string) // by the SLO
}

var (
	userSpeed = felt{"Tokens of a user by tokens of all", "tok/s of a user", ": 1 / mean TPOT",
		func(s *results.StageResult) *float64 { return inverse(mean(s.TPOT)) },
		func(g *results.Goodput) (*float64, string) {
			return inverse(g.TPOTMs), "SLO: TPOT ≤ " + num(g.TPOTMs) + " ms"
		}}
	userWait = felt{"Time of an answer by requests", "ms", ", median E2E",
		func(s *results.StageResult) *float64 { return p50(s.E2E) },
		func(g *results.Goodput) (*float64, string) { return g.E2EMs, "SLO: E2E ≤ " + num(g.E2EMs) + " ms" }}
)

// inverse returns how many times in a second something happens that takes a time in ms. Nil: it is not known.
func inverse(ms *float64) *float64 {
	if ms == nil || *ms <= 0 {
		return nil
	}
	return new(1000 / *ms)
}

// userFigure draws what a user gets against what the target carries: of each target a line in the order of its loads,
// which stand at the points, with what searches and frontiers found. It returns nothing if that was not measured.
func (w *workload) userFigure(targets []results.RunTarget, plain bool) []figure {
	c, user := w.chart(chart.Axis{Zero: true}, plain), userWait
	metric, unit := w.carried()
	if slices.ContainsFunc(w.Groups, func(g Group) bool {
		return slices.ContainsFunc(g.Rows, func(r Row) bool { return userSpeed.of(&r.Stage) != nil })
	}) {
		user = userSpeed
	}
	divisors, of := w.perGPU(targets)
	unit += of
	c.Label, c.X.Label = user.caption+", workload "+w.Name, unit+"; numbers at points: load"
	limits, drawn := chart.Limits{}, false
	for i, g := range w.Groups {
		var line []chart.Point
		for _, r := range byValue(g.Rows) {
			s := &r.Stage
			x, y := s.Number(metric), user.of(s)
			if x == nil || y == nil {
				continue
			}
			per := *x / divisors[i]
			line = append(line, chart.Point{X: per, Y: *y, Doubt: doubtIn(*s), Label: r.Load + g.found(s.Index),
				Title: pointTitle(r, fmt.Sprintf("%s %s, %s %s, %s", num(*y), user.unit, num(per), unit,
					words.Count(s.Requests.Completed, "request")))})
			if s.Goodput != nil {
				if at, text := user.limit(s.Goodput); at != nil && len(limits) == 0 {
					limits = append(limits, chart.Limit{Y: *at, Label: text})
				}
			}
		}
		drawn = drawn || len(line) > 0
		c.Series = append(c.Series, chart.Series{Style: chart.Style{Number: i}, Name: w.nameOf(g),
			Lines: [][]chart.Point{line}})
	}
	if !drawn {
		return nil
	}
	c.Layers = []chart.Layer{limits}
	return []figure{{Caption: user.caption, Unit: user.unit + user.how, SVG: c.SVG()}}
}

// found names what searches and frontiers found at a stage.
func (g Group) found(stage uint32) (text string) {
	for _, f := range g.Series {
		for _, at := range []struct {
			name  string
			stage *uint32
		}{{"limit", f.Limit().Stage}, {"knee", f.Knee}, {"most good", f.HighestGoodput}} {
			if at.stage != nil && *at.stage == stage {
				text += ", " + at.name
			}
		}
	}
	return text
}

// changeFigure draws by how much the throughput of targets differs from the baseline's at each load, with the interval
// of what was tested. It returns nothing if nothing was compared.
func (w *workload) changeFigure(c *compare.Comparison, r *results.Result, plain bool) []figure {
	baseline := c.Baseline
	metric, unit := w.carried()
	out := w.chart(w.loadAxis(), plain)
	f := figure{Caption: "Change of " + unit + " against " + baseline,
		Unit: "%; bars: 95 % interval, where it could be tested"}
	out.Label = f.Caption + " by load, workload " + w.Name
	for i, g := range w.Groups {
		at := slices.IndexFunc(c.Sides, func(a compare.Against) bool { return a.Name == g.Rows[0].Stage.Target })
		if at < 0 {
			continue
		}
		series := chart.Series{Style: chart.Style{Number: i}, Name: w.nameOf(g), Lines: [][]chart.Point{nil}}
		for j := range c.Sides[at].Stages {
			s := &c.Sides[at].Stages[j]
			row := slices.IndexFunc(g.Rows, func(r Row) bool { return slices.Contains(s.Stages, r.Stage.Index) })
			m := slices.IndexFunc(s.Metrics, func(d compare.Difference) bool {
				return d.Metric == metric && d.Change != nil
			})
			if row < 0 || m < 0 {
				continue
			}
			p := changePoint(g.Rows[row], &s.Metrics[m])
			if b := results.StageAt(r.Stages, s.BaselineStages[0]); b != nil {
				p.Doubt = max(p.Doubt, doubtIn(*b))
			}
			series.Lines[0] = append(series.Lines[0], p)
			if d := &s.Metrics[m]; d.Low != nil && d.High != nil {
				low, high := p, p
				low.Y, high.Y, low.Title, high.Title = 100**d.Low, 100**d.High, "", ""
				series.Lines = append(series.Lines, []chart.Point{low, high})
			}
		}
		slices.SortStableFunc(series.Lines[0], func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
		if len(series.Lines[0]) > 0 {
			out.Series = append(out.Series, series)
		}
	}
	if len(out.Series) == 0 {
		return nil
	}
	out.Layers = []chart.Layer{chart.Limits{{Label: "as " + baseline}}}
	f.SVG = out.SVG()
	return []figure{f}
}

// changePoint returns a change as a point over its load.
func changePoint(r Row, d *compare.Difference) chart.Point {
	text := fmt.Sprintf("%s: %+.3g %%", r.Stage.Load, 100**d.Change)
	if d.Low != nil && d.High != nil {
		text += fmt.Sprintf(" (%+.3g to %+.3g %%)", 100**d.Low, 100**d.High)
	}
	text += ", " + string(d.Outcome)
	if d.Why != "" {
		text += ", " + d.Why
	}
	return chart.Point{X: r.Value, Y: 100 * *d.Change, Doubt: doubtIn(r.Stage), Title: text}
}
