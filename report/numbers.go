package report

import (
	"cmp"
	"fmt"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/table"
)

// unknown stands for a number that cannot be known.
const unknown = table.Unknown

// fixed formats a number with two decimals.
func fixed(v *float64) string { return table.Format("%.2f", v) }

// fixedPercent formats a share in percent.
func fixedPercent(share *float64) string {
	if share == nil {
		return unknown
	}
	return fmt.Sprintf("%.2f", 100**share)
}

// whole formats a whole number.
func whole[T uint32 | uint64](v *T) string { return table.Format("%d", v) }

// text formats a word.
func text(v *string) string { return *cmp.Or(v, new(unknown)) }

// Statistics of a distribution; nil: there is none.
var mean, median = histogram.MeanOf, histogram.MedianOf

// texts formats values: those of pointers as fixed and whole do, others as they are.
func texts(values ...any) []string {
	cells := make([]string, len(values))
	for i, value := range values {
		switch v := value.(type) {
		case *float64:
			cells[i] = fixed(v)
		case *uint32:
			cells[i] = whole(v)
		case *uint64:
			cells[i] = whole(v)
		default:
			cells[i] = fmt.Sprint(v)
		}
	}
	return cells
}
