package measure

import (
	"fmt"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ErrorName returns the name of a kind of failure in results.json, in request rows and in databases: the class, or
// "http_" and the status.
func ErrorName(class spatev1.ErrorClass, httpStatus uint32) string {
	if class == spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS {
		return fmt.Sprintf("http_%d", httpStatus)
	}
	return strings.ToLower(strings.TrimPrefix(class.String(), "ERROR_CLASS_"))
}
