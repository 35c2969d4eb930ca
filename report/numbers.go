package report

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/report/section"
)

// unknown stands for a number that cannot be known.
const unknown = section.Unknown

// fixed formats a number with two decimals.
func fixed(v *float64) string {
	if v == nil {
		return unknown
	}
	return fmt.Sprintf("%.2f", *v)
}

// fixedPercent formats a share in percent.
func fixedPercent(share *float64) string {
	if share == nil {
		return unknown
	}
	return fmt.Sprintf("%.2f", 100**share)
}

// yes formats a bool.
func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// whole formats a whole number.
func whole[T uint32 | uint64](v *T) string {
	if v == nil {
		return unknown
	}
	return fmt.Sprint(*v)
}

// text formats a word.
func text(v *string) string {
	if v == nil {
		return unknown
	}
	return *v
}

// Statistics of a distribution; nil: there is none.
var mean, median, p99 = histogram.MeanOf, histogram.MedianOf, histogram.P99Of

// errorCounts formats the number of errors by class, sorted by class.
func errorCounts(errors map[string]uint64) string {
	var counts []string
	for _, class := range sortedKeys(errors) {
		counts = append(counts, fmt.Sprintf("%s: %d", class, errors[class]))
	}
	return strings.Join(counts, ", ")
}
