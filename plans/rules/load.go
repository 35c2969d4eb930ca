package rules

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/document"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Limits of the schema for requests, requests_per_concurrency, load values and durations.
const (
	maxRequests       = 1_000_000_000
	maxPerConcurrency = 1_000_000
	maxLoad           = 10_000_000
	maxDuration       = 7 * 24 * time.Hour
)

// LoadKinds are the fields of which a load gives exactly one.
var LoadKinds = []string{
	"concurrency", "concurrency_range", "concurrency_phases", "rate", "rate_range", "rate_phases", "replay", "sweep",
	"search", "frontier",
}

func (c *checker) load(path string, l *spatev1.Load) {
	kind := c.loadKind(path)
	c.companions(path, kind, l)
	c.end(path, kind, l)
	c.warmup(path, kind, l)
	abort := l.GetAbort().GetDuration()
	warm := max(l.GetWarmup().GetDuration().AsDuration(), l.GetStagger().AsDuration())
	c.refuse(abort != nil && warm > 0 && abort.AsDuration() <= warm, path+".abort.duration",
		"must be longer than the warm-up (%s), which it includes", warm)
	c.interval(path+".concurrency_range", l.GetConcurrencyRange(), true)
	c.interval(path+".rate_range", l.GetRateRange(), false)
	c.phases(path+".concurrency_phases", l.GetConcurrencyPhases())
	c.phases(path+".rate_phases", l.GetRatePhases())
	if hasPhases(kind) {
		c.allPhases(path+"."+kind, append(loadpoint.ConcurrencyPhases(l), loadpoint.RatePhases(l)...), closedLoop(kind))
	}
	s, f := l.GetSearch(), l.GetFrontier()
	c.series(path+".search", s.GetRate(), s.GetConcurrency(), s.GetKeep())
	c.series(path+".frontier", f.GetRate(), f.GetConcurrency(), f.GetKeep())
}

// loadKind returns the kind of a load. For a search or a frontier, the kind is what it varies. It returns "" if the
// kind is not clear, and reports that.
func (c *checker) loadKind(path string) string {
	given := c.Given(path, LoadKinds...)
	switch {
	case len(given) == 0:
		c.absent(path, "does not say when requests start: give one of "+strings.Join(LoadKinds, ", "), LoadKinds...)
		return ""
	case len(given) > 1:
		for _, more := range given[1:] {
			c.wrong(path+"."+more, "give %s or %s, not both: list a second load for the other", given[0], more)
		}
		return ""
	case varies(given[0]) && c.Has(path+"."+given[0]+".rate"):
		return "rate"
	case varies(given[0]):
		return "concurrency"
	}
	return given[0]
}

// varies reports whether a kind of load looks for something over rates or concurrencies.
func varies(kind string) bool { return kind == "search" || kind == "frontier" }

func closedLoop(kind string) bool { return strings.HasPrefix(kind, "concurrency") }

// hasPhases reports whether a kind of load changes over time.
func hasPhases(kind string) bool { return strings.HasSuffix(kind, "_phases") }

// companions are the fields that some kinds of load cannot have.
var companions = []struct {
	field   string
	refuses func(kind string) bool
	why     string
}{
	{"arrival", closedLoop, "works only with rate: with concurrency a request starts when another ends"},
	{"arrival", isReplay, "works only with rate: a replay starts requests at the times of the trace"},
	{"think_time", openLoop, "works only with concurrency: nothing else waits for a request's end"},
	{"stagger", openLoop, "works only with concurrency: a rate spreads its requests by itself"},
	{"stagger", hasPhases, "does not work with phases, which say when slots start"},
	{"max_in_flight", closedLoop, "works only with rate: the concurrency of a closed loop is its requests in flight"},
	{"max_in_flight", isSweep, "does not work with sweep: its rates lie below what a saturated server completes"},
}

func openLoop(kind string) bool { return !closedLoop(kind) }
func isReplay(kind string) bool { return kind == "replay" }
func isSweep(kind string) bool  { return kind == "sweep" }

// companions checks the fields that go only with some kinds of load.
func (c *checker) companions(path, kind string, l *spatev1.Load) {
	if kind == "" {
		return
	}
	for _, r := range companions {
		c.refuse(c.Has(path+"."+r.field) && r.refuses(kind), path+"."+r.field, "%s", r.why)
	}
	steady, stagger := l.GetWarmup().GetUntilSteady(), l.GetStagger()
	c.refuse(closedLoop(kind) && steady != nil && stagger != nil && stagger.AsDuration() >= steady.AsDuration(),
		path+".stagger", "must be shorter than warmup.until_steady (%s), which it is a part of", steady.AsDuration())
	c.burstiness(path, l)
}

func (c *checker) burstiness(path string, l *spatev1.Load) {
	at, gamma := path+".burstiness", l.GetArrival() == "gamma"
	if c.Has(at) && !gamma {
		c.wrong(at, "works only with arrival: gamma")
	} else if gamma && !c.Has(at) {
		c.absent(path, "has arrival: gamma without burstiness: give it (1 is Poisson, less is burstier, more is smoother)", "burstiness")
	}
}

// end checks what ends the stages of a load.
func (c *checker) end(path, kind string, l *spatev1.Load) {
	ends := c.Given(path, "requests", "requests_per_concurrency", "sessions", "duration")
	if hasPhases(kind) {
		c.without(path, fmt.Sprintf("does not work with %s: the stage ends with the last phase", kind), ends...)
		return
	}
	c.counted(path, kind, ends)
	if len(ends) == 0 && kind != "replay" {
		c.absent(path, "has no end: give requests, requests_per_concurrency, sessions or duration (a warm-up does not end a stage)",
			"requests", "requests_per_concurrency", "sessions", "duration")
	}
	most := slices.Max(append([]uint32{0}, loadpoint.Concurrencies(l)...))
	c.refuse(uint64(most)*min(l.GetRequestsPerConcurrency(), maxPerConcurrency) > maxRequests,
		path+".requests_per_concurrency", "times a concurrency of %d must be at most %d requests", most, maxRequests)
}

// counted checks the ends that are numbers of requests or sessions.
func (c *checker) counted(path, kind string, ends []string) {
	counts := slices.DeleteFunc(slices.Clone(ends), func(field string) bool { return field == "duration" })
	for _, more := range counts[min(1, len(counts)):] {
		c.wrong(path+"."+more, "give %s or %s, not both", counts[0], more)
	}
	at, templates := path+".requests_per_concurrency", c.Given(path, "sweep", "search", "frontier")
	switch {
	case kind == "" || len(counts) != 1 || !c.Has(at):
	case len(templates) > 0:
		c.wrong(at, "does not work with %s: give requests or duration, the end of each of its stages", templates[0])
	case !closedLoop(kind):
		c.wrong(at, "works only with concurrency: with rate give requests or duration")
	}
}

// warmup checks the parts at the start and the end of a stage that are left out of the results.
func (c *checker) warmup(path, kind string, l *spatev1.Load) {
	at := path + ".warmup"
	steady := at + ".until_steady"
	if !hasPhases(kind) {
		return
	}
	c.refuse(c.Has(steady), steady, "does not work with %s: a load that changes is never steady", kind)
	warm, cool := l.GetWarmup().GetDuration().AsDuration(), l.GetCooldown().AsDuration()
	whole := loadpoint.Time(append(loadpoint.ConcurrencyPhases(l), loadpoint.RatePhases(l)...))
	switch {
	case whole <= 0: // Reported elsewhere.
	case warm >= whole:
		c.wrong(at+".duration", "must be shorter than the phases together (%s): it is a part of them", whole)
	case warm+cool >= whole && cool > 0:
		c.wrong(path+".cooldown", "must leave a measured part of the phases (%s together): it is their last part",
			whole)
	}
}

// interval checks a range of load points. whole: the values are concurrencies.
func (c *checker) interval(path string, r *spatev1.Range, whole bool) {
	if r == nil {
		return
	}
	c.ordered(path, r.GetFrom(), r.GetTo(), whole, r.GetTo() >= r.GetFrom(), "must be at least")
	if r.GetTo() >= r.GetFrom() && r.GetFrom() > 0 {
		c.between(path, r)
	}
}

// between checks the field that says which values a range has.
func (c *checker) between(path string, r *spatev1.Range) {
	switch {
	case c.Has(path+".step") && r.GetStep() <= 0 || c.Has(path+".factor") && r.GetFactor() <= 1: // The schema's rules report it.
		return
	case c.Has(path+".points") && r.GetPoints() < 2 && r.GetFrom() < r.GetTo():
		c.wrong(path+".points", "must be at least 2: both ends are part of the range, got %d", r.GetPoints())
	}
	for _, way := range c.Given(path, "step", "factor") {
		c.refuse(len(loadpoint.RangeValues(r)) > loadpoint.MaxValues, path+"."+way,
			"makes more than %d values: make it larger", loadpoint.MaxValues)
	}
}

// ordered checks the ends of a range or of a search's bounds. If an end is missing, the schema's rules report it.
func (c *checker) ordered(path string, from, to float64, whole, inOrder bool, want string) {
	if from <= 0 || to <= 0 {
		return
	}
	c.refuse(whole && from < 1, path+".from", "must be at least 1: it is a concurrency, got %s", loadpoint.Number(from))
	c.refuse(!inOrder, path+".to", "%s from (%s), got %s", want, loadpoint.Number(from), loadpoint.Number(to))
}

// phases checks the single phases of a load.
func (c *checker) phases(path string, phases []*spatev1.Phase) {
	before := 0.0
	for i, p := range phases {
		c.phase(fmt.Sprintf("%s[%d]", path, i), before)
		before = defaults.PhaseEnd(p)
	}
}

// allPhases checks what the phases of a load are together. whole: the values are concurrencies.
func (c *checker) allPhases(path string, phases []*spatev1.Phase, whole bool) {
	largest, total := loadpoint.LargestPhase(phases), loadpoint.Time(phases)
	say := func(message string) { c.keep(document.Finding{Path: path, Message: message, Whole: true}) }
	switch {
	case len(phases) == 0:
	case largest == 0:
		say("are 0 throughout: nothing would ever be sent")
	case whole && largest < 1:
		say("must reach a concurrency of at least 1, got at most " + loadpoint.Number(largest))
	}
	if total > maxDuration {
		say(fmt.Sprintf("must last at most %s together", maxDuration))
	}
}

// phase checks one phase. before is the value at which the previous phase ends. A jump must be written out: otherwise a
// forgotten `from` would silently drop the load to 0.
func (c *checker) phase(path string, before float64) {
	from, to := c.Has(path+".from"), c.Has(path+".to")
	if !from && to && before > 0 {
		c.absent(path, fmt.Sprintf("has no from, and the phase before ends at %s: give from, even if it is 0",
			loadpoint.Number(before)), "from")
	}
}

// series checks what a search or a frontier varies, and which objectives it keeps.
func (c *checker) series(path string, rate, concurrency *spatev1.Bounds, keep *spatev1.Objectives) {
	c.searchBounds(path+".rate", rate, false)
	c.searchBounds(path+".concurrency", concurrency, true)
	c.objectives(path+".keep", keep)
}

// choose checks a choice of the best target.
func (c *checker) choose(path string, l *spatev1.Load, p *spatev1.Plan) {
	if !c.Has(path) {
		return
	}
	best, targets := l.GetChoose().GetBest(), cmp.Or(len(l.GetTargets()), len(p.GetTargets()))
	switch {
	case targets < 2:
		c.wrong(path, "needs two targets or more to choose from")
	case p.GetOrder() == "target":
		c.wrong(path, "does not work with order: target: each round runs the targets in turns")
	}
	c.refuse(best == "goodput" && !c.Has("slo") && !ownLimits(p, l), path+".best",
		"needs the plan's slo: give slo: {ttft: ...} or other parts of it")
	c.refuse(c.Has(path+".percentile") && loadpoint.IsThroughput(best), path+".percentile",
		"works only with a latency: give best: ttft or another one")
	c.objectives(path+".within", l.GetChoose().GetWithin())
}

// objectives checks limits that a load must keep.
func (c *checker) objectives(keep string, o *spatev1.Objectives) {
	seen := make(map[string]int)
	for i, l := range o.GetLatencies() {
		key := fmt.Sprint(l.GetMetric(), " ", l.GetPercentile())
		if first, again := seen[key]; again {
			c.wrong(fmt.Sprintf("%s.latencies[%d]", keep, i),
				"limits the same percentile as latencies[%d]: keep the lower limit", first)
		} else {
			seen[key] = i
		}
	}
}

func (c *checker) searchBounds(path string, b *spatev1.Bounds, whole bool) {
	if b == nil {
		return
	}
	c.ordered(path, b.GetFrom(), b.GetTo(), whole, b.GetTo() > b.GetFrom(), "must be greater than")
	for field, v := range map[string]float64{".from": b.GetFrom(), ".to": b.GetTo()} {
		c.refuse(whole && v >= 1 && v != math.Trunc(v), path+field,
			"must be a whole number: it is a concurrency, got %s", loadpoint.Number(v))
	}
}
