package calibration

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/spate-load/spate/agent/executor"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
)

// Spread is the distribution of some times, in nanoseconds. If there are no times, all fields are 0, including Count.
type Spread struct {
	Count uint64
	P50   int64
	P99   int64
}

// Reading is what the agent saw in a window.
type Reading struct {
	// Frame is the error of each frame with token text, TTFT that of each first one, and E2E that of each last one. ITL
	// is the difference between the errors of two consecutive ones.
	Frame Spread
	TTFT  Spread
	ITL   Spread
	E2E   Spread
	// Lag is the time from the kernel's timestamp to the program's reading, once per read.
	Lag Spread
	// Lateness is the time from a request's scheduled time to its start.
	Lateness Spread
	// Coalesced frames shared a read with the previous one.
	Coalesced uint64
	// Requests that completed and failed.
	Completed uint64
	Failed    uint64
	// Failure is the message of the last failure. Empty: none.
	Failure string
}

// The times that a gauge records.
const (
	frameError = iota
	ttftError
	itlError
	e2eError
	lag
	lateness
	kinds
)

// gauge compares what an agent sees with the truth. Each worker has its own watch. Watches record into shards, so that
// workers on different cores seldom wait for each other. Nothing allocates per frame.
type gauge struct {
	shards []shard
	made   atomic.Uint64 // number of watches
}

// shard holds what some of the watches have recorded since the last reading.
type shard struct {
	mu     sync.Mutex
	times  [kinds]*histogram.Histogram
	counts Reading // only the counts are used

	_ [64]byte // keeps the next shard's lock out of this one's cache line
}

// noTimes returns empty histograms. They have the layout of counts, whose finest bins have width one: here one
// nanosecond, so that errors of a few microseconds keep three digits. They end at 2.1 s.
func noTimes() (times [kinds]*histogram.Histogram) {
	for i := range times {
		times[i] = histogram.New(histogram.Counts)
	}
	return times
}

func newGauge(shards int) *gauge {
	g := &gauge{shards: make([]shard, max(1, shards))}
	for i := range g.shards {
		g.shards[i].times = noTimes()
	}
	return g
}

// watch returns a watch for one worker.
func (g *gauge) watch() executor.Watch {
	return &watch{shard: &g.shards[g.made.Add(1)%uint64(len(g.shards))]}
}

// read returns what was recorded since the last call, or since the start.
func (g *gauge) read() (r Reading) {
	all := noTimes()
	for i := range g.shards {
		s, times := &g.shards[i], noTimes()
		s.mu.Lock()
		times, s.times = s.times, times
		counts := s.counts
		s.counts = Reading{}
		s.mu.Unlock()
		for kind, h := range times {
			_ = all[kind].Merge(h) // both have the same layout, and far too few values to overflow
		}
		r.Coalesced += counts.Coalesced
		r.Completed, r.Failed = r.Completed+counts.Completed, r.Failed+counts.Failed
		if counts.Failure != "" {
			r.Failure = counts.Failure
		}
	}
	for kind, to := range [kinds]*Spread{&r.Frame, &r.TTFT, &r.ITL, &r.E2E, &r.Lag, &r.Lateness} {
		var values [2]int64
		all[kind].Percentiles([]float64{50, 99}, values[:])
		*to = Spread{all[kind].Count(), values[0], values[1]}
	}
	return r
}

// watch follows one worker's requests. Only that worker uses it.
type watch struct {
	shard *shard

	at, seen  clock.Instant // of the latest frame
	sent      clock.Instant // its true send time
	sentKnown bool          // sent is known
	tokens    int           // frames with token text in the request so far
	last      int64         // error of the latest of these, in nanoseconds and with sign
	lastAt    clock.Instant // times of the latest of these
	lastSeen  clock.Instant
}

// Began implements executor.Watch.
func (w *watch) Began(scheduled, at clock.Instant) {
	w.tokens, w.lastAt, w.lastSeen = 0, 0, 0
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.shard.times[lateness].Record(max(0, at.Sub(scheduled).Nanoseconds()))
}

// Frame implements executor.Watch.
func (w *watch) Frame(data []byte, at, seen clock.Instant) {
	w.at, w.seen = at, seen
	w.sent, w.sentKnown = sentAt(data)
}

// Token implements executor.Watch. A frame without a true send time does not count: the load is then not reached. The
// program's time is always later than a timestamp, so equal times mean that there was no timestamp.
func (w *watch) Token() {
	if !w.sentKnown {
		return
	}
	s, now := w.shard, w.at.Sub(w.sent).Nanoseconds()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.at == w.lastAt && w.seen == w.lastSeen:
		s.counts.Coalesced++
	case w.at != w.seen:
		s.times[lag].Record(w.seen.Sub(w.at).Nanoseconds())
	}
	s.times[frameError].Record(absolute(now))
	if w.tokens == 0 {
		s.times[ttftError].Record(absolute(now))
	} else {
		s.times[itlError].Record(absolute(now - w.last))
	}
	w.tokens++
	w.last, w.lastAt, w.lastSeen = now, w.at, w.seen
}

func absolute(v int64) int64 { return max(v, -v) }

// Ended implements executor.Watch.
func (w *watch) Ended(o *stream.Observation) {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case o.Cancelled:
	case o.Err != nil:
		s.counts.Failed++
		s.counts.Failure = o.Err.Message
	default:
		s.counts.Completed++
		if w.tokens > 0 {
			s.times[e2eError].Record(absolute(w.last))
		}
	}
}

// sentMark precedes the time at which the simulator sent a frame.
var sentMark = []byte(`"sent_ns":`)

// sentAt reads the true send time from a frame's data, or returns false if there is none. The time is the last field,
// so sentAt searches from the end; the text of a frame is the simulator's own and never contains the mark. sentAt does
// not allocate.
func sentAt(data []byte) (clock.Instant, bool) {
	from := bytes.LastIndex(data, sentMark)
	if from < 0 {
		return 0, false
	}
	digits, at := data[from+len(sentMark):], clock.Instant(0)
	n := 0
	for n < len(digits) && n < 18 && digits[n] >= '0' && digits[n] <= '9' {
		at = 10*at + clock.Instant(digits[n]-'0')
		n++
	}
	return at, n > 0
}
