package agent

import (
	"sync"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/draw"
)

// Ways to choose an endpoint, as plans name them. No name is roundRobin.
const (
	randomly         = "random"
	leastOutstanding = "least_outstanding"
	affinity         = "affinity"
)

// balance chooses the endpoints of requests. All but leastOutstanding go by the arrival's index alone, so that an
// arrival has the same endpoint whichever agent plays it, and all turns of a session have one. It is safe for
// concurrent use.
type balance struct {
	kind      string
	endpoints uint64
	drawn     draw.Sequence
	content   workload.Workload

	mu    sync.Mutex
	flown []uint64 // requests in flight, by endpoint; nil: they are not counted
	turn  int      // where the search for the fewest begins
}

func newBalance(s *spatev1.Stage, content workload.Workload) *balance {
	b := &balance{
		kind: s.GetTarget().GetBalance(), endpoints: uint64(len(s.GetTarget().GetEndpoints())),
		drawn: draw.New(s.GetSeed(), "endpoint"), content: content,
	}
	if b.kind == leastOutstanding {
		b.flown = make([]uint64, b.endpoints)
	}
	return b
}

// of returns the endpoint of an arrival. An error: its row cannot be read.
func (b *balance) of(index uint64) (int, error) {
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

// live says whether endpoints are chosen as requests are sent: by take, and given back by done.
func (b *balance) live() bool { return b.flown != nil }

// take returns the endpoint with the fewest requests in flight, of several the one whose turn it is.
func (b *balance) take() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	best := b.turn
	for i := range b.flown {
		if at := (b.turn + i) % len(b.flown); b.flown[at] < b.flown[best] {
			best = at
		}
	}
	b.flown[best]++
	b.turn = (best + 1) % len(b.flown)
	return best
}

// done takes in that a request has ended.
func (b *balance) done(endpoint int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flown[endpoint]--
}
