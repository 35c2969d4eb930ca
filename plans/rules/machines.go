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
