package rules

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// MaxRegion is the largest size of a region's name, in bytes. Gossip carries no longer name.
const MaxRegion = 64

// regions checks that a plan with regions names some, and that agents can have those names.
func (c *checker) regions(p *spatev1.Plan) {
	if c.Has("regions") && len(p.GetRegions()) == 0 {
		c.wrong("regions", "is empty: name regions and their shares, {eu: 0.6, us: 0.4}, or leave it out")
	}
	for name := range p.GetRegions() {
		if err := CheckRegion(name); err != nil &&
			utf8.RuneCountInString(name) <= MaxRegion { // the schema's rule reports longer names
			c.wrong("regions["+strconv.Quote(name)+"]", err.Error())
		}
	}
}

// CheckRegion returns what is wrong with the name of a region, in a plan or of an agent. nil if nothing is.
func CheckRegion(name string) error {
	switch {
	case strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name):
		return errors.New("must be a name without control characters and without spaces around it")
	case len(name) > MaxRegion:
		return fmt.Errorf("must have at most %d bytes, got %d", MaxRegion, len(name))
	}
	return nil
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
