package executor

import (
	"sync"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/draw"
)

// places are the requests that an open loop may have in flight. If they are a limit of the plan, each place knows when
// it became free: an arrival that was due before then was held back by the plan, and is not late. A places is safe for
// concurrent use and never blocks.
type places struct {
	planned bool          // they are a limit of the plan, not of the agent
	freed   chan struct{} // signals that a place has become free

	mu     sync.Mutex
	most   int
	taken  int
	since  []clock.Instant // when free places became free, oldest first; without those that were never taken
	latest clock.Instant   // when a place last became free
}

func newPlaces(most int, planned bool) *places {
	return &places{planned: planned, most: most, freed: make(chan struct{}, 1)}
}

// take takes the place that has been free for longest, and returns since when. It returns 0 for a place that was never
// taken, and for any place if they are not a limit of the plan. It returns false if no place is free.
func (p *places) take() (since clock.Instant, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.most {
		return 0, false
	}
	untouched := p.most - p.taken - len(p.since)
	p.taken++
	if untouched > 0 || !p.planned {
		return 0, true
	}
	since, p.since = p.since[0], p.since[1:]
	return since, true
}

// give returns a place that has been free since an instant.
func (p *places) give(since clock.Instant) {
	p.mu.Lock()
	p.taken--
	p.latest = max(p.latest, since)
	if p.planned {
		p.since = append(p.since, since)
	}
	p.mu.Unlock()
	notify(p.freed)
}

// grow raises the number of places, if it is below most. The new ones are free from an instant on.
func (p *places) grow(most int, from clock.Instant) {
	p.mu.Lock()
	for ; p.most < most; p.most++ {
		if p.planned {
			p.since = append(p.since, from)
		}
	}
	p.mu.Unlock()
	notify(p.freed)
}

// allFree reports whether no place is taken.
func (p *places) allFree() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken == 0
}

// lastFreed returns when a place last became free, 0 if none has.
func (p *places) lastFreed() clock.Instant {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest
}

// The rest of this file chooses the endpoint of each request, as the plan says.

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
