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

// mean returns the mean of a distribution. It returns nil for nil.
func mean(d *histogram.Summary) *float64 {
	if d == nil {
		return nil
	}
	return &d.Mean
}

// median returns the median of a distribution. It returns nil for nil.
func median(d *histogram.Summary) *float64 {
	if d == nil {
		return nil
	}
	return &d.P50
}

// p99 returns the 99th percentile of a distribution. It returns nil for nil.
func p99(d *histogram.Summary) *float64 {
	if d == nil {
		return nil
	}
	return &d.P99
}

// errorCounts formats the number of errors by class, sorted by class.
func errorCounts(errors map[string]uint64) string {
	var counts []string
	for _, class := range sortedKeys(errors) {
		counts = append(counts, fmt.Sprintf("%s: %d", class, errors[class]))
	}
	return strings.Join(counts, ", ")
}
