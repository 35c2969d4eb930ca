package headline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
)

// Fact is something that a reader asks next, in a few words.
type Fact struct{ Name, Text string }

// Facts returns what a reader asks after the answer of a run: its knee, which loads are within its SLO, which agents
// sent it, how to run it again, and what next. Each is there in each run: what is not known says why. r is in the
// plan's time.
func Facts(r *results.Result) []Fact {
	w := &writer{Headline: &results.Headline{}, r: r}
	w.curves = w.curvesOf()
	return []Fact{{"Knee", w.each(w.knee)}, {"SLO", w.each(w.slo)}, {"Agents", w.agents()},
		{"Again", again(r)}, {"Next", w.next()}}
}

// each says something of each curve, once if it is the same of all. Before the first colon is what they may share.
func (w *writer) each(of func(*curve) string) string {
	if len(w.curves) == 0 {
		return "not measured: no stage can be believed"
	}
	all := lists.Each(w.curves, of)
	lead, _, _ := strings.Cut(all[0], ": ")
	if lead += ": "; slices.ContainsFunc(all, func(text string) bool { return !strings.HasPrefix(text, lead) }) {
		lead = ""
	}
	name := func(c *curve) string { return c.target + ", " + c.workload }
	switch first := w.curves[0]; {
	case !slices.ContainsFunc(w.curves, func(o *curve) bool { return o.workload != first.workload }):
		name = func(c *curve) string { return c.target }
	case !slices.ContainsFunc(w.curves, func(o *curve) bool { return o.target != first.target }):
		name = func(c *curve) string { return c.workload }
	}
	var texts, named []string
	for i, c := range w.curves {
		text := strings.TrimPrefix(all[i], lead)
		texts, named = words.AppendOnce(texts, text), append(named, name(c)+": "+text)
	}
	if len(texts) == 1 {
		named = texts
	}
	if more := len(named) - 2*most; more > 0 {
		named = append(named[:2*most], fmt.Sprintf("%d more in the tables", more))
	}
	return words.Printable(lead + strings.Join(named, "; "))
}

// fewestLoads is the number of loads from which on one of them is a knee.
const fewestLoads = 3

// knee says which load has the highest throughput divided by latency: by its frontier, or else by mean E2E.
func (w *writer) knee(c *curve) string {
	by, so := "mean E2E", ""
	if !w.r.Run.Complete {
		so = " so far"
	}
	var knee *point
	if c.plain && len(c.points) >= fewestLoads {
		power := func(p *point) float64 { return c.throughput(p) / *cmp.Or(p.Number("e2e_ms.mean"), new(math.Inf(1))) }
		knee = slices.MaxFunc(c.points, func(a, b *point) int { return cmp.Compare(power(a), power(b)) })
	}
	for _, f := range w.r.Run.SeriesOf(loadpoint.Frontier) {
		for _, p := range c.points {
			if f.Target == c.target && f.Workload == c.workload && f.Knee != nil && slices.Contains(p.of, *f.Knee) {
				knee, by = p, f.Latency
			}
		}
	}
	switch {
	case knee == nil:
		return fmt.Sprintf("n/a for %s: a knee needs %d that have an order", words.Count(uint64(len(c.points)), "load"), fewestLoads)
	case knee == c.points[len(c.points)-1]:
		so += ", the highest load measured"
	}
	return fmt.Sprintf("highest throughput / %s: %s (%s %s)%s", by, knee.load, number(c.throughput(knee)), c.unit(), so)
}

// slo says which loads are within their limit, and how good the parts of a mixture are there.
func (w *writer) slo(c *curve) string {
	kept, broke, limited := c.within()
	some := slices.IndexFunc(c.points, func(p *point) bool { return p.limit != "" })
	at := cmp.Or(kept, c.points[0])
	var text string
	switch {
	case some < 0:
		return "none is set: add slo to the plan to judge loads"
	case !limited:
		at = c.points[some]
		within := lists.Count(c.points, func(p *point) bool { return p.kept })
		text = fmt.Sprintf("%s: %d of %s", at.rule, within, words.Count(uint64(len(c.points)), "load"))
	case kept == nil:
		text = fmt.Sprintf("%s: no load measured, %s is beyond (%s)", broke.rule, broke.load, broke.why)
	case broke == nil:
		text = fmt.Sprintf("%s: up to %s, the highest load measured", kept.rule, kept.load)
	default:
		text = fmt.Sprintf("%s: up to %s, %s is beyond (%s)", kept.rule, kept.load, broke.load, broke.why)
	}
	joint := "; good at " + at.load + ": "
	for i := range at.Parts {
		if g := at.Parts[i].Goodput; g != nil && g.Share != nil {
			text += joint + at.Parts[i].Name + " " + percent(*g.Share)
			joint = ", "
		}
	}
	return text
}

// agents names the agents, and says which were lost and where requests failed.
func (w *writer) agents() string {
	all, failed, lost := w.r.Run.Agents, map[string]uint64{}, []string(nil)
	named := func(a results.RunAgent) string { return strings.TrimSuffix(a.Name+" in "+a.Region, " in ") }
	text := words.Count(uint64(len(all)), "agent")
	if len(all) > 0 {
		text += ": " + words.Shorten(lists.Each(all, named), most)
	}
	for s := range lists.Refs(w.r.Stages) {
		for _, a := range s.Agents {
			if failed[a.Name] += a.Requests.Failed; a.Loss != nil || a.Failure != nil {
				lost = words.AppendOnce(lost, fmt.Sprintf("%s in stage %d", a.Name, s.Index+1))
			}
		}
	}
	end, where := "; none was lost", []string(nil)
	if lost != nil {
		end = "; lost or failed: " + words.Shorten(lost, most)
	}
	for _, a := range all {
		if n := failed[a.Name]; n > 0 {
			where = append(where, a.Name+" "+words.Thousands(n))
		}
	}
	if where != nil && len(all) > 1 {
		end += "; failed requests: " + words.Shorten(where, most)
	}
	return words.Printable(text + end)
}

// again says how to run the plan that is kept with a run.
func again(r *results.Result) string {
	text := "spate run plan.yaml, in the folder of the run"
	rows := func(p results.PartResult) bool { return p.Dataset != nil }
	if slices.ContainsFunc(r.Stages, func(s results.StageResult) bool {
		return s.Dataset != nil || slices.ContainsFunc(s.Parts, rows)
	}) {
		text += "; the files that it names by relative paths must be there"
	}
	return text
}

// next says how to go on, in the folder of the run: with what makes the answer clear, or else with what keeps it true.
func (w *writer) next() string {
	h := w.r.Headline
	switch {
	case h == nil || !w.r.Run.Complete || h.Kind == Nothing:
		return "see what went wrong, and run it again"
	case h.Kind != Targets:
		return "there, spate run plan.yaml --gate . shows if a later version is worse than this run"
	case h.Verdict != nil && *h.Verdict == Unclear:
		return "there, spate run plan.yaml --set loads[0].repeats=3 repeats the first load, which shows what chance does"
	}
	return "there, spate compare --by target . has each difference with its interval"
}
