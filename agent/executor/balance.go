package executor

import (
	"sync"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/draw"
)

// This file chooses the endpoint of each request, as the plan says.

// Ways to choose an endpoint, as plans name them. An empty name means round robin.
const (
	randomly         = "random"
	leastOutstanding = "least_outstanding"
	affinity         = "affinity"
)

// balance chooses the endpoints of requests. Every kind but leastOutstanding depends on the arrival's index alone: an
// arrival has the same endpoint whichever agent plays it, and so have all turns of a session. A balance is safe for
// concurrent use.
type balance struct {
	kind      string
	endpoints uint64
	drawn     draw.Sequence
	content   workload.Workload

	mu       sync.Mutex
	inFlight []uint64 // requests in flight, by endpoint; nil: not counted
	turn     int      // where the search for the fewest starts
}

// newBalance returns the balance of a stage over the endpoints of its target. content tells the groups of prompts.
func newBalance(s *spatev1.Stage, content workload.Workload) *balance {
	b := &balance{
		kind: s.GetTarget().GetBalance(), endpoints: uint64(len(s.GetTarget().GetEndpoints())),
		drawn: draw.New(s.GetSeed(), "endpoint"), content: content,
	}
	if b.kind == leastOutstanding {
		b.inFlight = make([]uint64, b.endpoints)
	}
	return b
}

// Endpoint returns the endpoint of an arrival. It returns an error if the arrival's row cannot be read.
func (b *balance) Endpoint(index uint64) (int, error) {
	switch b.kind {
	case randomly:
		return int(b.drawn.Below(index, b.endpoints)), nil
	case affinity:
		group, grouped, err := workload.Group(b.content, index)
		if err != nil {
			return 0, err
		}
		if grouped {
			return int(group % b.endpoints), nil
		}
	}
	return int(index % b.endpoints), nil
}

// ChosenAtSend reports whether the endpoint is chosen when a request is sent. The worker then calls Take before the
// request and Done after it.
func (b *balance) ChosenAtSend() bool { return b.inFlight != nil }

// Take returns the endpoint with the fewest requests in flight; ties go round robin.
func (b *balance) Take() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	best := b.turn
	for i := range b.inFlight {
		if at := (b.turn + i) % len(b.inFlight); b.inFlight[at] < b.inFlight[best] {
			best = at
		}
	}
	b.inFlight[best]++
	b.turn = (best + 1) % len(b.inFlight)
	return best
}

// Done counts a request as ended.
func (b *balance) Done(endpoint int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight[endpoint]--
}
