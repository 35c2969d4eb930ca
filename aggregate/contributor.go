package aggregate

import (
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// agentTally holds what one agent delivered. Its values are packed because there may be a thousand agents.
type agentTally struct {
	tally      // everything but the values
	packed     [measure.Count]*histogram.Packed
	regionName string
	region     *regionTally
	joined     int64                 // nanoseconds from the stage's start at which it joined
	loss       *spatev1.Loss         // nil: not lost
	out        bool                  // it failed: views do not wait for it, lost or not
	recorded   [measure.Count]uint64 // number of values, including metrics that the tally does not keep
	snapshots  uint64
	first      uint64   // lowest sequence number
	last       uint64   // highest sequence number
	peaks      []uint32 // most requests in flight, by window, up to the highest one delivered
	rows       uint64   // dropped rows
	shared     windowShare
	totals     *spatev1.Totals
	closing    uint64 // sequence number of the snapshot with the totals
}

// newAgentTally returns an empty tally for an agent of a region.
func newAgentTally(regionName string, region *regionTally) *agentTally {
	return &agentTally{tally: *newTally(0), regionName: regionName, region: region}
}

// add adds one endpoint's measurements of one snapshot.
func (a *agentTally) add(series *spatev1.Series, parts []part, at place, by packers) {
	a.tally.add(series, parts, at)
	for _, p := range parts {
		a.recorded[p.metric] += p.values.Count()
		if !keyMetrics.Has(p.metric) {
			continue
		}
		if a.packed[p.metric] == nil {
			a.packed[p.metric] = &histogram.Packed{}
		}
		if err := a.packed[p.metric].Add(p.values, by[p.values.Layout()]); err != nil {
			panic("aggregate: " + err.Error()) // merge checked before that it cannot become full
		}
	}
}

// whole returns the tally with its values unpacked. The result shares the histograms of memory, a tally of the key
// metrics, which must not be used for anything else while the result is in use.
func (a *agentTally) whole(memory *tally) *tally {
	t := a.tally
	t.keep = keyMetrics
	for m, p := range a.packed {
		if p != nil {
			t.values[m] = memory.histogram(spatev1.Metric(m))
			p.Unpack(t.values[m])
		}
	}
	return &t
}

// packers are scratch histograms for packing values, by layout.
type packers [2]*histogram.Histogram

func newPackers() packers {
	return packers{histogram.Times: histogram.New(histogram.Times), histogram.Counts: histogram.New(histogram.Counts)}
}

// deliver records that a snapshot arrived. The peak of a snapshot of several windows counts for each of them, because
// it may have been in any of them.
func (a *agentTally) deliver(s *spatev1.Snapshot) {
	sequence := s.GetKey().GetSequence()
	if a.snapshots == 0 || sequence < a.first {
		a.first = sequence
	}
	a.last = max(a.last, sequence)
	if windows := int(s.GetWindow()) + 1; windows > len(a.peaks) {
		a.peaks = append(a.peaks, make([]uint32, windows-len(a.peaks))...)
	}
	for w := firstWindow(s); w <= s.GetWindow(); w++ {
		a.peaks[w] = max(a.peaks[w], s.GetPeakInFlight())
	}
	a.snapshots++
	a.rows += s.GetDroppedRecords()
	for _, share := range s.GetShares() {
		a.shared.add(share)
	}
	if s.GetTotals() != nil {
		a.totals, a.closing = s.GetTotals(), sequence
	}
}

// startsIn returns the first window in which the agent takes part.
func (a *agentTally) startsIn() uint32 { return uint32(a.joined / nanosPerSecond) }

// takenOver reports whether the agent was lost and other agents took over its stripe.
func (a *agentTally) takenOver() bool { return a.loss != nil && a.loss.TakenOverNs != nil }

// regionTally holds what the agents of one region delivered.
type regionTally struct {
	tally
	paths []*tally // connections by endpoint
}

// newRegionTally returns an empty tally of a region.
func newRegionTally(endpoints int) *regionTally {
	r := &regionTally{tally: *newTally(measure.All)}
	for range endpoints {
		r.paths = append(r.paths, newTally(pathMetrics))
	}
	return r
}

// add adds one endpoint's measurements of one snapshot.
func (r *regionTally) add(series *spatev1.Series, parts []part, at place) {
	r.tally.add(series, parts, at)
	r.paths[at.endpoint].add(series, parts, at)
}

// windowShare is what requests contributed to a window. It is reported when the requests end.
type windowShare struct {
	tokens, chunks uint64
	requests       uint64 // in millionths
}

// add adds the share that one snapshot reports.
func (w *windowShare) add(s *spatev1.WindowShare) {
	w.tokens += s.GetOutputTokens()
	w.chunks += s.GetChunks()
	w.requests += s.GetMicroRequests()
}

// windowTally holds what happened in one window.
type windowTally struct {
	windowShare

	started          uint64
	ended            uint64 // in any way
	tokensArrived    uint64
	tokensPerSecond  float64 // tokens of each snapshot, divided by its number of windows
	framesPerSecond  float64 // the same for frames
	uncountedFrames  uint64
	frames, lags     uint64 // a stamped read of frames has one lag
	unmeasuredFrames uint64

	unmeasuredStarted, unmeasuredEnded uint64

	live *liveWindow
}

// liveWindow is a window that can still be viewed.
type liveWindow struct {
	total   *tally
	regions map[string]*tally
	agents  map[string]*agentWindow
	// By number, for the first shownEndpoints endpoints. Nil: no measurements.
	endpoints [shownEndpoints]*tally
}

// agentWindow holds what the processes of one agent measured in a window.
type agentWindow struct {
	pending
	region string
}

// newLiveWindow returns a window without measurements.
func newLiveWindow() *liveWindow {
	return &liveWindow{total: newTally(measure.All), regions: make(map[string]*tally),
		agents: make(map[string]*agentWindow)}
}

// add merges one endpoint's measurements into a window.
func (w *windowTally) add(series *spatev1.Series, parts []part, at place, region string) {
	c := series.GetCounters()
	w.started += c.GetStarted()
	w.ended += c.GetCompleted() + c.GetFailed() + c.GetCancelled()
	w.tokensArrived += c.GetTokensArrived()
	w.tokensPerSecond += float64(c.GetTokensArrived()) / float64(at.windows())
	w.framesPerSecond += float64(c.GetFrames()) / float64(at.windows())
	w.uncountedFrames += c.GetUncountedFrames()
	w.frames += c.GetFrames()
	for _, p := range parts {
		if p.metric == spatev1.Metric_METRIC_RECEIVE_LAG {
			w.lags += p.values.Count()
		}
	}
	w.unmeasuredFrames += c.GetUnmeasuredFrames()
	w.unmeasuredStarted += c.GetUnmeasuredStarted()
	w.unmeasuredEnded += c.GetUnmeasuredEnded()
	if w.live == nil {
		return
	}
	if w.live.agents[at.agent] == nil {
		w.live.agents[at.agent] = &agentWindow{region: region}
	}
	w.live.total.add(series, parts, at)
	addTo(w.live.regions, region, regionMetrics).add(series, parts, at)
	w.live.agents[at.agent].add(series, parts, at)
	w.live.addEndpoint(series, parts, at)
}

// addEndpoint merges one endpoint's measurements into its tally, if views show the endpoint.
func (w *liveWindow) addEndpoint(series *spatev1.Series, parts []part, at place) {
	if at.endpoint >= shownEndpoints {
		return
	}
	if w.endpoints[at.endpoint] == nil {
		w.endpoints[at.endpoint] = newTally(keyMetrics)
	}
	w.endpoints[at.endpoint].add(series, parts, at)
}

// addTo returns the tally of a name, and creates it if necessary.
func addTo(tallies map[string]*tally, name string, keep measure.Set) *tally {
	if tallies[name] == nil {
		tallies[name] = newTally(keep)
	}
	return tallies[name]
}

// firstWindow returns the first window that a snapshot holds: its only window, unless its agent merged several.
func firstWindow(s *spatev1.Snapshot) uint32 {
	if s.FirstWindow == nil {
		return s.GetWindow()
	}
	return min(s.GetFirstWindow(), s.GetWindow())
}

// Taken reports whether a snapshot belongs to the result of a stage. Of a lost agent, only the windows before its loss
// belong to it. Other agents send the later windows, which would otherwise count twice. If none does, the result says
// that they are missing.
func Taken(rec *spatev1.StageRecord, s *spatev1.Snapshot) bool {
	assigned := Assigned(rec, s.GetKey())
	return assigned != nil && takes(assigned.GetLoss(), s)
}

// takes is Taken for an agent with the given loss; nil if it was not lost.
func takes(loss *spatev1.Loss, s *spatev1.Snapshot) bool {
	return loss == nil || s.GetWindow() < loss.GetFromWindow()
}
