package merge

import (
	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// elementBytes is the most that the encoding of an element takes beside the element: its tag and its length.
const elementBytes = 8

// Split returns a snapshot as it is, or, if it is too large to be sent, several that together say the same: first those
// with the measurements by endpoint, then those with the rows, and the totals on the last. A row that is too large by
// itself is left out and counted.
func Split(s *spatev1.Snapshot) []*spatev1.Snapshot {
	if proto.Size(s) <= MaxBytes {
		return []*spatev1.Snapshot{s}
	}
	c := newCutter(s)
	for _, series := range s.GetSeries() {
		c.room(proto.Size(series))
		c.last().Series = append(c.last().Series, series)
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

// cutter makes the pieces of one snapshot.
type cutter struct {
	whole  *spatev1.Snapshot
	pieces []*spatev1.Snapshot
	spare  int // bytes for elements in a new piece
	left   int // bytes left in the last piece
}

// newCutter begins the first piece, which has what is said once.
func newCutter(s *spatev1.Snapshot) *cutter {
	c := &cutter{whole: s}
	c.begin()
	first := c.last()
	first.PeakInFlight, first.DroppedRecords = s.GetPeakInFlight(), s.GetDroppedRecords()
	first.ServerSamples, first.Shares = s.GetServerSamples(), s.GetShares()
	const once = 32 // bytes of these two
	last := &spatev1.Snapshot{Totals: s.GetTotals(), ServerAccounts: s.GetServerAccounts()}
	c.spare = MaxBytes - once - proto.Size(first) - proto.Size(last) - elementBytes
	c.left = c.spare
	return c
}

// begin begins another piece.
func (c *cutter) begin() {
	s := c.whole
	c.pieces = append(c.pieces, &spatev1.Snapshot{
		StageIndex: s.GetStageIndex(), Revision: s.GetRevision(), Window: s.GetWindow(), FirstWindow: s.FirstWindow,
		BegunItems: s.GetBegunItems(),
	})
	c.left = c.spare
}

// room sees to it that the last piece has room for an element, and reports whether there is a piece that has.
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
