package page

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/page/chart"
)

// carried returns the name of the throughput in results.json and its unit: of output tokens, or of requests if those of
// a stage are not known.
func (w *workload) carried() (metric, unit string) {
	if slices.ContainsFunc(w.rows(), func(r Row) bool {
		return r.Stage.OutputTokenThroughput == nil && r.Stage.Requests.Completed > 0
	}) {
		return "request_throughput", "req/s"
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
	of                 func(*results.StageResult) *float64 // in ms
	limit              func(*results.Goodput) *float64     // of the SLO, in ms
	limited, typed     string
	show               func(ms *float64) *float64 // as the chart does
}

var (
	userSpeed = felt{"Tokens of a user by tokens of all", "tok/s of a user", ": 1 / mean TPOT",
		func(s *results.StageResult) *float64 { return mean(s.TPOT) },
		func(g *results.Goodput) *float64 { return g.TPOTMs }, "TPOT", "TPOT inverse", inverse}
	userWait = felt{"Time of an answer by requests", "ms", ", median E2E",
		func(s *results.StageResult) *float64 { return p50(s.E2E) },
		func(g *results.Goodput) *float64 { return g.E2EMs }, "E2E", "E2E as-is", func(ms *float64) *float64 { return ms }}
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
func (w *workload) userFigure(targets []results.RunTarget) []figure {
	c, user := newChart(chart.Axis{Zero: true}), userWait
	metric, unit := w.carried()
	if slices.ContainsFunc(w.rows(), func(r Row) bool { return inverse(mean(r.Stage.TPOT)) != nil }) {
		user = userSpeed
	}
	divisors, of := w.perGPU(targets)
	unit += of
	c.X.Label, c.Typed = unit+"; numbers at points: load", user.typed
	for i, g := range w.Groups {
		var line []chart.Point
		for _, r := range byValue(g.Rows) {
			s := &r.Stage
			x, y := s.Number(metric), user.show(user.of(s))
			if x == nil || y == nil {
				continue
			}
			per := *x / divisors[i]
			label := r.Load + g.found(s.Index)
			if s.Load.Repeat > 0 { // it stands beside the first one
				label = ""
			}
			line = append(line, chart.Point{X: per, Y: *y, Doubt: doubtIn(*s), Data: slowData(*s) + p95s(s),
				Label: label, Title: pointTitle(r, fmt.Sprintf("%s %s, %s %s, %s", num(*y), user.unit, num(per), unit,
					words.Count(s.Requests.Completed, "request")))})
			if g := s.Goodput; g != nil && user.show(user.limit(g)) != nil {
				c.Limit = &chart.Limit{Y: *user.show(user.limit(g)),
					Label: "SLO: " + user.limited + " ≤ " + chart.Number(*user.limit(g)) + " ms"}
			}
		}
		c.Series = append(c.Series, chart.Series{Style: chart.Style{Number: i}, Name: w.nameOf(g),
			Lines: [][]chart.Point{line}})
	}
	return w.figure(user.caption, user.unit+user.how, c)
}

// p95s returns the 95th percentiles of TTFT, TPOT and E2E of a stage that counts, for limits that a reader types.
func p95s(s *results.StageResult) string {
	if doubtIn(*s) == chart.Invalid {
		return ""
	}
	data := ""
	for _, l := range []*histogram.Summary{s.TTFT, s.TPOT, s.E2E} {
		if v := l.At("p95"); v != nil {
			data += strconv.FormatFloat(*v, 'g', -1, 64)
		}
		data += " "
	}
	return ` data-p95="` + data + `"`
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
func (w *workload) changeFigure(c *compare.Comparison, r *results.Result) []figure {
	metric, unit := w.carried()
	out := newChart(w.loadAxis())
	out.Limit = &chart.Limit{Label: "as " + c.Baseline}
	for i, g := range w.Groups {
		for _, side := range c.Sides {
			if side.Name != g.Rows[0].Stage.Target {
				continue
			}
			s := chart.Series{Style: chart.Style{Number: i}, Name: w.nameOf(g), Lines: [][]chart.Point{nil},
				Shift: 4*float64(len(out.Series)) - 2*float64(len(c.Sides)-1)}
			for _, compared := range side.Stages {
				row := slices.IndexFunc(g.Rows, func(r Row) bool { return r.Stage.Index == compared.Stages[0] })
				m := slices.IndexFunc(compared.Metrics, func(d compare.Difference) bool { return d.Metric == metric })
				if row < 0 || m < 0 || compared.Metrics[m].Change == nil {
					continue
				}
				doubt := doubtIn(g.Rows[row].Stage)
				if b := results.StageAt(r.Stages, compared.BaselineStages[0]); b != nil {
					doubt = max(doubt, doubtIn(*b))
				}
				p, interval := changeOf(g.Rows[row], &compared.Metrics[m], doubt)
				s.Lines[0] = append(s.Lines[0], p)
				s.Lines = append(s.Lines, interval)
			}
			out.Series = append(out.Series, s)
		}
	}
	return w.figure("Change of "+unit+" against "+c.Baseline, "%; bars: 95 % interval, where it could be tested", out)
}

// changeOf returns a change as a point over its load, and its interval as a line, if it has one.
func changeOf(r Row, d *compare.Difference, doubt chart.Doubt) (p chart.Point, interval []chart.Point) {
	p = chart.Point{X: r.Value, Y: 100 * *d.Change, Doubt: doubt, Data: slowData(r.Stage)}
	text := fmt.Sprintf("%s: %+.3g %%", r.Stage.Load, p.Y)
	if d.Low != nil && d.High != nil {
		text += fmt.Sprintf(" (%+.3g to %+.3g %%)", 100**d.Low, 100**d.High)
		interval = []chart.Point{p, p}
		interval[0].Y, interval[1].Y = 100**d.Low, 100**d.High
	}
	if p.Title = text + ", " + string(d.Outcome); d.Why != "" {
		p.Title += ", " + d.Why
	}
	return p, interval
}
