package calibration

import (
	"sync"
	"sync/atomic"

	"github.com/spate-load/spate/agent/executor"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
)

// gauge compares what an agent sees with the truth. Each worker has its own watch. Watches record into shards, so that
// workers on different cores seldom wait for each other. Nothing allocates per frame.
type gauge struct {
	shards []shard
	made   atomic.Uint64 // number of watches
}

// shard holds what some of the watches have recorded since the last reading.
type shard struct {
	mu    sync.Mutex
	tally *tally

	_ [64]byte // keeps the next shard's lock out of this one's cache line
}

// tally holds the errors and counts of a window.
type tally struct {
	frame, ttft, itl, itlWithoutLast, e2e pair
	lag, lateness                         *histogram.Histogram
	counts                                Reading // only the counts are used
}

// pair holds errors by both clocks.
type pair struct{ stamp, program *histogram.Histogram }

// times returns an empty histogram of times. It has the layout of counts, whose finest bins have width one: here one
// nanosecond, so that errors of a few microseconds keep three digits. It ends at 2.1 s.
func times() *histogram.Histogram { return histogram.New(histogram.Counts) }

func newTally() *tally {
	both := func() pair { return pair{times(), times()} }
	return &tally{
		frame:          both(),
		ttft:           both(),
		itl:            both(),
		itlWithoutLast: both(),
		e2e:            both(),
		lag:            times(),
		lateness:       times(),
	}
}

func newGauge(shards int) *gauge {
	g := &gauge{shards: make([]shard, max(1, shards))}
	for i := range g.shards {
		g.shards[i].tally = newTally()
	}
	return g
}

// watch returns a watch for one worker.
func (g *gauge) watch() executor.Watch {
	return &watch{shard: &g.shards[g.made.Add(1)%uint64(len(g.shards))]}
}

// read returns what was recorded since the last call, or since the start.
func (g *gauge) read() Reading {
	all := newTally()
	for i := range g.shards {
		s, fresh := &g.shards[i], newTally()
		s.mu.Lock()
		taken := s.tally
		s.tally = fresh
		s.mu.Unlock()
		all.add(taken)
	}
	return all.reading()
}

// add adds the content of another tally.
func (t *tally) add(o *tally) {
	into, from := t.histograms(), o.histograms()
	for i, h := range from {
		_ = into[i].Merge(h) // both have the same layout, and far too few values to overflow
	}
	c, d := &t.counts, &o.counts
	c.Frames, c.Coalesced = c.Frames+d.Frames, c.Coalesced+d.Coalesced
	c.Unstamped, c.WithoutTruth = c.Unstamped+d.Unstamped, c.WithoutTruth+d.WithoutTruth
	c.Started, c.Completed, c.Failed = c.Started+d.Started, c.Completed+d.Completed, c.Failed+d.Failed
	if d.Failure != "" {
		c.Failure = d.Failure
	}
}

func (t *tally) histograms() []*histogram.Histogram {
	return []*histogram.Histogram{
		t.frame.stamp, t.frame.program, t.ttft.stamp, t.ttft.program, t.itl.stamp, t.itl.program,
		t.itlWithoutLast.stamp, t.itlWithoutLast.program,
		t.e2e.stamp, t.e2e.program, t.lag, t.lateness,
	}
}

func (t *tally) reading() Reading {
	r := t.counts
	r.Frame, r.TTFT, r.E2E = t.frame.errors(), t.ttft.errors(), t.e2e.errors()
	r.ITL, r.ITLWithoutLast = t.itl.errors(), t.itlWithoutLast.errors()
	r.Lag, r.Lateness = spreadOf(t.lag), spreadOf(t.lateness)
	return r
}

func (p pair) errors() Errors { return Errors{Stamp: spreadOf(p.stamp), Program: spreadOf(p.program)} }

func (p pair) record(e frameError) {
	p.stamp.Record(e.stamp)
	p.program.Record(e.program)
}

// frameError is the error of a frame's times, in nanoseconds and with sign.
type frameError struct{ stamp, program int64 }

// since returns the error of the time between two frames, without sign.
func (f frameError) since(before frameError) frameError {
	return frameError{absolute(f.stamp - before.stamp), absolute(f.program - before.program)}
}

// size returns the error without sign.
func (f frameError) size() frameError { return frameError{absolute(f.stamp), absolute(f.program)} }

func absolute(v int64) int64 { return max(v, -v) }

// watch follows one worker's requests. Only that worker uses it.
type watch struct {
	shard *shard

	at, seen  clock.Instant // of the latest frame
	sent      clock.Instant // its true send time
	sentKnown bool          // sent is known
	tokens    int           // frames with token text and a true send time in the request so far
	last      frameError    // error of the latest of these, with sign
	gap       frameError    // error of the gap before it, if there is one
	lastAt    clock.Instant // times of the latest token frame
	lastSeen  clock.Instant
	untrusted bool // a token of the request came without a true send time
}

// Began implements executor.Watch.
func (w *watch) Began(scheduled, at clock.Instant) {
	w.tokens, w.lastAt, w.lastSeen, w.untrusted = 0, 0, 0, false
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.shard.tally.counts.Started++
	w.shard.tally.lateness.Record(max(0, at.Sub(scheduled).Nanoseconds()))
}

// Frame implements executor.Watch.
func (w *watch) Frame(data []byte, at, seen clock.Instant) {
	w.at, w.seen = at, seen
	w.sent, w.sentKnown = sentAt(data)
}

// Token implements executor.Watch.
func (w *watch) Token() {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	t := w.shard.tally
	t.counts.Frames++
	w.read(t)
	if !w.sentKnown {
		t.counts.WithoutTruth++
		w.untrusted = true
		return
	}
	now := frameError{w.at.Sub(w.sent).Nanoseconds(), w.seen.Sub(w.sent).Nanoseconds()}
	t.frame.record(now.size())
	if w.tokens > 1 {
		t.itlWithoutLast.record(w.gap)
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

// read records how the frame was read. The program's time is always later than a timestamp, so equal times mean that
// there was no timestamp.
func (w *watch) read(t *tally) {
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

// Ended implements executor.Watch.
func (w *watch) Ended(o *stream.Observation) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	t := w.shard.tally
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
