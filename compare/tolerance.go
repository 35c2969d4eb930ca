package compare

import (
	"strconv"
	"strings"
)

// DefaultTolerance is the largest change that does not matter unless a person says otherwise: two runs on one machine
// differ by some tenths of a percent for reasons that one run each cannot show.
const DefaultTolerance = "1%"

// DefaultMetric is the number that a history shows unless a person names another.
const DefaultMetric = "ttft_ms.p99"

// Tolerance returns the share that a percentage from 0 to below 100 stands for, such as "1%" or "0.5". ok is false if
// the text is anything else.
func Tolerance(percentage string) (share float64, ok bool) {
	number := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(percentage), "%"))
	v, err := strconv.ParseFloat(number, 64)
	return v / 100, err == nil && v >= 0 && v < 100
}
