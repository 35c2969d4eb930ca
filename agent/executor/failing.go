package executor

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// deadFailures is the minimum number of consecutive failures to connect that make a target dead.
const deadFailures = 10

// deadCheck detects a dead target: nothing but failures to connect, for long enough. It is safe for concurrent use.
type deadCheck struct {
	minTime time.Duration

	mu       sync.Mutex
	failures int
	since    clock.Instant // start of the first failure of the current row
}

// unreachable reports whether a request failed before it had a connection.
func unreachable(err *stream.Error) bool {
	return err != nil &&
		(err.Class == spatev1.ErrorClass_ERROR_CLASS_CONNECT || err.Class == spatev1.ErrorClass_ERROR_CLASS_TLS)
}

// observe records the end of a request and returns why the target is dead, or "". A token that any stream received
// since the row of failures began is a sign of life, too: lastToken returns when the last token came, and is called
// only when needed.
func (c *deadCheck) observe(o *stream.Observation, lastToken func() clock.Instant) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case o.Cancelled:
		return ""
	case !unreachable(o.Err):
		c.failures = 0
		return ""
	case c.failures == 0:
		c.since = o.Start
	}
	c.failures++
	lasted := o.End.Sub(c.since)
	if c.failures < deadFailures || lasted < c.minTime {
		return ""
	}
	if last := lastToken(); last >= c.since {
		c.failures = 0
		return ""
	}
	return fmt.Sprintf("no connection in %v and %d attempts: %s",
		lasted.Round(time.Millisecond), c.failures, o.Err.Message)
}

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
