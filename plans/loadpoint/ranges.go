package loadpoint

import (
	"math"
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// RangeValues returns the values of a range, rising, with both ends. It returns nil for a range that breaks a rule. It
// stops after one value more than a range may have.
func RangeValues(r *spatev1.Range) []float64 {
	from, to := r.GetFrom(), r.GetTo()
	if from <= 0 || to < from {
		return nil
	}
	if from == to {
		return []float64{from}
	}
	var value func(i int) float64
	switch {
	case r.GetPoints() > 1:
		value = byPoints(from, to, int(r.GetPoints()))
	case r.GetStep() > 0:
		value = func(i int) float64 { return rounded(from+float64(i)*r.GetStep(), exactDigits) }
	case r.GetFactor() > 1:
		value = func(i int) float64 { return rounded(from*math.Pow(r.GetFactor(), float64(i)), exactDigits) }
	default:
		return nil
	}
	values := []float64{from}
	for i := 1; len(values) < MaxValues; i++ {
		v := value(i)
		if v >= to {
			break
		}
		if v > values[len(values)-1] {
			values = append(values, v)
		} else if i > MaxValues {
			break // The step is too small to change the value.
		}
	}
	return append(values, to)
}

// MaxValues is the most load points that one load may have.
const MaxValues = 1024

// byPoints returns a function for the i-th of n values between two ends, with equal ratios between neighbours. Six
// digits are enough to tell the values apart, and short enough for a table.
func byPoints(from, to float64, n int) func(int) float64 {
	return func(i int) float64 {
		if i >= n-1 {
			return to
		}
		return rounded(from*math.Pow(to/from, float64(i)/float64(n-1)), tableDigits)
	}
}

// Digits that the values of ranges are rounded to: tableDigits for values that Spate chooses, exactDigits for values
// that the plan defines, so that 0.1 + 2 x 0.1 is 0.3.
const (
	tableDigits = 6
	exactDigits = 12
)

func rounded(v float64, digits int) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v // Infinite: beyond every end.
	}
	return short
}

// Exact removes the noise that binary fractions leave in the last digits of a value.
func Exact(v float64) float64 { return rounded(v, exactDigits) }
