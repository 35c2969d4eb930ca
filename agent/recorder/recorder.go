// Package recorder turns the events of a stage's requests into one snapshot a second.
//
// Many goroutines record at once, each through one of a few shards. A single sealer merges the shards of each window
// that is over. Nothing is lost or counted twice: an event goes to the window of its time, or to the oldest window that
// is not sealed yet. A shard keeps the plain values of its open windows, so that its memory depends on the number of
// events, and not on endpoints x metrics x cores. The values become histograms when the window is sealed.
//
// A request is recorded once, at its end, with everything it measured, including its inter-token gaps: only then is it
// known whether it failed, and failed requests count in no latency. Only token arrivals are counted as they come.
//
// The package makes no requests, sends nothing and starts no goroutine. The agent's load calls it.
package recorder

import (
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Config configures a Recorder.
type Config struct {
	// Start is the stage's armed start. Windows are counted from it.
	Start clock.Instant
	// Joined is the window in which the agent joined the stage. The empty windows before it are emitted as one
	// snapshot. 0: the agent was there from the start.
	Joined uint32
	// Endpoints is the target's number of endpoints: requests have lower indices.
	Endpoints int
	// Parts is the number of parts of the mixture: requests have lower indices. 0: the workload is not a mixture.
	Parts int
	// Shards is the number of shards, at least 1. With one for each goroutine that records at the same time, none waits
	// for another.
	Shards int
	// SLOs say which completed requests are good, by part of the mixture, or of all requests. Without any, none is
	// counted as good.
	SLOs []SLO
	// Sessions decides whether requests are also measured by their turn: the workload plays sessions.
	Sessions bool
	// Records decides whether one row is kept for each request.
	Records bool
	// Emit takes each snapshot, window by window, and keeps it. It is called by the goroutine that seals. The
	// snapshot's key, stage and revision are not set.
	Emit func(*spatev1.Snapshot)
	// Yield is called by the goroutine that seals between pieces of work of some 20 us each, so that starts that are
	// due can go first. Nil: nothing can be due.
	Yield func()
	// Now reads the clock, as clock.Now does.
	Now func() clock.Instant
}

// Recorder records the requests of one agent in one stage.
type Recorder struct {
	config  Config
	windows windows
	gauge   *gauge
	shards  []*Shard

	// The following fields belong to the goroutine that seals.
	next    uint32 // first window not sealed
	emitted uint64
	times   *histogram.Histogram
	counts  *histogram.Histogram
	work    int // since the last Yield
}

// New returns an empty Recorder.
func New(c Config) *Recorder {
	r := &Recorder{
		config:  c,
		windows: windows{start: c.Start},
		times:   histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_TTFT)),
		counts:  histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_OSL)),
	}
	r.next = max(c.Joined, 1) - 1
	r.gauge = &gauge{windows: r.windows, now: c.Now, peaks: []uint32{0}, first: r.next}
	for range c.Shards {
		s := &Shard{windows: r.windows, gauge: r.gauge, config: &r.config, oldest: r.next}
		r.shards = append(r.shards, s)
	}
	return r
}

// Shard returns the shard for goroutine number i. It may be called concurrently.
func (r *Recorder) Shard(i int) *Shard { return r.shards[i%len(r.shards)] }

// InFlight returns the number of requests in flight. It may be called at any time.
func (r *Recorder) InFlight() uint32 { return r.gauge.inFlight() }

// LastToken returns when the last token frame of any request came, or 0 if none has. It may be called at any time.
func (r *Recorder) LastToken() clock.Instant {
	var last clock.Instant
	for _, s := range r.shards {
		s.mu.Lock()
		last = max(last, s.total.lastToken)
		s.mu.Unlock()
	}
	return last
}

// NextSeal returns the instant from which Seal has a window to emit.
func (r *Recorder) NextSeal() clock.Instant {
	return r.windows.start.Add(time.Duration(r.next+1)*Length + Grace)
}

// Seal emits every window whose grace has passed, including empty ones: they tell the coordinator that nothing more
// will come for them. Only one goroutine may seal, while others record.
func (r *Recorder) Seal(now clock.Instant) {
	for r.NextSeal() <= now {
		r.seal(nil)
	}
}

// Finish emits everything that is left, with the totals in the last snapshot. Nothing may be recorded after it is
// called. It fills in the recorded part of the totals: snapshots, counters, values, first start and last end.
func (r *Recorder) Finish(t *spatev1.Totals) {
	r.sum(t)
	for slices.ContainsFunc(r.shards, func(s *Shard) bool { return len(s.open) > 1 }) {
		r.seal(nil)
	}
	r.seal(t)
}

// seal emits the oldest window.
func (r *Recorder) seal(t *spatev1.Totals) {
	w := r.next
	r.next++
	pages := lists.Each(r.shards, (*Shard).seal)
	all := r.snapshots(w, pages)
	all[0].PeakInFlight = r.gauge.take(w)
	if joined := r.config.Joined; joined > 1 && w == joined-1 {
		all[0].FirstWindow = new(uint32)
	}
	for i, p := range pages {
		if p != nil {
			r.shards[i].reuse(p)
		}
	}
	r.emitted += uint64(len(all))
	if t != nil {
		t.Snapshots = r.emitted
		all[len(all)-1].Totals = t
	}
	for _, s := range all {
		r.config.Emit(s)
	}
}

// sum fills in totals from what the shards counted apart from the windows.
func (r *Recorder) sum(t *spatev1.Totals) {
	var counts measure.Counts
	var values [measure.Count]uint64
	first, start, last := clock.Instant(math.MaxInt64), clock.Instant(0), clock.Instant(0)
	for _, s := range r.shards {
		counts.Add(&s.total.counts)
		for m, n := range s.total.values {
			values[m] += n
		}
		if s.total.firstStart != 0 {
			first, start, last = min(first, s.total.firstStart), max(start, s.total.lastStart),
				max(last, s.total.lastEnd)
		}
	}
	t.Counters = counts.Proto()
	for m, n := range values {
		if n > 0 {
			t.Values = append(t.Values, &spatev1.MetricCount{Metric: spatev1.Metric(m), Count: n})
		}
	}
	if last != 0 {
		t.FirstStartNs, t.LastStartNs = offset(r.windows.start, first), offset(r.windows.start, start)
		t.LastEndNs = offset(r.windows.start, last)
	}
}

// breakAfter is how much work a sealer does without a break, in values counted into a histogram: some 20 us of work. A
// window of a busy agent takes milliseconds in total, and on an agent's only core nothing would start meanwhile.
const breakAfter = 2048

// The cost of a sealer's other work, in such values.
const (
	comparing = 4  // comparing two rows while sorting
	sizing    = 64 // measuring a row
)

// addWork adds to the sealer's work, and lets other goroutines go first when breakAfter is reached.
func (r *Recorder) addWork(n int) {
	if r.config.Yield == nil {
		return
	}
	if r.work += n; r.work >= breakAfter {
		r.work = 0
		r.config.Yield()
	}
}

// SLO holds the limits that a good request must keep. A limit of 0 does not apply.
type SLO struct {
	// Longest time to the first token, per token after the first, and to the last token.
	TTFT, TPOT, E2E time.Duration
}

// SLOsOf converts SLOs. Nil has no limits.
func SLOsOf(all []*spatev1.SLO) []SLO {
	return lists.Each(all, func(s *spatev1.SLO) SLO {
		return SLO{TTFT: s.GetTtft().AsDuration(), TPOT: s.GetTpot().AsDuration(), E2E: s.GetE2E().AsDuration()}
	})
}

// kept reports whether a completed request is good. Limits are inclusive. A request of fewer than two tokens has no
// TPOT and keeps that limit. If the answer is one body, its first token comes with its last.
func (s SLO) kept(o *stream.Observation) bool {
	return s != SLO{} &&
		within(o.FirstToken.Sub(o.Start).Nanoseconds(), s.TTFT) &&
		within(o.LastToken.Sub(o.Start).Nanoseconds(), s.E2E) &&
		(o.OutputTokens < 2 || within(perToken(o.LastToken.Sub(o.FirstToken), o.OutputTokens), s.TPOT))
}

// within reports whether a time in nanoseconds keeps a limit.
func within(ns int64, limit time.Duration) bool { return limit == 0 || ns <= limit.Nanoseconds() }
