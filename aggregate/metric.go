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

// What parts of a stage keep beside the whole, which keeps all.
var (
	keyMetrics    = measure.KeptBy(measure.Breakdowns)
	pathMetrics   = measure.KeptBy(measure.Paths)
	regionMetrics = measure.KeptBy(measure.RegionWindows)
)

// errorName is the name of a kind of failure in results.json.
func errorName(class spatev1.ErrorClass, httpStatus uint32) string {
	if class == spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS {
		return fmt.Sprintf("http_%d", httpStatus)
	}
	return ErrorClassName(class)
}

// ErrorClassName is the name of an error class in results.json and in request rows, without an HTTP status.
func ErrorClassName(class spatev1.ErrorClass) string {
	return strings.ToLower(strings.TrimPrefix(class.String(), "ERROR_CLASS_"))
}
