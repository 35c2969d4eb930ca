package calibration

import (
	"sync"
	"sync/atomic"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
)

// gauge compares what an agent sees with the truth. Each worker has a watch of its own; watches record into shards, so
// that workers on different cores seldom wait for each other. Nothing allocates per frame.
type gauge struct {
	shards []shard
	made   atomic.Uint64 // watches
}

// shard is what some of the watches have recorded since the last reading.
type shard struct {
	mu   sync.Mutex
	tape *tape

	_ [64]byte // keeps the next shard's lock out of this one's cache line
}

// tape holds the errors and counts of a window.
type tape struct {
	frame, ttft, itl, inner, e2e pair
	lag, lateness                *histogram.Histogram
	counts                       Reading // its counts alone
}

// pair are errors by both clocks.
type pair struct{ stamp, program *histogram.Histogram }

// times returns an empty histogram of times. It has the layout of counts, whose finest bins are as wide as one: here
// one nanosecond, so that errors of a few microseconds keep three digits. Its end is 2.1 s.
func times() *histogram.Histogram { return histogram.New(histogram.Counts) }

func newTape() *tape {
	both := func() pair { return pair{times(), times()} }
	return &tape{frame: both(), ttft: both(), itl: both(), inner: both(), e2e: both(), lag: times(), lateness: times()}
}

func newGauge(shards int) *gauge {
	g := &gauge{shards: make([]shard, max(1, shards))}
	for i := range g.shards {
		g.shards[i].tape = newTape()
	}
	return g
}

// watch returns a watch for one worker.
func (g *gauge) watch() agent.Watch {
	return &watch{shard: &g.shards[g.made.Add(1)%uint64(len(g.shards))]}
}

// read returns what was recorded since the last call, or since the begin.
func (g *gauge) read() Reading {
	all := newTape()
	for i := range g.shards {
		s, fresh := &g.shards[i], newTape()
		s.mu.Lock()
		taken := s.tape
		s.tape = fresh
		s.mu.Unlock()
		all.add(taken)
	}
	return all.reading()
}

// add adds what another tape holds.
func (t *tape) add(o *tape) {
	into, from := t.histograms(), o.histograms()
	for i, h := range from {
		_ = into[i].Merge(h) // one layout, and far less than fills it
	}
	c, d := &t.counts, &o.counts
	c.Frames, c.Coalesced, c.Unstamped, c.Untrue = c.Frames+d.Frames, c.Coalesced+d.Coalesced, c.Unstamped+d.Unstamped,
		c.Untrue+d.Untrue
	c.Started, c.Completed, c.Failed = c.Started+d.Started, c.Completed+d.Completed, c.Failed+d.Failed
	if d.Failure != "" {
		c.Failure = d.Failure
	}
}

func (t *tape) histograms() []*histogram.Histogram {
	return []*histogram.Histogram{
		t.frame.stamp, t.frame.program, t.ttft.stamp, t.ttft.program, t.itl.stamp, t.itl.program, t.inner.stamp,
		t.inner.program,
		t.e2e.stamp, t.e2e.program, t.lag, t.lateness,
	}
}

func (t *tape) reading() Reading {
	r := t.counts
	r.Frame, r.TTFT, r.ITL, r.Inner, r.E2E = t.frame.errors(), t.ttft.errors(), t.itl.errors(), t.inner.errors(),
		t.e2e.errors()
	r.Lag, r.Lateness = spreadOf(t.lag), spreadOf(t.lateness)
	return r
}

func (p pair) errors() Errors { return Errors{Stamp: spreadOf(p.stamp), Program: spreadOf(p.program)} }

func (p pair) record(e fault) {
	p.stamp.Record(e.stamp)
	p.program.Record(e.program)
}

// fault is how wrong the times of a frame are, in nanoseconds and without sign.
type fault struct{ stamp, program int64 }

// since is how wrong the time between two frames is.
func (f fault) since(before fault) fault {
	return fault{absolute(f.stamp - before.stamp), absolute(f.program - before.program)}
}

// size is the fault without sign.
func (f fault) size() fault { return fault{absolute(f.stamp), absolute(f.program)} }

func absolute(v int64) int64 { return max(v, -v) }

// watch follows one worker's requests. Only its worker uses it.
type watch struct {
	shard *shard

	at, seen  clock.Instant // of the newest frame
	sent      clock.Instant // its truth
	told      bool          // it has a truth
	tokens    int           // frames with token text of the request so far, and truth
	last      fault         // of the newest of them, with sign
	gap       fault         // of the gap before it, if there is one
	lastAt    clock.Instant // and its times
	lastSeen  clock.Instant
	untrusted bool // a token of the request came without truth
}

// Began implements agent.Watch.
func (w *watch) Began(scheduled, at clock.Instant) {
	w.tokens, w.lastAt, w.lastSeen, w.untrusted = 0, 0, 0, false
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.shard.tape.counts.Started++
	w.shard.tape.lateness.Record(max(0, at.Sub(scheduled).Nanoseconds()))
}

// Frame implements agent.Watch.
func (w *watch) Frame(data []byte, at, seen clock.Instant) {
	w.at, w.seen = at, seen
	w.sent, w.told = sentAt(data)
}

// Token implements agent.Watch.
func (w *watch) Token() {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	t := w.shard.tape
	t.counts.Frames++
	w.read(t)
	if !w.told {
		t.counts.Untrue++
		w.untrusted = true
		return
	}
	now := fault{w.at.Sub(w.sent).Nanoseconds(), w.seen.Sub(w.sent).Nanoseconds()}
	t.frame.record(now.size())
	if w.tokens > 1 {
		t.inner.record(w.gap)
	}
	if w.tokens == 0 {
		t.ttft.record(now.size())
	} else {
		w.gap = now.since(w.last)
		t.itl.record(w.gap)
	}
	w.tokens++
	w.last = now
}

// read takes down how the frame was read. The program's time is the later one, so that equal times mean that there was
// no stamp.
func (w *watch) read(t *tape) {
	stamped := w.at != w.seen
	if !stamped {
		t.counts.Unstamped++
	}
	switch {
	case w.at == w.lastAt && w.seen == w.lastSeen:
		t.counts.Coalesced++
	case stamped:
		t.lag.Record(w.seen.Sub(w.at).Nanoseconds())
	}
	w.lastAt, w.lastSeen = w.at, w.seen
}

// Ended implements agent.Watch.
func (w *watch) Ended(o *stream.Observation) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	t := w.shard.tape
	switch {
	case o.Cancelled:
	case o.Err != nil:
		t.counts.Failed++
		t.counts.Failure = o.Err.Message
	default:
		t.counts.Completed++
		if w.tokens > 0 && !w.untrusted {
			t.e2e.record(w.last.size())
		}
	}
}
