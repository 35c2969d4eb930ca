package merge

import (
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Agent holds what one agent's process delivered. Its values are packed because there may be a thousand agents: use
// Whole.
type Agent struct {
	Tally // everything but the values
	// RegionName is the name of the agent's region.
	RegionName string
	// Joined is when the agent joined the stage, in nanoseconds from the stage's start.
	Joined int64
	// Loss says from when on the agent was lost. Nil: it was not lost.
	Loss *spatev1.Loss
	// Left is when other agents had the agent's part because it left, in nanoseconds from the stage's start. Nil: it
	// stayed.
	Left *int64
	// DroppedRows is the number of request rows that the agent dropped.
	DroppedRows uint64
	// Totals are the agent's totals. Nil: not delivered.
	Totals *spatev1.Totals

	packed    [measure.Count]*histogram.Packed
	region    *Region
	failed    bool                  // views do not wait for it, lost or not
	recorded  [measure.Count]uint64 // number of values, including metrics that the tally does not keep
	snapshots uint64
	first     uint64   // lowest sequence number
	last      uint64   // highest sequence number
	peaks     []uint32 // most requests in flight, by window, up to the highest one delivered
	shared    WindowShare
	closing   uint64 // sequence number of the snapshot with the totals
}

// newAgent returns an empty tally for an agent of a region.
// add adds one endpoint's measurements of one snapshot.
func (a *Agent) add(series *spatev1.Series, parts []part, at place, by packers) {
	a.Tally.add(series, parts, at)
	for _, p := range parts {
		a.recorded[p.metric] += p.values.Count()
		if !keyMetrics.Has(p.metric) {
			continue
		}
		if a.packed[p.metric] == nil {
			a.packed[p.metric] = &histogram.Packed{}
		}
		mustFit(a.packed[p.metric].Add(p.values, by[p.values.Layout()]))
	}
}

// Whole returns the agent's tally with the values that agents keep.
func (a *Agent) Whole() *Tally { return a.whole(newTally(keyMetrics)) }

// whole returns the tally with its values unpacked. The result shares the histograms of memory, a tally of the key
// metrics, which must not be used for anything else while the result is in use.
func (a *Agent) whole(memory *Tally) *Tally {
	t := a.Tally
	t.keep = keyMetrics
	for m, p := range a.packed {
		if p != nil {
			t.Values[m] = memory.histogram(spatev1.Metric(m))
			p.Unpack(t.Values[m])
		}
	}
	return &t
}

// packers are scratch histograms for packing values, by layout.
type packers [2]*histogram.Histogram

// deliver records that a snapshot arrived. The peak of a snapshot of several windows counts for each of them, because
// it may have been in any of them.
func (a *Agent) deliver(s *spatev1.Snapshot) {
	sequence := s.GetKey().GetSequence()
	if a.snapshots == 0 || sequence < a.first {
		a.first = sequence
	}
	a.last = max(a.last, sequence)
	if windows := int(s.GetWindow()) + 1; windows > len(a.peaks) {
		a.peaks = append(a.peaks, make([]uint32, windows-len(a.peaks))...)
	}
	for w := measure.FirstWindow(s); w <= s.GetWindow(); w++ {
		a.peaks[w] = max(a.peaks[w], s.GetPeakInFlight())
	}
	a.snapshots++
	a.DroppedRows += s.GetDroppedRecords()
	for _, share := range s.GetShares() {
		a.shared.add(share)
	}
	if s.GetTotals() != nil {
		a.Totals, a.closing = s.GetTotals(), sequence
	}
}

// startsIn returns the first window in which the agent takes part.
func (a *Agent) startsIn() uint32 { return uint32(a.Joined / nanosPerSecond) }

// TakenOver reports whether the agent was lost and other agents took over its stripe.
func (a *Agent) TakenOver() bool { return a.Loss != nil && a.Loss.TakenOverNs != nil }

// Region holds what the agents of one region delivered.
type Region struct {
	Tally
	// Paths has the connections to each endpoint of the target.
	Paths []*Tally
}

// newRegion returns an empty tally of a region.
func newRegion(endpoints int) *Region {
	r := &Region{Tally: *newTally(measure.All)}
	for range endpoints {
		r.Paths = append(r.Paths, newTally(pathMetrics))
	}
	return r
}
