package recorder

import (
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// metricCount is one more than the largest metric, so that a metric is an index.
var metricCount = len(spatev1.Metric_name)

// exampleLimit is the most bytes of an error's message that a snapshot carries.
const exampleLimit = 512

// cell is what was measured at one endpoint in one window.
type cell struct {
	counts counters
	values [][]int64 // by metric
	errors []errorCount
}

// errorCount counts failures of one class and status.
type errorCount struct {
	class   spatev1.ErrorClass
	status  int
	count   uint64
	example string
}

func newCells(endpoints int) []cell {
	cells := make([]cell, endpoints)
	for i := range cells {
		cells[i].values = make([][]int64, metricCount)
	}
	return cells
}

// fail counts n failures. A status tells failures apart only where it is what went wrong. There are few kinds, so a walk finds
// them.
func (c *cell) fail(class spatev1.ErrorClass, status int, n uint64, message string) {
	if class != spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS {
		status = 0
	}
	for i := range c.errors {
		if e := &c.errors[i]; e.class == class && e.status == status {
			e.count += n
			return
		}
	}
	c.errors = append(c.errors, errorCount{class: class, status: status, count: n, example: clip(message, exampleLimit)})
}

// reset empties the cell and keeps its memory.
func (c *cell) reset() {
	c.counts = counters{}
	for m := range c.values {
		c.values[m] = c.values[m][:0]
	}
	c.errors = c.errors[:0]
}

// clip makes a text from outside fit for a message: valid UTF-8, at most limit bytes.
func clip(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "")
}
