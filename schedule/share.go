package schedule

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Share is one agent's part of a schedule. Parts may change hands during the stage. A Share is immutable: it may be
// copied and read concurrently.
//
// The owner of item i is a fold over the handovers. At first the pattern of all weights gives the item to a rank p, as
// item k of p's list, counted from 0. Each handover in order passes the item on if the handover takes from p and the
// item is due at or after the handover's moment. The pattern of the handover's weights then gives item k to a new rank
// p', and the new k is the number of items below k that it gives to p'. So a handover maps a list onto lists without
// gaps or overlaps, and all ranks together own each item exactly once, whatever changed hands and in whatever order
// the moments come.
//
// This is about open loops. Closed describes who owns what in a closed loop.
//
// If the load is split at random, the rank is drawn instead: first by all weights, then once for each handover that
// passes the arrival on, by the handover's weights.
type Share struct {
	stripe    *spatev1.Stripe
	rank      uint32
	base      Stripe        // the rank's numbers by the weights alone
	pattern   *Pattern      // pattern of the weights; nil: not needed, there are no handovers
	handovers []handover    // in order
	seats     uint64        // sum of the cycles of all handovers' rounds
	gives     [][]int       // indices of handovers by giving rank
	changed   time.Duration // arrivals before it never changed hands
	settled   time.Duration // from this moment on no more handovers
	keeps     bool          // the rank has arrivals from settled on
	draws     *draws        // nil: arrivals are dealt in turn
}

// handover splits the rest of one rank's list over other ranks.
type handover struct {
	from      uint32
	pattern   *Pattern
	at        time.Duration
	fromItems []uint64
}

const (
	// mostItems bounds the item numbers that a handover may name.
	mostItems = 1 << 62
	// latestMoment bounds the moments of handovers. Nothing is due that late, and sums with it do not overflow.
	latestMoment = time.Duration(math.MaxInt64 / 2)
	// mostSeats bounds the memory of handovers, whatever a coordinator sends: 8 bytes per seat.
	mostSeats = 16 * MaxCycle
)

// NewShare reads a stripe. A rank that is not in the stripe's weights has what handovers give it, which may be nothing
// yet. It fails if weights are not valid for NewStripe, if a handover's moment is negative or beyond latestMoment, or
// if a handover takes from a rank that never had anything.
func NewShare(m *spatev1.Stripe) (Share, error) {
	s := Share{stripe: &spatev1.Stripe{Weights: m.GetWeights(), Rank: m.GetRank()}, rank: m.GetRank(),
		changed: math.MaxInt64}
	if int(s.rank) < len(m.GetWeights()) {
		var err error
		if s.base, err = NewStripe(m.GetWeights(), int(s.rank)); err != nil {
			return Share{}, err
		}
	}
	if len(m.GetHandovers()) == 0 && s.base.Cycle() != 0 {
		return s, nil
	}
	return s.append(m.GetHandovers())
}

// Revised returns the share of a later revision of the stripe. The revision may only append handovers; any other change
// is an error.
func (s *Share) Revised(m *spatev1.Stripe) (Share, error) {
	old, list := s.stripe.GetHandovers(), m.GetHandovers()
	switch {
	case m.GetRank() != s.rank || !slices.Equal(m.GetWeights(), s.stripe.GetWeights()):
		return Share{}, fmt.Errorf(
			"schedule: a revision for rank %d has other weights or another rank than the one before, for rank %d: "+
				"stripes change by handovers only",
			m.GetRank(),
			s.rank,
		)
	case len(list) < len(old):
		return Share{}, fmt.Errorf(
			"schedule: a revision of %d handovers cannot follow one of %d: handovers are only added", len(list),
			len(old))
	}
	for i, h := range old {
		if !sameHandover(h, list[i]) {
			return Share{}, fmt.Errorf("schedule: handover %d was changed from {%v} to {%v}: handovers are only added",
				i, h, list[i])
		}
	}
	return s.append(list[len(old):])
}

// sameHandover reports whether two handovers are equal, whatever their revisions. It compares field by field, because
// large stages have many handovers, each with all ranks.
func sameHandover(a, b *spatev1.Handover) bool {
	return a.GetFromRank() == b.GetFromRank() && a.GetFromNs() == b.GetFromNs() &&
		slices.Equal(a.GetWeights(), b.GetWeights()) && slices.Equal(a.GetFromItems(), b.GetFromItems())
}

// Joined reports whether the rank is not in the weights, because its agent joined later, and from which offset it has
// something: math.MaxInt64 if it has nothing yet.
func (s *Share) Joined() (from time.Duration, joined bool) {
	if int(s.rank) < len(s.stripe.GetWeights()) {
		return 0, false
	}
	from = math.MaxInt64
	for i := range s.handovers {
		if h := &s.handovers[i]; h.pattern.Gives(s.rank) {
			from = min(from, h.at)
		}
	}
	return from, true
}

// nothing reports whether the rank never has anything.
func (s *Share) nothing() bool {
	return s.base.Empty() && !slices.ContainsFunc(s.handovers, func(h handover) bool { return h.pattern.Gives(s.rank) })
}

// settle computes whether the rank has anything after all moments have passed. A giving rank then has only what a
// handover gives back to it.
func (s *Share) settle() {
	has := lists.Set(s.pattern.Ranks())
	for i := range s.handovers {
		h := &s.handovers[i]
		s.settled = max(s.settled, h.at)
		if !has[h.from] {
			continue
		}
		has[h.from] = false
		maps.Copy(has, lists.Set(h.pattern.Ranks()))
	}
	s.keeps = has[s.rank]
}

// Places returns the share's part of an open loop's limit on the requests in flight, divided as the slots of a closed
// loop are. When an agent is lost or leaves, those who take its arrivals over take its places, too. An agent that
// leaves keeps its own for what it still has to send.
func (s *Share) Places(limit uint32) int {
	return int(lists.Sum(s.lists(uint64(limit), &limits{}), func(l list) uint64 { return l.slots }))
}

// over reports whether the rank has nothing from an offset on, by the known handovers.
func (s *Share) over(from time.Duration) bool { return from >= s.settled && !s.keeps }

// Changed reports whether there are handovers, of this rank or of others.
func (s *Share) Changed() bool { return len(s.handovers) > 0 }

// append returns a share with more handovers. It does not change s.
func (s *Share) append(list []*spatev1.Handover) (Share, error) {
	n := *s
	if n.pattern == nil {
		var err error
		if n.pattern, err = NewPattern(s.stripe.GetWeights(), nil); err != nil {
			return Share{}, err
		}
	}
	n.stripe = &spatev1.Stripe{Weights: s.stripe.GetWeights(), Rank: s.rank,
		Handovers: slices.Concat(s.stripe.GetHandovers(), list)}
	n.handovers = slices.Clone(s.handovers)
	holders := n.holders()
	for i, m := range list {
		if err := n.add(m, holders); err != nil {
			return Share{}, fmt.Errorf("schedule: handover %d: %w", len(s.handovers)+i, err)
		}
	}
	n.index()
	n.settle()
	return n, nil
}

// holders returns the ranks that have a part by the weights or were given one.
func (s *Share) holders() map[uint32]bool {
	all := lists.Set(s.pattern.Ranks())
	for i := range s.handovers {
		maps.Copy(all, lists.Set(s.handovers[i].pattern.Ranks()))
	}
	return all
}

// add appends a handover, and adds the ranks that it gives something to, to holders.
func (s *Share) add(m *spatev1.Handover, holders map[uint32]bool) error {
	h := handover{from: m.GetFromRank(), at: time.Duration(m.GetFromNs()), fromItems: m.GetFromItems()}
	switch {
	case h.at < 0 || h.at > latestMoment:
		return fmt.Errorf("its moment is %v: it must be from 0 to %v after the start", h.at, latestMoment)
	case !holders[h.from]:
		return fmt.Errorf("rank %d has nothing to hand over", h.from)
	case slices.ContainsFunc(h.fromItems, func(n uint64) bool { return n > mostItems }):
		return errors.New("it names an item that is too large")
	}
	last := s.pattern
	if n := len(s.handovers); n > 0 {
		last = s.handovers[n-1].pattern // handovers of one loss or one newcomer are often alike
	}
	var err error
	if h.pattern, err = NewPattern(m.GetWeights(), last); err != nil {
		return err
	}
	if !h.pattern.SharesRound(last) {
		s.seats += h.pattern.Cycle()
	}
	if s.seats > mostSeats {
		return fmt.Errorf("the weights of all handovers sum up to more than %d: round them with Quantise", mostSeats)
	}
	maps.Copy(holders, lists.Set(h.pattern.Ranks()))
	s.handovers = append(s.handovers, h)
	s.changed = min(s.changed, h.at)
	return nil
}

// index lists the handovers by giving rank.
func (s *Share) index() {
	s.gives = nil
	for i := range s.handovers {
		from := int(s.handovers[i].from)
		for from >= len(s.gives) {
			s.gives = append(s.gives, nil)
		}
		s.gives[from] = append(s.gives[from], i)
	}
}

// owns reports whether arrival i of an open loop, due at an offset, is the rank's.
func (s *Share) owns(i uint64, due time.Duration) bool {
	if due < s.changed {
		return !s.base.Empty() && s.base.Has(s.draws.seat(0, i, i, s.base.Cycle())) // as dealt by the weights
	}
	rank, k := s.pattern.Owner(s.draws.seat(0, i, i, s.pattern.Cycle()))
	for h := s.following(rank, 0, due); h < len(s.handovers); h = s.following(rank, h+1, due) {
		p := s.handovers[h].pattern
		rank, k = p.Owner(s.draws.seat(h+1, i, k, p.Cycle()))
	}
	return rank == s.rank
}

// count returns how many arrivals with indices in [from, below) are the rank's, if all are due after the last
// handover.
func (s *Share) count(from, below uint64) (n uint64) {
	if s.draws != nil && !s.Changed() {
		return s.draws.count(&s.base, from, below)
	}
	for i := from; i < below; i++ {
		if s.owns(i, latestMoment) {
			n++
		}
	}
	return n
}

// following returns the first handover from h on in which a rank gives what is due at an offset, len(s.handovers) if
// there is none.
func (s *Share) following(rank uint32, h int, due time.Duration) int {
	if int(rank) < len(s.gives) {
		for _, next := range s.gives[rank] {
			if next >= h && due >= s.handovers[next].at {
				return next
			}
		}
	}
	return len(s.handovers)
}
