package recorder

import (
	"sync"
	"time"

	"github.com/spate-load/spate/clock"
)

// gauge counts the requests in flight, keeps the peak of each window, and knows when the last measured request started.
// It reads the clock under its own lock, which orders the events, so the peak is exact.
type gauge struct {
	windows windows
	now     func() clock.Instant

	mu    sync.Mutex
	count uint32
	first uint32        // window of peaks[0]
	peaks []uint32      // of the windows not taken yet, current window last
	start clock.Instant // of the last measured request; 0: none
}

func newGauge(w windows, now func() clock.Instant) *gauge {
	return &gauge{windows: w, now: now, peaks: []uint32{0}}
}

// enter records the start of a request. If the request and an earlier one are measured, it returns the time between
// their starts.
func (g *gauge) enter(measured bool) (gap time.Duration, follows bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	g.roll(g.windows.of(now))
	g.count++
	last := &g.peaks[len(g.peaks)-1]
	*last = max(*last, g.count)
	if !measured {
		return 0, false
	}
	gap, follows = now.Sub(g.start), g.start != 0
	g.start = now
	return gap, follows
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.roll(g.windows.of(g.now()))
	g.count--
}

// roll opens the windows up to w. Each starts with the requests then in flight.
func (g *gauge) roll(w uint32) {
	for g.first+uint32(len(g.peaks)) <= w {
		g.peaks = append(g.peaks, g.count)
	}
}

// take returns the peak of w, the oldest window, and forgets it.
func (g *gauge) take(w uint32) uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.roll(w + 1)
	peak := g.peaks[0]
	g.first, g.peaks = w+1, append(g.peaks[:0], g.peaks[1:]...)
	return peak
}

// inFlight returns the number of requests in flight.
func (g *gauge) inFlight() uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}
