package recorder

import (
	"math"
	"slices"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Config says what is recorded.
type Config struct {
	// Start is the stage's armed start, from which windows are counted.
	Start clock.Instant
	// Joined is the window in which the agent came to a stage under way. The empty windows before it are emitted as one
	// snapshot. 0: it was there from the start.
	Joined uint32
	// Endpoints of the target: indices of requests' endpoints are below it.
	Endpoints int
	// Shards is how many of them there are, at least 1. As many as goroutines record at once keeps them from waiting
	// for each other.
	Shards int
	// SLO says which completed requests are good. Its zero value asks for nothing, and then none is counted as good.
	SLO SLO
	// Records keeps one row for each request.
	Records bool
	// Emit takes each snapshot, window by window, from the goroutine that seals. Its key, stage and revision are not
	// set. The snapshot is Emit's to keep.
	Emit func(*spatev1.Snapshot)
	// GiveWay is called by the goroutine that seals between pieces of its work, of some 20 us each, so that what is due
	// can go first. Nil: nothing can be due.
	GiveWay func()
	// Now reads the clock: clock.Now.
	Now func() clock.Instant
}

// Recorder records one agent's share of one stage.
type Recorder struct {
	config  Config
	windows windows
	gauge   *gauge
	shards  []*Shard

	// The following belong to the goroutine that seals.
	next    uint32 // first window not sealed
	emitted uint64
	times   *histogram.Histogram
	counts  *histogram.Histogram
	work    int // since it gave way
}

// New returns a Recorder in which nothing has happened yet.
func New(c Config) *Recorder {
	r := &Recorder{
		config:  c,
		windows: windows{start: c.Start},
		times:   histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_TTFT)),
		counts:  histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_OSL)),
	}
	r.gauge = newGauge(r.windows, c.Now)
	r.next = max(c.Joined, 1) - 1
	r.gauge.first = r.next
	for range c.Shards {
		s := &Shard{windows: r.windows, gauge: r.gauge, config: &r.config, oldest: r.next}
		r.shards = append(r.shards, s)
	}
	return r
}

// Shard returns a shard for the i-th of many goroutines. It may be called concurrently.
func (r *Recorder) Shard(i int) *Shard { return r.shards[i%len(r.shards)] }

// InFlight is the number of requests now in flight. It may be called at any time.
func (r *Recorder) InFlight() uint32 { return r.gauge.inFlight() }

// LastToken is when the last token frame of any request came, 0 if none has. It may be called at any time.
func (r *Recorder) LastToken() clock.Instant {
	var last clock.Instant
	for _, s := range r.shards {
		s.mu.Lock()
		last = max(last, s.total.lastly)
		s.mu.Unlock()
	}
	return last
}

// NextSeal is the instant from which Seal has a window to emit.
func (r *Recorder) NextSeal() clock.Instant { return r.windows.sealable(r.next) }

// Seal emits every window whose grace has passed, empty ones too: the coordinator then knows that nothing more comes of
// them. One goroutine seals, while others record.
func (r *Recorder) Seal(now clock.Instant) {
	for r.NextSeal() <= now {
		r.seal(nil)
	}
}

// Finish emits all that is left, with the totals in the last snapshot. Nothing may be recorded any more. It fills in
// what of the totals was recorded: snapshots, counters, values, first start and last end.
func (r *Recorder) Finish(t *spatev1.Totals) {
	r.sum(t)
	for r.anyOpenAfter() {
		r.seal(nil)
	}
	r.seal(t)
}

// anyOpenAfter says whether a shard holds a window after the oldest one.
func (r *Recorder) anyOpenAfter() bool {
	return slices.ContainsFunc(r.shards, func(s *Shard) bool { return len(s.open) > 1 })
}

// seal emits the oldest window.
func (r *Recorder) seal(t *spatev1.Totals) {
	w := r.next
	r.next++
	pages := r.pages()
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

// pages takes the oldest page of each shard.
func (r *Recorder) pages() []*page {
	pages := make([]*page, len(r.shards))
	for i, s := range r.shards {
		pages[i] = s.seal()
	}
	return pages
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
