// Package rules finds where a plan breaks the rules between its fields. Each file checks one part of a plan. A rule
// names the field, what is wrong with its value, and what to do. It never repeats text, which may be a secret in the
// wrong place. The rules of single fields are in the schema, and package document checks them.
package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/document"
	"github.com/spate-load/spate/plans/loadpoint"
	"github.com/spate-load/spate/plans/naming"
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
			c.wrong(path+".baseline", "targets[%d] is the baseline already: mark only one target", baseline)
		} else if t.GetBaseline() {
			baseline = i
		}
	}
	for i, w := range p.GetWorkloads() {
		path := fmt.Sprintf("workloads[%d]", i)
		if !c.nameless(path, w) {
			c.unique(workloads, "workload", path, i, content.Name(w))
		}
		c.workload(path, w)
		c.asks(path, w, opts.Discover)
		for j, part := range w.GetMix().GetParts() {
			c.asks(fmt.Sprintf("%s.mix.parts[%d].workload", path, j), part.GetWorkload(), opts.Discover)
		}
	}
	points := make(map[string][]place)
	for i, l := range p.GetLoads() {
		path := fmt.Sprintf("loads[%d]", i)
		c.ownNames(path, l, p)
		c.load(path, l)
		c.distinct(points, path, l, p)
		c.cells(path, l, p.GetWorkloads())
	}
	c.unused(p)
	c.forms(p)
	c.partForms(p)
	c.askForms(p)
	c.goals(p)
	c.wholeAnswers(p)
	c.thresholds(p)
	c.simulation(p)
	c.regions(p)
	c.agents(p)
	c.size(p, opts.MaxStages)
}

func (c *checker) unique(seen map[string]int, what, path string, index int, name string) {
	if first, again := seen[name]; !again {
		seen[name] = index
	} else if name != "" {
		c.wrong(path+".name", "the name %q is already used by %ss[%d]: give each %s its own name", name, what, first,
			what)
	}
}

// goals checks that nothing asks for goodput without one.
func (c *checker) goals(p *spatev1.Plan) {
	for i, l := range p.GetLoads() {
		c.choose(fmt.Sprintf("loads[%d].choose", i), l, p)
		for path, keep := range keeps(fmt.Sprintf("loads[%d]", i), l) {
			c.refuse(c.Has(path+".goodput") && !c.Has("slo") && !ownLimits(p, l), path+".goodput",
				"needs the plan's slo: give slo: {ttft: ...} or other parts of it")
			if keep.GetEachPart() {
				c.unfit(path+".each_part", l, p.GetWorkloads(),
					func(w *spatev1.Workload) bool { return w.GetMix() == nil }, "is not a mixture and has no parts")
			}
		}
	}
}

// keeps returns the objectives of a load, by their paths.
func keeps(path string, l *spatev1.Load) map[string]*spatev1.Objectives {
	return map[string]*spatev1.Objectives{
		path + ".search.keep":   l.GetSearch().GetKeep(),
		path + ".frontier.keep": l.GetFrontier().GetKeep(),
		path + ".choose.within": l.GetChoose().GetWithin(),
	}
}

// ownLimits reports whether each workload of a load is a mixture whose parts have SLOs of their own.
func ownLimits(p *spatev1.Plan, l *spatev1.Load) bool {
	return !slices.ContainsFunc(p.GetWorkloads(), func(w *spatev1.Workload) bool {
		without := func(part *spatev1.Part) bool { return part.GetSlo() == nil }
		return loadpoint.IsFor(l, content.Name(w)) &&
			(w.GetMix() == nil || slices.ContainsFunc(w.GetMix().GetParts(), without))
	})
}

// cells checks that a load fits each workload that it runs with.
func (c *checker) cells(path string, l *spatev1.Load, workloads []*spatev1.Workload) {
	if l.GetReplay() != nil {
		c.unfit(path+".replay", l, workloads,
			func(w *spatev1.Workload) bool { return !slices.ContainsFunc(content.Parts(w), isTrace) },
			"has no times to replay: use only workloads from traces ("+strings.Join(content.Traces(), ", ")+")")
		for i, w := range workloads {
			if loadpoint.IsFor(l, content.Name(w)) && slices.ContainsFunc(content.Parts(w), isTrace) {
				c.replayedParts(fmt.Sprintf("workloads[%d]", i), path, w.GetMix().GetParts())
			}
		}
	}
	for _, field := range c.Given(path, "requests", "requests_per_concurrency") {
		c.unfit(path+"."+field, l, workloads, content.PlaysSessions, "has sessions: give sessions or duration")
	}
	if l.GetSessions() > 0 {
		c.unfit(path+".sessions", l, workloads, func(w *spatev1.Workload) bool { return !content.PlaysSessions(w) },
			"has no sessions: give requests or duration")
	}
}

func isTrace(w *spatev1.Workload) bool { return content.Trace(w) != nil }

// replayedParts refuses parts of a mixture that a load cannot replay, and weights, which a replay does not go by.
func (c *checker) replayedParts(path, load string, parts []*spatev1.Part) {
	for i, part := range parts {
		at := fmt.Sprintf("%s.mix.parts[%d]", path, i)
		c.refuse(!isTrace(part.GetWorkload()) && part.GetWorkload().GetContent() != nil, at+".workload",
			"has no times to replay, and %s replays all parts of its mixture: use only traces", load)
		c.refuse(part.GetWeight() != parts[0].GetWeight(), at+".weight",
			"%s replays each part at the times of its own trace: give all parts the same weight", load)
	}
}

// ownNames reports the targets and workloads of a load that the plan does not have.
func (c *checker) ownNames(path string, l *spatev1.Load, p *spatev1.Plan) {
	targets, workloads := names(p)
	for i, name := range l.GetTargets() {
		c.named(fmt.Sprintf("%s.targets[%d]", path, i), "target", name, targets)
	}
	for i, name := range l.GetWorkloads() {
		c.named(fmt.Sprintf("%s.workloads[%d]", path, i), "workload", name, workloads)
	}
}

// names returns the names of a plan's targets and workloads.
func names(p *spatev1.Plan) (targets, workloads []string) {
	targets = lists.Each(p.GetTargets(), (*spatev1.Target).GetName)
	workloads = lists.Each(p.GetWorkloads(), content.Name)
	return targets, workloads
}

// unused reports the targets and workloads that no load is for.
func (c *checker) unused(p *spatev1.Plan) {
	if len(p.GetLoads()) == 0 {
		return
	}
	const message = "no load runs the %[1]s %[2]q: add it to a load's %[1]ss, or remove it"
	targets, workloads := names(p)
	for i, name := range targets {
		of := func(l *spatev1.Load) bool { return loadpoint.IsForTarget(l, name) }
		c.refuse(!slices.ContainsFunc(p.GetLoads(), of), fmt.Sprintf("targets[%d]", i), message, "target", name)
	}
	for i, name := range workloads {
		of := func(l *spatev1.Load) bool { return loadpoint.IsFor(l, name) }
		c.refuse(!slices.ContainsFunc(p.GetLoads(), of), fmt.Sprintf("workloads[%d]", i), message, "workload", name)
	}
}

// Meet reports whether a load of a plan runs a target with a workload.
func Meet(p *spatev1.Plan, t *spatev1.Target, w *spatev1.Workload) bool {
	return slices.ContainsFunc(p.GetLoads(), func(l *spatev1.Load) bool {
		return loadpoint.IsForTarget(l, t.GetName()) && loadpoint.IsFor(l, content.Name(w))
	})
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
		c.wrong(path, "does not work with %s and %d more workloads: each %s", strings.Join(names[:most], ", "), n-most,
			why)
	case n > 1:
		c.wrong(path, "does not work with the workloads %s: each %s", strings.Join(names, ", "), why)
	case n == 1:
		c.wrong(path, "does not work with the workload %s, which %s", names[0], why)
	}
}

// place is a load point of a load.
type place struct {
	at      string
	targets []string
}

// distinct refuses a load point that another load already has for one of its targets and workloads. Its stages would
// send the same requests again, and a server's prefix cache would answer those sooner.
func (c *checker) distinct(seen map[string][]place, path string, l *spatev1.Load, p *spatev1.Plan) {
	given := c.Given(path, LoadKinds...)
	if len(given) != 1 {
		return // Reported elsewhere; the values are not one load.
	}
	targets, workloads := own(l, p)
	shared := func(other place) bool {
		return slices.ContainsFunc(other.targets, func(t string) bool { return slices.Contains(targets, t) })
	}
	found := make(map[string]string)
	for i, point := range loadpoint.WithoutRepeats(l) {
		key, at := loadpoint.Key(point), path+"."+given[0]
		message := "is the same load point as %s: remove one, or give them different ends"
		if len(l.GetConcurrency())+len(l.GetRate()) > 0 {
			at = fmt.Sprintf("%s[%d]", at, i)
		} else {
			message = loadpoint.Words(point) + " " + message
		}
		for _, w := range workloads {
			cell := w + "\n" + key
			if first := slices.IndexFunc(seen[cell], shared); first >= 0 {
				c.wrong(at, message, seen[cell][first].at)
				break
			}
			found[cell] = at
		}
	}
	for cell, at := range found {
		seen[cell] = append(seen[cell], place{at, targets})
	}
}

// own returns the names of the targets and workloads that a load is for.
func own(l *spatev1.Load, p *spatev1.Plan) (targets, workloads []string) {
	targets, workloads = names(p)
	targets = slices.DeleteFunc(targets, func(name string) bool { return !loadpoint.IsForTarget(l, name) })
	return targets, slices.DeleteFunc(workloads, func(name string) bool { return !loadpoint.IsFor(l, name) })
}

func (c *checker) size(p *spatev1.Plan, most int) {
	stages := 0
	for _, l := range p.GetLoads() {
		targets, workloads := own(l, p)
		stages += len(targets) * len(workloads) * loadpoint.MostStages(l)
	}
	c.refuse(stages > most, "loads",
		"the targets with their workloads and loads are %d stages, more than the limit of %d: split the plan", stages,
		most)
}

// regions checks that a plan with regions names some, and that agents can have those names.
func (c *checker) regions(p *spatev1.Plan) {
	c.refuse(c.Has("regions") && len(p.GetRegions()) == 0, "regions",
		"is empty: name regions and their shares, {eu: 0.6, us: 0.4}, or leave it out")
	for name := range p.GetRegions() {
		if utf8.RuneCountInString(name) <= naming.MaxRegion { // the schema's rule reports longer names
			c.problem("regions["+strconv.Quote(name)+"]", naming.CheckRegion(name))
		}
	}
}

// agents checks the selector of a plan's agents.
func (c *checker) agents(p *spatev1.Plan) {
	const labels, count = "agents.labels", "agents.count"
	s := p.GetAgents()
	for _, name := range slices.Sorted(maps.Keys(s.GetLabels())) {
		c.problem(labels+"["+strconv.Quote(name)+"]", naming.CheckLabel(name, s.GetLabels()[name]))
	}
	c.refuse(len(p.GetRegions()) > 0 && s.GetLabels()[naming.RegionLabel] != "",
		labels+"["+strconv.Quote(naming.RegionLabel)+"]",
		"regions say already which regions take part: give one of the two")
	c.refuse(s.GetCount() > 0 && int(s.GetCount()) < len(p.GetRegions()), count,
		"must be at least the number of regions, %d, got %d", len(p.GetRegions()), s.GetCount())
}

// Options are what the rules depend on besides the plan.
type Options struct {
	// MaxStages is the most stages that a plan may expand into.
	MaxStages int
	// Discover accepts targets without a model, and targets that have kubernetes instead of endpoints.
	Discover bool
}

// Broken returns where a decoded plan breaks the rules between its fields.
func Broken(d *document.Document, msg *spatev1.Plan, opts Options) []document.Finding {
	c := &checker{Document: d}
	c.plan(msg, opts)
	return c.found
}

// checker collects findings about the values of a plan.
type checker struct {
	*document.Document
	found []document.Finding
}

// wrong adds a finding about a value.
func (c *checker) wrong(path, format string, args ...any) {
	c.keep(document.Finding{Path: path, Message: fmt.Sprintf(format, args...)})
}

// refuse adds a finding if a value is wrong.
func (c *checker) refuse(wrong bool, path, format string, args ...any) {
	if wrong {
		c.wrong(path, format, args...)
	}
}

// problem adds a finding if there is one: a message, or an error.
func (c *checker) problem(path string, problem any) {
	if problem != nil && problem != "" {
		c.wrong(path, "%v", problem)
	}
}

// without refuses each of the fields that a message has.
func (c *checker) without(path, why string, fields ...string) {
	for _, field := range c.Given(path, fields...) {
		c.wrong(path+"."+field, "%s", why)
	}
}

// absent adds a finding about a message that needs one of the fields in cures.
func (c *checker) absent(path, message string, cures ...string) {
	c.keep(document.Finding{Path: path, Message: message, In: path, Cures: cures})
}

func (c *checker) keep(f document.Finding) {
	if len(c.found) < document.MaxFound {
		c.found = append(c.found, f)
	}
}
