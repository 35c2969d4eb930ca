package lifecycle

import (
	"slices"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// share is one agent's part of a stage.
//
//	assigned -> applied -> active -> done: all its snapshots are merged
//	                        |  ^
//	               its loss |  | it is back in time
//	                        v  |
//	                        away -> given up (failure): what it sends from then on is refused
//	                        ^
//	   active, but it has not taken on a change in time, or came back without its share: sent off (out), and never back
type share struct {
	agent       *agent
	observer    bool
	rank        uint32 // place in the stripe; of no meaning for an observer
	weight      uint32
	applied     bool
	uncertainty time.Duration
	preparation *spatev1.Preparation // what it found out about the target
	joined      time.Duration        // offset from which on it takes part

	snapshots uint64          // merged so far
	totals    *spatev1.Totals // unset: not here yet
	covered   coverage        // windows that are merged
	delivered clock.Instant   // when a snapshot was merged last, or could have been; 0: not known yet
	begun     []uint64        // closed loop: items begun, by the newest snapshot that is merged
	newest    uint64          // its sequence

	revision uint32        // of the assignment that it was sent last
	knows    uint32        // newest revision that it is known to have taken on
	answerBy clock.Instant // when it has to have taken on the last one at the latest; 0: it has

	ended   bool          // its load has ended, and it holds its totals back until all have
	lost    string        // why it is away; empty: it is not
	fence   clock.Instant // from then on it starts nothing more, if it is away
	said    bool          // its loss has been told
	out     bool          // it has been told to end its share, whether it is heard or not
	failure string        // why it was given up
	loss    *spatev1.Loss // what is missing with it
}

// whole says that all that the share measured is merged.
func (p *share) whole() bool { return p.totals != nil && p.snapshots >= p.totals.GetSnapshots() }

// done says that nothing more is waited for.
func (p *share) done() bool { return p.failure != "" || p.whole() }

// active reports whether the share is under way, as far as is known.
func (p *share) active() bool { return p.failure == "" && p.lost == "" && p.totals == nil && !p.ended }

// away says that the share is lost unless it comes back.
func (p *share) away() bool { return p.lost != "" && !p.done() }

// take counts a snapshot that was merged.
func (p *share) take(s *spatev1.Snapshot) {
	p.snapshots++
	first := s.GetWindow()
	if s.FirstWindow != nil {
		first = s.GetFirstWindow()
	}
	p.covered.add(first, s.GetWindow())
	if sequence := s.GetKey().GetSequence(); sequence >= p.newest {
		p.newest, p.begun = sequence, s.GetBegunItems()
	}
	if t := s.GetTotals(); t != nil {
		p.totals = t
	}
	p.agreed(s.GetRevision())
}

// coverage is the set of a share's windows that are merged, in whatever order they come.
type coverage struct {
	next  uint32      // first window that is missing
	ahead [][2]uint32 // first and last of those behind it
}

// add takes in windows from first to last.
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
	record    *spatev1.StageRecord
	ref       *spatev1.AssignmentRef // with the newest revision
	shares    []*share               // in the order of the record's agents
	start     clock.Instant
	deadline  clock.Instant       // of applying, or of stopping
	ready     clock.Instant       // when all but observers were ready; 0: they are not
	progress  clock.Instant       // when progress was last reported
	immediate bool                // agents have been told to cancel
	gaveUp    string              // why an abort rule ended a probe of a search
	declined  map[string][]uint64 // processes of newcomers that cannot join the stage, by name
}

// share returns the part of an agent's process.
func (s *stage) share(name string, incarnation uint64) *share {
	for _, p := range s.shares {
		if p.agent.name() == name && p.agent.incarnation == incarnation {
			return p
		}
	}
	return nil
}

// shareOf returns an agent's part of the stage in progress. Nil: it has none, or there is no such stage.
func (r *Run) shareOf(a *agent) *share {
	if r.stage == nil || a == nil {
		return nil
	}
	return r.stage.share(a.name(), a.incarnation)
}

// places are the shares of the load, by rank.
func (s *stage) places() []*share {
	return s.those(func(p *share) bool { return !p.observer })
}

// those returns the shares that are so.
func (s *stage) those(are func(*share) bool) []*share {
	var out []*share
	for _, p := range s.shares {
		if are(p) {
			out = append(out, p)
		}
	}
	return out
}

// all says whether each share of the load is so.
func (s *stage) all(is func(*share) bool) bool {
	return !slices.ContainsFunc(s.shares, func(p *share) bool { return !p.observer && !is(p) })
}

// stripe is a share's part of the schedule, as it is now.
func (s *stage) stripe(p *share) *spatev1.Stripe {
	if p.observer {
		return &spatev1.Stripe{Weights: []uint32{1}}
	}
	out := &spatev1.Stripe{Rank: p.rank, Handovers: s.record.GetHandovers()}
	for _, q := range s.places() {
		if q.joined == 0 {
			out.Weights = append(out.Weights, q.weight)
		}
	}
	return clone(out)
}

// refTo names a share's assignment as its agent knows it.
func (s *stage) refTo(p *share) *spatev1.AssignmentRef {
	ref := clone(s.ref)
	ref.Revision = p.revision
	return ref
}
