package lifecycle

import (
	"slices"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans/servermetrics"
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

// stage is the stage in progress.
type stage struct {
	record      *spatev1.StageRecord
	ref         *spatev1.AssignmentRef  // with the newest revision
	assignments []*assignment           // in the order of the record's agents; none is removed
	byProcess   map[process]*assignment // the first of each process among the first indexed assignments
	indexed     int
	start       clock.Instant
	deadline    clock.Instant       // deadline of the applying or the stopping phase
	progress    clock.Instant       // when progress was last reported
	immediate   bool                // agents were told to cancel
	abortedBy   string              // why an abort rule ended a probe of a search
	declined    map[string][]uint64 // processes that may not join the stage, by agent's name
	first       []uint32            // see firstWeights
	untold      []*spatev1.Handover // handovers that no agent was told about yet; see tellTakers
	untoldFrom  time.Duration       // offset from which all of them count
	measured    *spatev1.Stage      // the stage with the warm-up that it has had; nil: not needed yet
	proposed    proposal            // when the agents were last asked to begin to measure
	doubtful    int                 // see all
}

// process is one process of an agent.
type process struct {
	agent       string
	incarnation uint64
}

// assignment returns the assignment of an agent's process, nil if it has none. It runs for each snapshot and heartbeat.
func (s *stage) assignment(name string, incarnation uint64) *assignment {
	if s.byProcess == nil {
		s.byProcess = map[process]*assignment{}
	}
	for ; s.indexed < len(s.assignments); s.indexed++ {
		p := s.assignments[s.indexed]
		if k := (process{p.agent.name(), p.agent.incarnation}); s.byProcess[k] == nil {
			s.byProcess[k] = p
		}
	}
	return s.byProcess[process{name, incarnation}]
}

// assignmentOf returns an agent's assignment of the stage in progress, nil if it has none or there is no stage.
func (r *Run) assignmentOf(a *agent) *assignment {
	if r.stage == nil || a == nil {
		return nil
	}
	return r.stage.assignment(a.name(), a.incarnation)
}

// where returns the assignments that satisfy a predicate.
func (s *stage) where(are func(*assignment) bool) []*assignment {
	var out []*assignment
	for _, p := range s.assignments {
		if are(p) {
			out = append(out, p)
		}
	}
	return out
}

// all reports whether each assignment satisfies the predicate is. The stage asks again and again while thousands of
// agents get ready or done, so the search starts at the assignment that was found not to satisfy the last predicate.
func (s *stage) all(is func(*assignment) bool) bool {
	for range s.assignments {
		if !is(s.assignments[s.doubtful]) {
			return false
		}
		s.doubtful = (s.doubtful + 1) % len(s.assignments)
	}
	return true
}

// stripe returns an assignment's current stripe. The stripes of all agents share their weights and handovers, which
// never change: a copy for each of ten thousand agents would take seconds and a gigabyte.
func (s *stage) stripe(p *assignment) *spatev1.Stripe {
	return &spatev1.Stripe{
		Rank: p.rank, Weights: s.firstWeights(), Handovers: slices.Clip(s.record.GetHandovers()),
	}
}

// firstWeights returns the weights of the assignments that were there at the start, by rank. The caller must not change
// them.
func (s *stage) firstWeights() []uint32 {
	if s.first == nil {
		for _, p := range s.assignments {
			if p.joined == 0 {
				s.first = append(s.first, p.weight)
			}
		}
	}
	return s.first
}

// refTo returns a reference to an assignment, with the revision that its agent was sent last.
func (s *stage) refTo(p *assignment) *spatev1.AssignmentRef {
	ref := clone(s.ref)
	ref.Revision = p.revision
	return ref
}

// serverSources returns the sources of server metrics that an agent scrapes. Sources are dealt in turn, by rank, to the
// agents that were there at the start, so that each source has exactly one reader. If the reader is lost, its sources
// are not read again in the stage, because the numbers of two readers could not be ordered.
func (s *stage) serverSources(p *assignment) (sources []uint32) {
	all, readers := len(servermetrics.Sources(s.record.GetStage().GetTarget())), len(s.firstWeights())
	if int(p.rank) >= readers {
		return nil
	}
	for source := int(p.rank); source < all; source += readers {
		sources = append(sources, uint32(source))
	}
	return sources
}

// LoadEnded tells the machine that the load of an agent has ended while its totals are not here yet: the agent scrapes
// servers, and waits for the last scrape until no agent sends requests. LoadEnded reports whether the load of all
// agents has ended. The agent asks again until it has. From then on the agent takes nothing over. An agent that was
// given something too late gets true, so that it ends at once and others can take that over.
func (r *Run) LoadEnded(name string, ref *spatev1.AssignmentRef) (all bool) {
	if r.phase != running && r.phase != stopping || !r.stage.concerns(ref) {
		return false
	}
	p := r.assignmentOf(r.agents[name])
	if p == nil {
		return false
	}
	p.ended = true
	if r.stage.hasUnappliedHandover(p) {
		return true
	}
	others := r.stage.where(func(p *assignment) bool { return !p.done() && !p.ended })
	return len(others) == 0
}
