package agent

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// mostFirsts is how many of a load's first requests decide whether its target is hopeless. They are those that were
// started first: a server that takes some and turns the others away is not hopeless, though the failures are the first
// to end.
const mostFirsts = 20

// firsts finds out that a target is hopeless: the load's first requests have all failed in one way. It is safe for
// concurrent use.
type firsts struct {
	begun atomic.Int32 // those of the first that were started

	mu     sync.Mutex
	failed int
	way    failing
	fine   bool // one has ended in another way
}

// failing is a way to fail.
type failing struct {
	class  spatev1.ErrorClass
	status int
}

// leave decides that the target is not looked at.
func (f *firsts) leave() { f.begun.Store(mostFirsts) }

// begin counts a request that starts, and reports whether it is one of the first.
func (f *firsts) begin() bool {
	return f.begun.Load() < mostFirsts && f.begun.Add(1) <= mostFirsts
}

// ended takes in the end of one of the first, and returns why the target is hopeless, or "".
func (f *firsts) ended(o *stream.Observation) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.Cancelled || o.Err == nil {
		f.fine = true
		return ""
	}
	way := failing{o.Err.Class, o.Err.HTTPStatus}
	if f.failed == 0 {
		f.way = way
	}
	f.fine = f.fine || way != f.way
	if f.failed++; f.fine || f.failed < mostFirsts {
		return ""
	}
	return fmt.Sprintf("its first %d requests all failed in one way: %s", f.failed, o.Err.Message)
}
