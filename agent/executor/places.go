package executor

import (
	"sync"

	"github.com/spate-load/spate/clock"
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
