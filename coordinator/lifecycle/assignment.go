package lifecycle

import (
	"slices"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// assignment is one agent's part of a stage.
//
//	assigned -> applied -> active -> done: all snapshots are merged
//	                        |  ^
//	               its loss |  | back in time
//	                        v  |
//	                        lost -> dropped (failure): what it sends from then on is refused
//	                        ^
//	   active, but did not apply a change in time, or came back without its assignment: told to end, never back
type assignment struct {
	agent       *agent
	rank        uint32 // place in the stripe
	weight      uint32
	applied     bool
	uncertainty time.Duration
	preparation *spatev1.Preparation // what the agent found out about the target
	joined      time.Duration        // offset from which it takes part

	delivery
	delivered clock.Instant // when a snapshot was last merged, or could first have been; 0: not known yet

	revision uint32        // of the last assignment that the agent was sent
	knows    uint32        // newest revision that the agent is known to have applied
	answerBy clock.Instant // deadline for applying the last revision; 0: applied

	measuring *spatev1.Measuring // answer to the last proposal of when to measure; nil: none yet

	ended     bool          // its load has ended; it holds its totals back until the load of all has
	lost      string        // why the agent is lost, or was told to end; empty: neither
	fence     clock.Instant // if lost: after this instant the agent starts nothing more
	lossTold  bool          // followers were told that it was lost
	toldToEnd bool          // the agent was told to end its assignment, or should be
	leaving   bool          // the agent was told to start nothing that others can take over
	left      *int64        // offset from which others have its part, because it left; nil: it stayed
	stays     bool          // followers were told that its agent cannot leave
	failure   string        // why the assignment was dropped
	loss      *spatev1.Loss // what is missing because of it
}

// whole reports whether all that the assignment measured is merged.
func (p *assignment) whole() bool { return p.totals != nil && p.snapshots >= p.totals.GetSnapshots() }

// done reports whether no more is expected from the assignment.
func (p *assignment) done() bool { return p.failure != "" || p.whole() }

// active reports whether the assignment is in progress, as far as is known.
func (p *assignment) active() bool {
	return p.failure == "" && p.lost == "" && p.totals == nil && !p.ended
}

// isLost reports whether the assignment is unfinished and its agent is lost or was told to end it.
func (p *assignment) isLost() bool { return p.lost != "" && !p.done() }

// delivery is what an assignment's merged snapshots say.
type delivery struct {
	snapshots    uint64          // number of them
	totals       *spatev1.Totals // nil: not received yet
	covered      coverage        // merged windows
	begun        []uint64        // closed loop: items begun, by the newest snapshot
	newest       uint64          // sequence of that snapshot
	hasLeft      bool            // closed loop: it starts nothing more, and begun tells what is left to others
	measuredFrom *int64          // offset from which it measures for good; nil: not known
	seen         uint32          // newest revision that was applied
}

// take records a merged snapshot.
func (d *delivery) take(s *spatev1.Snapshot) {
	d.snapshots++
	d.covered.add(measure.FirstWindow(s), s.GetWindow())
	if sequence := s.GetKey().GetSequence(); sequence >= d.newest {
		d.newest, d.begun = sequence, s.GetStartedItems()
		d.hasLeft = s.GetLeft()
	}
	if t := s.GetTotals(); t != nil {
		d.totals = t
	}
	if s.MeasuredFromNs != nil {
		d.measuredFrom = s.MeasuredFromNs
	}
	d.seen = max(d.seen, s.GetRevision())
}

// coverage is the set of an assignment's merged windows, which may come in any order.
type coverage struct {
	next  uint32      // first window that is missing
	ahead [][2]uint32 // first and last window of ranges after it
}

// add adds the windows from first to last.
func (c *coverage) add(first, last uint32) {
	c.ahead = append(c.ahead, [2]uint32{first, last})
	slices.SortFunc(c.ahead, func(a, b [2]uint32) int { return int(a[0]) - int(b[0]) })
	for len(c.ahead) > 0 && c.ahead[0][0] <= c.next {
		c.next = max(c.next, c.ahead[0][1]+1)
		c.ahead = c.ahead[1:]
	}
}
