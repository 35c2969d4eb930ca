package agent

import (
	"fmt"
	"sync"
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
