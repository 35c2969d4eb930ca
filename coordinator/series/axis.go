package series

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
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
	return loadpoint.Rounded(v, a.digits)
}

// words formats a load for people.
func (a axis) words(value float64) string {
	if a.integer {
		return "concurrency " + loadpoint.Number(value)
	}
	return loadpoint.Number(value) + " req/s"
}

// againWords says that a load is measured again.
func (a axis) againWords(value float64, why string) string {
	return fmt.Sprintf("%s could not be measured (%s): it is measured again", a.words(value), why)
}

// limitWords says up to which load objectives were kept. said adds to a load how sure that is.
func (a axis) limitWords(l *spatev1.LoadLimit, said func(value float64, kept bool) string) string {
	var parts []string
	if l.Kept != nil {
		parts = append(parts, a.words(l.GetKept())+" is within the limits"+said(l.GetKept(), true))
	}
	if l.Broke != nil {
		parts = append(parts, fmt.Sprintf("%s is too high%s (%s)", a.words(l.GetBroke()), said(l.GetBroke(), false),
			l.GetReason()))
	}
	text := strings.Join(parts, ", ")
	if l.Kept == nil {
		text = "no load is within the limits: " + text
	}
	if l.GetPart() != "" {
		text = "part " + l.GetPart() + ": " + text
	}
	return text
}

// sentence says what was found, why no more was, and in how many stages.
func sentence(rec *spatev1.SeriesRecord, found []string, stages string) string {
	if len(found) == 0 {
		return rec.GetReason()
	}
	return words.Joined("; ", append(slices.Clone(found), rec.GetEnd(), rec.GetReason(), stages)...)
}
