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
	case c.Has(path+".step") && r.GetStep() <= 0 || c.Has(path+".factor") && r.GetFactor() <= 1: // The schema's rules report it.
		return
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
	switch shape := p.GetShape(); {
	case !from && to && before > 0:
		c.absent(path, fmt.Sprintf("has no from, and the phase before ends at %s: give from, even if it is 0",
			loadpoint.Number(before)), "from")
	case shape == "exponential" && to && (p.GetFrom() == 0 || p.GetTo() == 0):
		c.wrong(path+".shape", "cannot start or end at 0, because no ratio leads away from 0: use linear, or a small value")
	}
	if steps := c.Has(path + ".steps"); steps && p.GetShape() != "steps" {
		c.wrong(path+".steps", "works only with shape: steps")
	} else if !steps && p.GetShape() == "steps" {
		c.absent(path, "has shape: steps without their number: give steps, at least 2", "steps")
	}
}

// series checks what a search or a frontier varies, and which objectives it keeps.
func (c *checker) series(path string, rate, concurrency *spatev1.Bounds, keep *spatev1.Objectives) {
	c.searchBounds(path+".rate", rate, false)
	c.searchBounds(path+".concurrency", concurrency, true)
	c.objectives(path+".keep", keep)
}

// objectives checks limits that a load must keep.
func (c *checker) objectives(keep string, o *spatev1.Objectives) {
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
