package agent

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// hopelessAfter is how many of a load's first requests decide whether its target is hopeless. These are the requests
// that start first, not those that end first: a server that accepts some requests and rejects the rest is not hopeless,
// although the rejected ones end first.
const hopelessAfter = 20

// hopelessCheck detects a hopeless target: the load's first requests have all failed in the same way. It is safe for
// concurrent use.
type hopelessCheck struct {
	started atomic.Int32 // how many of the first requests have started

	mu      sync.Mutex
	failed  int
	way     failing
	healthy bool // one has succeeded, was cancelled, or failed in another way
}

// failing is a way to fail.
type failing struct {
	class  spatev1.ErrorClass
	status int
}

// disable turns the detection off.
func (c *hopelessCheck) disable() { c.started.Store(hopelessAfter) }

// countStart counts a request that starts, and reports whether it is one of the first.
func (c *hopelessCheck) countStart() bool {
	return c.started.Load() < hopelessAfter && c.started.Add(1) <= hopelessAfter
}

// ended records the end of one of the first requests. It returns why the target is hopeless, or "".
func (c *hopelessCheck) ended(o *stream.Observation) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.Cancelled || o.Err == nil {
		c.healthy = true
		return ""
	}
	way := failing{o.Err.Class, o.Err.HTTPStatus}
	if c.failed == 0 {
		c.way = way
	}
	c.healthy = c.healthy || way != c.way
	if c.failed++; c.healthy || c.failed < hopelessAfter {
		return ""
	}
	return fmt.Sprintf("its first %d requests all failed in the same way: %s", c.failed, o.Err.Message)
}
