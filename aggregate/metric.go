package aggregate

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Units.
const (
	nanosPerMs     = 1e6
	nanosPerSecond = 1e9
)

// Metrics that parts of a stage keep. The whole stage keeps all metrics.
var (
	keyMetrics    = measure.KeptBy(measure.Breakdowns)
	pathMetrics   = measure.KeptBy(measure.Paths)
	regionMetrics = measure.KeptBy(measure.RegionWindows)
)

// ErrorName returns the name of a kind of failure in results.json and in request rows: the class, or "http_" and the
// status.
func ErrorName(class spatev1.ErrorClass, httpStatus uint32) string {
	if class == spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS {
		return fmt.Sprintf("http_%d", httpStatus)
	}
	return strings.ToLower(strings.TrimPrefix(class.String(), "ERROR_CLASS_"))
}
