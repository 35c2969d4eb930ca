package agent

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// mostFirsts is how many of a load's first requests decide whether its target is hopeless. These are the requests that
// start first, not those that end first: a server that accepts some requests and rejects the rest is not hopeless,
// although the rejected ones end first.
const mostFirsts = 20

// firsts detects a hopeless target: the load's first requests have all failed in the same way. It is safe for
// concurrent use.
type firsts struct {
	begun atomic.Int32 // how many of the first requests have started

	mu     sync.Mutex
	failed int
	way    failing
	fine   bool // one has succeeded, was cancelled, or failed in another way
}

// failing is a way to fail.
type failing struct {
	class  spatev1.ErrorClass
	status int
}

// leave turns the detection off.
func (f *firsts) leave() { f.begun.Store(mostFirsts) }

// begin counts a request that starts, and reports whether it is one of the first.
func (f *firsts) begin() bool {
	return f.begun.Load() < mostFirsts && f.begun.Add(1) <= mostFirsts
}

// ended records the end of one of the first requests. It returns why the target is hopeless, or "".
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
	return fmt.Sprintf("its first %d requests all failed in the same way: %s", f.failed, o.Err.Message)
}
