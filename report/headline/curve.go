package headline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/chance"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
)

// point is what was measured at a load. Repeats of the load are one point.
type point struct {
	*results.StageResult
	load  string  // in words
	value float64 // 0: it is not one number
	of    []uint32
	all   *results.Repeats // nil: one stage
	limit string           // what a load must be within, in words; empty: nothing, or it is not known
	rule  string           // the same, by the numbers where they are known
	kept  bool             // it is within the limit
	why   string           // it is not, with the numbers
}

// curve is all loads of a target and a workload that can be believed, the lowest first.
type curve struct {
	target, workload string
	points           []*point
	tokens           bool // throughput is in output tokens; otherwise in requests
	plain            bool // loads can be put in order
}

// curvesOf returns the curves of a run, in the order of their first stages.
func (w *writer) curvesOf() (all []*curve) {
	for s := range lists.Refs(w.r.Stages) {
		if !s.Believable() || s.Requests.Completed == 0 || s.RequestThroughput == nil {
			continue
		}
		at := slices.IndexFunc(all, func(c *curve) bool { return c.target == s.Target && c.workload == s.Workload })
		if at < 0 {
			at = len(all)
			all = append(all, &curve{target: s.Target, workload: s.Workload, tokens: true, plain: true})
		}
		c := all[at]
		if slices.ContainsFunc(c.points, func(p *point) bool { return p.load == s.Load.Shared() }) {
			continue // the first of the repeats stands for them
		}
		p := w.pointOf(s)
		c.points = append(c.points, p)
		c.tokens = c.tokens && p.OutputTokenThroughput != nil
		c.plain = c.plain && p.value > 0 && (s.Load.Concurrency == nil) == (c.points[0].Load.Concurrency == nil)
	}
	for _, c := range all {
		slices.SortStableFunc(c.points, func(a, b *point) int { return cmp.Compare(a.value, b.value) })
	}
	return all
}

// pointOf returns the point of a stage, or of the repeats that it is one of.
func (w *writer) pointOf(s *results.StageResult) *point {
	p := &point{StageResult: s, load: s.Load.Shared(), of: []uint32{s.Index}}
	if len(s.Load.Phases) == 0 {
		p.value = s.Load.Value()
	}
	for i := range w.r.Repeats {
		if r := &w.r.Repeats[i]; slices.Contains(r.Stages, s.Index) {
			all := *r.Stage()
			all.Load, all.Stream, all.Trust = s.Load, s.Stream, s.Trust
			p.StageResult, p.of, p.all = &all, r.Stages, r
		}
	}
	p.judge(w.r)
	return p
}

// judge finds out whether the point is within what a search found, or else the SLO, or else the thresholds.
func (p *point) judge(r *results.Result) {
	for _, s := range r.Run.SeriesOf(loadpoint.Search) {
		if p.Probe != nil && s.Series == p.Probe.Series {
			found := s.Limit()
			p.limit, p.rule = "the limits of the search", strings.Join(s.Objectives, ", ")
			p.kept = found.Kept != nil && p.value <= *found.Kept
			p.why = *cmp.Or(found.Reason, new("by the search"))
			return
		}
	}
	if g := p.Goodput; g != nil {
		if g.Share != nil {
			p.rule = sloWords(g)
			p.limit, p.kept, p.why = "the SLO ("+p.rule+")", *g.Share >= goodShare, percent(*g.Share)+" good"
		}
		return
	}
	for _, t := range r.Thresholds {
		for _, s := range t.Stages {
			if t.Part != nil || !slices.Contains(p.of, s.Index) {
				continue
			}
			if p.limit == "" {
				p.limit, p.rule, p.kept = "the thresholds", "the thresholds", true
			}
			if p.kept && !s.Passed {
				seen, _, _ := strings.Cut(s.Words, ", want")
				p.kept, p.why = false, t.That+": "+seen
			}
		}
	}
}

// throughput returns what a point carries: output tokens, or requests of answers without tokens.
func (c *curve) throughput(p *point) float64 { return *p.Number(c.metric()) }

// metric names the throughput in results.json. unit is that in words.
func (c *curve) metric() string {
	if c.tokens {
		return "output_token_throughput"
	}
	return "request_throughput"
}

func (c *curve) unit() string { return map[bool]string{true: "output tok/s", false: "req/s"}[c.tokens] }

// peak returns the point with the highest throughput.
func (c *curve) peak() *point {
	return slices.MaxFunc(c.points, func(a, b *point) int { return cmp.Compare(c.throughput(a), c.throughput(b)) })
}

// enoughShare is the share of the highest throughput from which on more load brings mostly waiting.
const enoughShare = 0.95

// enough returns the lowest load with enoughShare of the highest throughput. Nil: loads have no order.
func (c *curve) enough() *point {
	if !c.plain {
		return nil
	}
	high := c.throughput(c.peak())
	return c.points[slices.IndexFunc(c.points, func(p *point) bool { return c.throughput(p) >= enoughShare*high })]
}

// goodShare is the share of requests that must meet the SLO for a load to be within it.
const goodShare = 0.95

// within returns the highest load within the limit below the lowest that is not, and that one. limited is false if
// there is no limit. kept is nil if no load is within it, broke if all are.
func (c *curve) within() (kept, broke *point, limited bool) {
	for _, p := range c.points {
		switch {
		case p.limit == "" || !c.plain:
			return nil, nil, false
		case !p.kept:
			return kept, p, true
		}
		kept = p
	}
	return kept, nil, true
}

// kept returns the highest load within the limit, or nil.
func (c *curve) kept() *point {
	kept, _, _ := c.within()
	return kept
}

// sloWords returns the limits of an SLO in words.
func sloWords(g *results.Goodput) string {
	var limits []string
	for _, l := range []struct {
		name  string
		limit *float64
	}{{"TTFT", g.TTFTMs}, {"TPOT", g.TPOTMs}, {"E2E", g.E2EMs}} {
		if l.limit != nil {
			limits = append(limits, fmt.Sprintf("%s ≤ %.6g ms", l.name, *l.limit))
		}
	}
	if limits == nil {
		limits = []string{"that of each part"}
	}
	return strings.Join(limits, ", ") + " for 95 % of requests"
}

// good returns the share of requests within the SLO with its interval, and whether that leaves open if the load is.
// Empty: it is not known.
func (p *point) good() (text string, open bool) {
	if p.Goodput == nil || p.Goodput.Share == nil {
		return "", false
	}
	n := float64(p.Requests.Completed + p.Requests.Failed)
	low, high := chance.Share(*p.Goodput.Share, n)
	return fmt.Sprintf("%s of %s requests (%s to %s) are good", percent(*p.Goodput.Share), words.Whole(n),
		number(100*low), percent(high)), low < goodShare && goodShare <= high
}

// carries says what throughput a point has, with its interval if it is known.
func (w *writer) carries(c *curve, p *point) (string, error) {
	text := p.perhaps(c.metric()) + number(c.throughput(p)) + " " + c.unit()
	w.Rest(p.of...)
	if lost := p.Lowered(); lost > trust.NotableShare {
		w.doubt("ramp-up and drain lower the throughput at %s by %s: longer stages lose less", p.load, percent(lost))
	}
	if p.all != nil {
		for _, s := range p.all.Spreads {
			if s.Metric == c.metric() {
				return fmt.Sprintf("%s (%s to %s over %s)", text, number(s.Low), number(s.High), p.all.Words()), nil
			}
		}
	}
	m, err := compare.MetricNamed(c.metric())
	if err != nil {
		return "", err
	}
	margin, err := w.run.Margin(p.Index, m)
	course := lists.Where(p.Trust.Notes, trust.OfCourse)
	for _, note := range course {
		w.doubt("%s: %s", p.load, note)
	}
	switch {
	case err != nil:
		return "", err
	case w.run.Requests == nil:
		w.doubt("there are no request rows that show how far chance moves a number")
	case margin == nil && course != nil:
	case margin == nil:
		w.doubt("the stage at %s is too short to show how far chance moves its throughput", p.load)
	default:
		text += fmt.Sprintf(" (±%s within the stage)", percent(*margin))
	}
	return text, nil
}

// feels says what a user feels at a point, and at which load.
func (p *point) feels() string {
	if felt := p.felt(); felt != "" {
		return "at " + p.load + " " + felt
	}
	return ""
}

// felt says what a user feels at a point.
func (p *point) felt() string {
	if !p.Stream || p.TTFT == nil {
		if p.E2E == nil {
			return ""
		}
		return "an answer takes " + p.median("e2e_ms")
	}
	text := "the first token takes " + p.median("ttft_ms")
	if p.TPOT == nil || p.TPOT.Mean <= 0 {
		return text
	}
	return fmt.Sprintf("%s, then a user gets %s%s tok/s", text, p.perhaps("tpot_ms.mean"), number(1000/p.TPOT.Mean))
}

// perhaps returns the word before a number, by its name in results.json, if a check doubts it.
func (p *point) perhaps(name string) string {
	if p.Mark(name) == results.Doubted {
		return "perhaps "
	}
	return ""
}

// median returns the median of a latency, and the p99 if enough requests show it.
func (p *point) median(name string) string {
	s, perhaps := p.Latency(name), p.perhaps(name+".p50")
	if p.Mark(name+".p99") == "" {
		return fmt.Sprintf("%s%s (median; p99 %s)", perhaps, millis(s.P50), millis(s.P99))
	}
	return fmt.Sprintf("%s%s (median of %s)", perhaps, millis(s.P50), words.Count(s.Count, "request"))
}

// number formats a number with three significant digits, and all of those before the point.
func number(v float64) string {
	if v < 1 {
		return fmt.Sprintf("%.3g", v)
	}
	return words.Millis(v)
}

// millis formats a time.
func millis(ms float64) string {
	const perSecond = 1000
	if ms < perSecond {
		return number(ms) + " ms"
	}
	return number(ms/perSecond) + " s"
}

// percent formats a share with three significant digits.
func percent(share float64) string { return number(100*share) + " %" }
