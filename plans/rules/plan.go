package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// plan checks what rules of single fields cannot express.
func (c *checker) plan(p *spatev1.Plan, opts Options) {
	targets, workloads := make(map[string]int), make(map[string]int)
	baseline := -1
	for i, t := range p.GetTargets() {
		path := fmt.Sprintf("targets[%d]", i)
		c.unique(targets, "target", path, i, t.GetName())
		c.target(path, t, p.GetSimulation() != nil, opts.Discover)
		if t.GetBaseline() && baseline >= 0 {
			c.wrong(path+".baseline", fmt.Sprintf("targets[%d] is the baseline already: mark only one target", baseline))
		} else if t.GetBaseline() {
			baseline = i
		}
	}
	for i, w := range p.GetWorkloads() {
		path := fmt.Sprintf("workloads[%d]", i)
		if !nameless(w) {
			c.unique(workloads, "workload", path, i, content.Name(w))
		}
		c.workload(path, w)
	}
	points := make(map[string]string)
	for i, l := range p.GetLoads() {
		path := fmt.Sprintf("loads[%d]", i)
		own := c.ownWorkloads(path, l, p.GetWorkloads())
		c.load(path, l)
		c.distinct(points, path, l, own)
		c.cells(path, l, p.GetWorkloads())
	}
	c.unused(p)
	c.forms(p)
	c.outputs(p)
	c.goals(p)
	c.wholeAnswers(p)
	c.thresholds(p)
	c.simulation(p)
	c.regions(p)
	c.agents(p)
	c.observers(p)
	c.size(p, opts.MaxStages)
}

func (c *checker) unique(seen map[string]int, what, path string, index int, name string) {
	first, again := seen[name]
	if !again {
		seen[name] = index
	} else if name != "" {
		c.wrong(path+".name", fmt.Sprintf("the name %q is already used by %ss[%d]: give each %s its own name",
			name, what, first, what))
	}
}

// one checks that exactly one of two fields is given.
func (c *checker) one(path, a, b string) {
	switch given := c.Given(path, a, b); len(given) {
	case 0:
		c.absent(path, fmt.Sprintf("has neither %s nor %s: give one of them", a, b), a, b)
	case 2:
		c.wrong(path+"."+b, fmt.Sprintf("give %s or %s, not both", a, b))
	}
}

// goals checks the SLO, and that nothing asks for goodput without one.
func (c *checker) goals(p *spatev1.Plan) {
	if c.Has("slo") && len(c.Given("slo", "ttft", "tpot", "e2e")) == 0 {
		c.absent("slo", "has none of ttft, tpot and e2e: give at least one", "ttft", "tpot", "e2e")
	}
	for i := range p.GetLoads() {
		if at := fmt.Sprintf("loads[%d].search.keep.goodput", i); c.Has(at) && !c.Has("slo") {
			c.wrong(at, "needs the plan's slo: give slo: {ttft: ...} or other parts of it")
		}
	}
}

// cells checks that a load fits each workload that it runs with.
func (c *checker) cells(path string, l *spatev1.Load, workloads []*spatev1.Workload) {
	if l.GetReplay() != nil {
		c.unfit(path+".replay", l, workloads, func(w *spatev1.Workload) bool { return content.Trace(w) == nil },
			"has no times to replay: use only workloads from traces ("+strings.Join(content.Traces(), ", ")+")")
	}
	for _, field := range c.Given(path, "requests", "requests_per_concurrency") {
		c.unfit(path+"."+field, l, workloads, content.PlaysSessions, "has sessions: give sessions or duration")
	}
	if l.GetSessions() > 0 {
		c.unfit(path+".sessions", l, workloads, func(w *spatev1.Workload) bool { return !content.PlaysSessions(w) },
			"has no sessions: give requests or duration")
	}
}

// ownWorkloads returns the workloads that a load is for. It reports names that the plan does not have.
func (c *checker) ownWorkloads(path string, l *spatev1.Load, workloads []*spatev1.Workload) []*spatev1.Workload {
	var own []*spatev1.Workload
	var names []string
	for _, w := range workloads {
		names = append(names, content.Name(w))
		if loadpoint.IsFor(l, content.Name(w)) {
			own = append(own, w)
		}
	}
	for i, name := range l.GetWorkloads() {
		if !slices.Contains(names, name) {
			c.wrong(fmt.Sprintf("%s.workloads[%d]", path, i), fmt.Sprintf("there is no workload %q; the plan has %s",
				name, nameList(names)))
		}
	}
	return own
}

// unused reports the workloads that no load is for.
func (c *checker) unused(p *spatev1.Plan) {
	for i, w := range p.GetWorkloads() {
		used := slices.ContainsFunc(p.GetLoads(),
			func(l *spatev1.Load) bool { return loadpoint.IsFor(l, content.Name(w)) })
		if !used && len(p.GetLoads()) > 0 {
			c.wrong(fmt.Sprintf("workloads[%d]", i),
				fmt.Sprintf("no load runs the workload %q: add it to a load's workloads, or remove it",
					content.Name(w)))
		}
	}
}

func nameList(names []string) string {
	var q []string
	for _, name := range names {
		q = append(q, fmt.Sprintf("%q", name))
	}
	return strings.Join(q, ", ")
}

// unfit reports the workloads of a load that the field at path does not work with.
func (c *checker) unfit(
	path string, l *spatev1.Load, workloads []*spatev1.Workload, is func(*spatev1.Workload) bool, why string,
) {
	var names []string
	for i, w := range workloads {
		if w.GetContent() != nil && loadpoint.IsFor(l, content.Name(w)) && is(w) {
			names = append(names, fmt.Sprintf("%q (workloads[%d])", content.Name(w), i))
		}
	}
	const most = 3
	switch n := len(names); {
	case n > most:
		c.wrong(path, fmt.Sprintf("does not work with %s and %d more workloads: each %s",
			strings.Join(names[:most], ", "), n-most, why))
	case n > 1:
		c.wrong(path, fmt.Sprintf("does not work with the workloads %s: each %s", strings.Join(names, ", "), why))
	case n == 1:
		c.wrong(path, fmt.Sprintf("does not work with the workload %s, which %s", names[0], why))
	}
}

// distinct refuses a load point that another load already has. Its stages would send the same requests again, and a
// server's prefix cache would answer those sooner.
func (c *checker) distinct(seen map[string]string, path string, l *spatev1.Load, workloads []*spatev1.Workload) {
	given := c.Given(path, LoadKinds...)
	if len(given) != 1 {
		return // Reported elsewhere; the values are not one load.
	}
	own := make(map[string]string)
	for i, point := range loadpoint.WithoutRepeats(l) {
		key, at := loadpoint.Key(point), path+"."+given[0]
		message := "is the same load point as %s: remove one, or give them different ends"
		if len(l.GetConcurrency())+len(l.GetRate()) > 0 {
			at = fmt.Sprintf("%s[%d]", at, i)
		} else {
			message = loadpoint.Words(point) + " " + message
		}
		for _, w := range workloads {
			cell := content.Name(w) + "\n" + key
			if first := seen[cell]; first != "" {
				c.wrong(at, fmt.Sprintf(message, first))
				break
			}
			own[cell] = at
		}
	}
	for key, at := range own {
		if seen[key] == "" {
			seen[key] = at
		}
	}
}

func (c *checker) size(p *spatev1.Plan, most int) {
	cells := 0
	for _, l := range p.GetLoads() {
		for _, w := range p.GetWorkloads() {
			if loadpoint.IsFor(l, content.Name(w)) {
				cells += loadpoint.MostStages(l)
			}
		}
	}
	if n := len(p.GetTargets()) * cells; n > most {
		c.wrong("loads", fmt.Sprintf("%d targets x %d pairs of a workload and a load point are %d stages, more than the limit of %d: split the plan",
			len(p.GetTargets()), cells, n, most))
	}
}
