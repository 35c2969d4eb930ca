package rules

import (
	"strconv"
	"unicode/utf8"

	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// regions checks that a plan with regions names some, and that agents can have those names.
func (c *checker) regions(p *spatev1.Plan) {
	if c.Has("regions") && len(p.GetRegions()) == 0 {
		c.wrong("regions", "is empty: name regions and their shares, {eu: 0.6, us: 0.4}, or leave it out")
	}
	for name := range p.GetRegions() {
		if err := naming.CheckRegion(name); err != nil &&
			utf8.RuneCountInString(name) <= naming.MaxRegion { // the schema's rule reports longer names
			c.wrong("regions["+strconv.Quote(name)+"]", err.Error())
		}
	}
}

// observers checks that the load of observers is given in one way only.
func (c *checker) observers(p *spatev1.Plan) {
	const rate, concurrency = "observers.rate", "observers.concurrency"
	switch {
	case c.Has(rate) && c.Has(concurrency):
		c.wrong(concurrency, "give rate or concurrency, not both")
	case c.Has(rate) && p.GetObservers().GetRate() == 0:
		c.wrong(rate, "must be greater than 0: leave it out, and each observer has one request in flight")
	}
}
