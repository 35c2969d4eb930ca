package recorder

import (
	"strings"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// cell holds the measurements of one endpoint in one window, with one part of a mixture.
type cell struct {
	counts measure.Counts
	values [measure.Count][]int64
	errors []errorCount
	models []*spatev1.ModelCount // of completed requests
}

// errorCount counts failures of one class and status.
type errorCount struct {
	class   spatev1.ErrorClass
	status  int
	count   uint64
	example string
}

// fail counts n failures. The status distinguishes failures only if it is what went wrong. There are few kinds, so a
// linear search finds them. Only a server can invent many; later kinds then have no example.
func (c *cell) fail(class spatev1.ErrorClass, status int, n uint64, message string) {
	if class != spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS {
		status = 0
	}
	if len(c.errors) >= measure.MaxExamples {
		message = ""
	}
	for i := range c.errors {
		if e := &c.errors[i]; e.class == class && e.status == status {
			e.count += n
			return
		}
	}
	c.errors = append(c.errors, errorCount{class: class, status: status, count: n, example: clip(message)})
}

// reset empties the cell but keeps its memory.
func (c *cell) reset() {
	c.counts = measure.Counts{}
	for m := range c.values {
		c.values[m] = c.values[m][:0]
	}
	c.errors, c.models = c.errors[:0], nil
}

// clip makes an external text valid UTF-8 of at most measure.MaxText bytes.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), measure.MaxText)], "") }

// turn returns the cell of a request's turn.
func (p *page) turn(q *Request) *cell {
	class := measure.TurnClass(uint32(q.Turn))
	for len(p.turns) <= class {
		p.turns = append(p.turns, cell{})
	}
	return &p.turns[class]
}

// addTurn adds a completed request to the cell of its turn: what tells how latency and the reuse of a prefix cache
// change over a session.
func (c *cell) addTurn(q *Request, o *stream.Observation) {
	c.counts[measure.Completed]++
	c.counts[measure.SharedTokens] += uint64(q.Shared)
	if o.Usage {
		c.counts[measure.InputTokens] += o.InputTokens
	} else {
		c.counts[measure.WithoutUsage]++
	}
	if o.HasCachedTokens {
		c.counts[measure.WithCachedTokens]++
		c.counts[measure.CachedTokens] += o.CachedTokens
	}
	if o.FirstToken != 0 {
		ttft := spatev1.Metric_METRIC_TTFT
		c.values[ttft] = append(c.values[ttft], o.FirstToken.Sub(o.Start).Nanoseconds())
	}
	if o.LastToken != 0 {
		e2e := spatev1.Metric_METRIC_E2E
		c.values[e2e] = append(c.values[e2e], o.LastToken.Sub(o.Start).Nanoseconds())
	}
}

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
