package outbox

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// This file merges two snapshots into one, and splits a snapshot that is too large to send.
//
// An agent without its coordinator keeps what it measured. When that takes too much memory, snapshots of neighbouring
// windows are merged: histograms, sums and counters add without loss, only the resolution in time decreases. The
// code is pure: it keeps no state, reads no clock and names no snapshot. It merges snapshots of one agent and one
// stage, never those of several agents. The agent's outbox calls it.

// maxBytes bounds a snapshot's encoding. It leaves room for the snapshot's key within a coordinator's limit of 16 MiB.
const maxBytes = 16<<20 - 64<<10

// Merge returns the sum of two snapshots of one agent and stage. newer was made after older. Neither is changed,
// but the sum shares parts of them. fits is false if a counter or a distribution would exceed the limit of a snapshot.
// The caller must check the size in bytes, because rows add up. The sum has no key.
func Merge(older, newer *spatev1.Snapshot) (sum *spatev1.Snapshot, fits bool) {
	series, fits := allSeries(older.GetSeries(), newer.GetSeries())
	turns, turnsFit := allSeries(older.GetTurns(), newer.GetTurns())
	if !fits || !turnsFit {
		return nil, false
	}
	sum = &spatev1.Snapshot{
		StageIndex: newer.GetStageIndex(), Revision: newer.GetRevision(), Window: newer.GetWindow(),
		Series: series, Turns: turns, Records: slices.Concat(older.GetRecords(), newer.GetRecords()),
		PeakInFlight: max(older.GetPeakInFlight(), newer.GetPeakInFlight()),
		Totals:       newer.GetTotals(), StartedItems: newer.GetStartedItems(), Left: newer.GetLeft(),
		MeasuredFromNs: newer.MeasuredFromNs,
		DroppedRecords: older.GetDroppedRecords() + newer.GetDroppedRecords(),
		ServerSamples:  MergeServerSamples(older.GetServerSamples(), newer.GetServerSamples()),
		Shares:         allShares(older.GetShares(), newer.GetShares()),
		ServerAccounts: newer.GetServerAccounts(), // come with the totals, which are last
	}
	if len(sum.StartedItems) == 0 {
		sum.StartedItems = older.GetStartedItems()
	}
	if first := measure.FirstWindow(older); first < sum.Window {
		sum.FirstWindow = &first
	}
	return sum, true
}

// allSeries merges the series of all parts and endpoints, or of all classes of turns, in their order.
func allSeries(older, newer []*spatev1.Series) ([]*spatev1.Series, bool) {
	all := make([]*spatev1.Series, 0, max(len(older), len(newer)))
	for len(older) > 0 && len(newer) > 0 {
		a, b := older[0], newer[0]
		switch order := cmp.Or(cmp.Compare(a.GetPart(), b.GetPart()), cmp.Compare(a.GetEndpoint(), b.GetEndpoint())); {
		case order < 0:
			all, older = append(all, a), older[1:]
		case order > 0:
			all, newer = append(all, b), newer[1:]
		default:
			sum, fits := oneSeries(a, b)
			if !fits {
				return nil, false
			}
			all, older, newer = append(all, sum), older[1:], newer[1:]
		}
	}
	return append(append(all, older...), newer...), true
}

// oneSeries merges the series of one endpoint.
func oneSeries(older, newer *spatev1.Series) (*spatev1.Series, bool) {
	counts, more := measure.CountsOf(older.GetCounters()), measure.CountsOf(newer.GetCounters())
	counts.Add(&more)
	if slices.ContainsFunc(counts[:], func(n uint64) bool { return n > measure.MaxWindowCount }) {
		return nil, false
	}
	distributions, fits := allDistributions(older.GetDistributions(), newer.GetDistributions())
	return &spatev1.Series{
		Endpoint: newer.GetEndpoint(), Part: newer.GetPart(), Counters: counts.Proto(), Distributions: distributions,
		Errors: addErrors(older.GetErrors(), newer.GetErrors()),
		Models: measure.AddModels(measure.AddModels(nil, older.GetModels()), newer.GetModels()),
	}, fits
}

// allShares merges the window shares of two snapshots, ordered by window.
func allShares(older, newer []*spatev1.WindowShare) []*spatev1.WindowShare {
	all := slices.Clone(older)
	for _, s := range newer {
		i, found := slices.BinarySearchFunc(all, s.GetWindow(), func(o *spatev1.WindowShare, w uint32) int {
			return cmp.Compare(o.GetWindow(), w)
		})
		if !found {
			all = slices.Insert(all, i, s)
			continue
		}
		all[i] = &spatev1.WindowShare{
			Window: s.GetWindow(), OutputTokens: all[i].GetOutputTokens() + s.GetOutputTokens(),
			Chunks: all[i].GetChunks() + s.GetChunks(), MicroRequests: all[i].GetMicroRequests() + s.GetMicroRequests(),
		}
	}
	return all
}

// addErrors merges the failures by kind. The older example stays.
func addErrors(older, newer []*spatev1.ErrorCount) []*spatev1.ErrorCount {
	all := make([]*spatev1.ErrorCount, 0, len(older)+len(newer))
	for _, e := range slices.Concat(older, newer) {
		i := slices.IndexFunc(all, func(o *spatev1.ErrorCount) bool {
			return o.GetClass() == e.GetClass() && o.GetHttpStatus() == e.GetHttpStatus()
		})
		if i < 0 {
			all = append(all, proto.CloneOf(e))
			continue
		}
		all[i].Count += e.GetCount()
		if all[i].GetExample() == "" {
			all[i].Example = e.GetExample()
		}
	}
	return all
}

// allDistributions merges the distributions of all metrics, ordered by metric.
func allDistributions(older, newer []*spatev1.Distribution) ([]*spatev1.Distribution, bool) {
	all := slices.Clone(older)
	for _, d := range newer {
		i, found := slices.BinarySearchFunc(all, d.GetMetric(), func(o *spatev1.Distribution, m spatev1.Metric) int {
			return int(o.GetMetric() - m)
		})
		if !found {
			all = slices.Insert(all, i, d)
			continue
		}
		sum, fits := oneDistribution(all[i], d)
		if !fits {
			return nil, false
		}
		all[i] = sum
	}
	return all, true
}

// oneDistribution merges the values of one metric. It returns false if they do not fit.
func oneDistribution(older, newer *spatev1.Distribution) (*spatev1.Distribution, bool) {
	h := histogram.New(histogram.LayoutOf(newer.GetMetric()))
	for _, d := range []*spatev1.Distribution{older, newer} {
		if err := h.AddProto(d); err != nil {
			return nil, false // no recorder made this: send it unmerged, and let the receiver report it
		}
	}
	return h.Proto(newer.GetMetric()), h.Count() <= measure.MaxValues
}

// MergeServerSamples returns the newest value of each series that servers reported, ordered by source, name and labels.
// Values are not added, because each is a server's state at one time. Earlier values within the merged snapshot are
// lost with the finer resolution in time.
func MergeServerSamples(older, newer []*spatev1.ServerSample) []*spatev1.ServerSample {
	all := slices.Concat(newer, older)
	slices.SortStableFunc(all, compareServerSamples)
	return slices.CompactFunc(all, func(a, b *spatev1.ServerSample) bool { return compareServerSamples(a, b) == 0 })
}

// compareServerSamples orders samples by source, name and labels.
func compareServerSamples(a, b *spatev1.ServerSample) int {
	return cmp.Or(cmp.Compare(a.GetSource(), b.GetSource()), cmp.Compare(a.GetName(), b.GetName()),
		cmp.Compare(a.GetLabels(), b.GetLabels()))
}

// elementBytes is the maximum size of an element's tag and length in the encoding.
const elementBytes = 8

// split returns the snapshot unchanged if it is small enough to send. Otherwise it returns several snapshots with the
// same content: first those with the measurements by endpoint, then those with the rows. The last one has the totals. A
// row that is too large by itself is dropped and counted.
func split(s *spatev1.Snapshot) []*spatev1.Snapshot {
	if proto.Size(s) <= maxBytes {
		return []*spatev1.Snapshot{s}
	}
	c := newCutter(s)
	for _, series := range s.GetSeries() {
		c.room(proto.Size(series))
		c.last().Series = append(c.last().Series, series)
	}
	for _, turn := range s.GetTurns() {
		c.room(proto.Size(turn))
		c.last().Turns = append(c.last().Turns, turn)
	}
	for _, row := range s.GetRecords() {
		if !c.room(proto.Size(row)) {
			c.pieces[0].DroppedRecords++
			continue
		}
		c.last().Records = append(c.last().Records, row)
	}
	c.last().Totals, c.last().ServerAccounts = s.GetTotals(), s.GetServerAccounts()
	return c.pieces
}

// cutter splits one snapshot into pieces.
type cutter struct {
	whole  *spatev1.Snapshot
	pieces []*spatev1.Snapshot
	spare  int // bytes for elements in a new piece
	left   int // bytes left in the last piece
}

// newCutter starts the first piece, which has the parts that must appear once.
func newCutter(s *spatev1.Snapshot) *cutter {
	c := &cutter{whole: s}
	c.begin()
	first := c.last()
	first.PeakInFlight, first.DroppedRecords = s.GetPeakInFlight(), s.GetDroppedRecords()
	first.ServerSamples, first.Shares = s.GetServerSamples(), s.GetShares()
	const once = 32 // bytes of PeakInFlight and DroppedRecords
	last := &spatev1.Snapshot{Totals: s.GetTotals(), ServerAccounts: s.GetServerAccounts()}
	c.spare = maxBytes - once - proto.Size(first) - proto.Size(last) - elementBytes
	c.left = c.spare
	return c
}

// begin starts another piece.
func (c *cutter) begin() {
	s := c.whole
	c.pieces = append(c.pieces, &spatev1.Snapshot{
		StageIndex: s.GetStageIndex(), Revision: s.GetRevision(), Window: s.GetWindow(), FirstWindow: s.FirstWindow,
		StartedItems: s.GetStartedItems(), Left: s.GetLeft(),
	})
	c.left = c.spare
}

// room makes sure that the last piece has room for an element. It returns false if the element fits into no piece.
func (c *cutter) room(size int) bool {
	size += elementBytes
	if size > c.spare {
		return false
	}
	if size > c.left {
		c.begin()
	}
	c.left -= size
	return true
}

func (c *cutter) last() *spatev1.Snapshot { return c.pieces[len(c.pieces)-1] }
