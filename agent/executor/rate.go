package executor

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// rateCheck counts the requests that a load starts in each whole second of its stage. It is for loads whose schedule
// does not tell: closed loops and replays. The zero value allows any number. It is safe for concurrent use.
type rateCheck struct {
	max float64 // requests in a second; 0: no limit

	// The upper 32 bits hold the second, the lower 32 bits its requests.
	seconds atomic.Uint64
}

// countStart counts a request that starts that long after the stage's start, and returns why the load must end, or "".
// It returns a reason at most once a second.
func (c *rateCheck) countStart(since time.Duration) string {
	if c.max == 0 {
		return ""
	}
	second := uint64(max(since, 0) / time.Second)
	for {
		held := c.seconds.Load()
		next := second<<32 + 1
		if held>>32 >= second { // a goroutine that was delayed counts in the current second
			next = held + 1
		}
		if !c.seconds.CompareAndSwap(held, next) {
			continue
		}
		if n := float64(next & (1<<32 - 1)); n > c.max && n-1 <= c.max {
			return fmt.Sprintf("this agent started more requests in second %d than its limit of %.6g per second: "+
				"raise its max rate, lower the load or add agents", next>>32, c.max)
		}
		return ""
	}
}

// countInSecond counts a request that starts, and ends the load if a second has more of them than the agent may start.
func (l *Load) countInSecond(at clock.Instant) {
	if why := l.rateCheck.countStart(at.Sub(l.start)); why != "" {
		l.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false, why)
	}
}
