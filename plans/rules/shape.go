package rules

import (
	"fmt"
	"math"

	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/document"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
	case c.Has(path+".step") && r.GetStep() <= 0:
		c.wrong(path+".step", "must be greater than 0")
	case c.Has(path+".factor") && r.GetFactor() <= 1:
		c.wrong(path+".factor", "must be greater than 1, got "+loadpoint.Number(r.GetFactor()))
	case c.Has(path+".points") && r.GetPoints() < 2 && r.GetFrom() < r.GetTo():
		c.wrong(path+".points", fmt.Sprintf("must be at least 2: both ends are part of the range, got %d",
			r.GetPoints()))
	}
	for _, way := range c.Given(path, "step", "factor") {
		if len(loadpoint.RangeValues(r)) > loadpoint.MaxValues {
			c.wrong(path+"."+way, fmt.Sprintf("makes more than %d values: make it larger", loadpoint.MaxValues))
		}
	}
}

// ordered checks the ends of a range or of a search's bounds. If an end is missing, the schema's rules report it.
func (c *checker) ordered(path string, from, to float64, whole, inOrder bool, want string) {
	if from <= 0 || to <= 0 {
		return
	}
	if whole && from < 1 {
		c.wrong(path+".from", "must be at least 1: it is a concurrency, got "+loadpoint.Number(from))
	}
	if !inOrder {
		c.wrong(path+".to", fmt.Sprintf("%s from (%s), got %s", want, loadpoint.Number(from), loadpoint.Number(to)))
	}
}

// phases checks the single phases of a load.
func (c *checker) phases(path string, phases []*spatev1.Phase) {
	before := 0.0
	for i, p := range phases {
		c.phase(fmt.Sprintf("%s[%d]", path, i), p, before)
		before = defaults.PhaseEnd(p)
	}
}

func (c *checker) spike(path string, s *spatev1.Spike) {
	if s.GetPeak() > 0 && s.GetPeak() <= s.GetBase() {
		c.wrong(path+".peak", fmt.Sprintf("must be greater than base (%s), got %s",
			loadpoint.Number(s.GetBase()), loadpoint.Number(s.GetPeak())))
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
func (c *checker) phase(path string, p *spatev1.Phase, before float64) {
	from, to := c.Has(path+".from"), c.Has(path+".to")
	switch {
	case !from && !to:
		c.absent(path, "has neither from nor to: give the value that it holds as from", "from", "to")
	case !from && before > 0:
		c.absent(path, fmt.Sprintf("has no from, and the phase before ends at %s: give from, even if it is 0",
			loadpoint.Number(before)), "from")
	}
	shape := p.GetShape()
	if shape != "" && !to {
		c.wrong(path+".shape", "works only with to: without it the value holds")
	} else if shape == "exponential" && (p.GetFrom() == 0 || p.GetTo() == 0) {
		c.wrong(path+".shape", "cannot start or end at 0, because no ratio leads away from 0: use linear, or a small value")
	}
	c.steps(path, p)
}

func (c *checker) steps(path string, p *spatev1.Phase) {
	shape := p.GetShape()
	switch {
	case c.Has(path+".steps") && shape != "steps":
		c.wrong(path+".steps", "works only with shape: steps")
	case shape == "steps" && !c.Has(path+".steps"):
		c.absent(path, "has shape: steps without their number: give steps, at least 2", "steps")
	case shape == "steps" && p.GetSteps() < 2:
		c.wrong(path+".steps", fmt.Sprintf("must be at least 2: both ends are held, got %d", p.GetSteps()))
	}
}

// search checks what a search varies and which objectives it keeps.
func (c *checker) search(path string, s *spatev1.Search) {
	if s == nil {
		return
	}
	c.searchBounds(path+".rate", s.GetRate(), false)
	c.searchBounds(path+".concurrency", s.GetConcurrency(), true)
	c.objectives(path+".keep", s.GetKeep())
}

// frontier checks what a frontier varies and which objectives it looks for.
func (c *checker) frontier(path string, f *spatev1.Frontier) {
	if f == nil {
		return
	}
	c.searchBounds(path+".rate", f.GetRate(), false)
	c.searchBounds(path+".concurrency", f.GetConcurrency(), true)
	if at, least := path+".points", uint32(3); c.Has(at) && f.GetPoints() < least {
		c.wrong(at, fmt.Sprintf("must be at least %d, got %d", least, f.GetPoints()))
	}
	if at := path + ".tolerance"; c.Has(at) && f.GetTolerance() == 0 {
		c.wrong(at, "must be greater than 0: leave it out for the default")
	}
	if at := path + ".percentile"; c.Has(at) && f.GetPercentile() == 0 {
		c.wrong(at, "must be greater than 0: leave it out for the mean")
	}
	c.objectives(path+".keep", f.GetKeep())
}

// objectives checks limits that a load must keep.
func (c *checker) objectives(keep string, o *spatev1.Objectives) {
	if o != nil && len(c.Given(keep, "latencies", "error_share", "goodput")) == 0 {
		c.absent(keep, "has no objective: give at least one of latencies, error_share, goodput", "latencies",
			"error_share", "goodput")
	}
	seen := make(map[string]int)
	for i, l := range o.GetLatencies() {
		key := fmt.Sprint(l.GetMetric(), " ", l.GetPercentile())
		if first, again := seen[key]; again {
			c.wrong(fmt.Sprintf("%s.latencies[%d]", keep, i),
				fmt.Sprintf("limits the same percentile as latencies[%d]: keep the lower limit", first))
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
		if whole && v >= 1 && v != math.Trunc(v) {
			c.wrong(path+field, "must be a whole number: it is a concurrency, got "+loadpoint.Number(v))
		}
	}
}
