package outbox

import (
	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
