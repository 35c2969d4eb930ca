package series

import (
	"math"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// axis is what a search or a frontier varies: rates or concurrencies, and between which bounds.
type axis struct {
	integer  bool // loads are concurrencies
	from, to float64
	digits   int // significant digits of rates
}

// newAxis returns the axis of the bounds that are given. Rounding stays small compared with the precision.
func newAxis(rate, concurrency *spatev1.Bounds, precision float64) axis {
	a := axis{integer: concurrency != nil, digits: digits + max(0, int(math.Ceil(-math.Log10(precision/0.01))))}
	bounds := rate
	if a.integer {
		bounds = concurrency
	}
	a.from, a.to = bounds.GetFrom(), max(bounds.GetFrom(), bounds.GetTo())
	if a.integer {
		a.from, a.to = math.Ceil(a.from), max(math.Ceil(a.from), math.Floor(a.to))
	}
	return a
}

// load returns a template's load at a value.
func (a axis) load(template *spatev1.LoadPoint, value float64) *spatev1.LoadPoint {
	if a.integer {
		return closedAt(template, uint32(value))
	}
	return openAt(template, value)
}

// round rounds a load to one that can be run.
func (a axis) round(v float64) float64 {
	if a.integer {
		return math.Round(v)
	}
	return rounded(v, a.digits)
}

// words formats a load for people.
func (a axis) words(value float64) string {
	if a.integer {
		return "concurrency " + number(value)
	}
	return number(value) + " req/s"
}
