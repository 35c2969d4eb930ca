package arrival

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Share is one agent's part of a schedule, whose parts may change hands while it is played. A Share is a value that
// nothing changes any more: it may be copied and read concurrently.
//
// Who owns item i is a fold over the handovers. At first it is place p of the pattern of all weights, as the k-th item
// of its list, counted from 0. Then each handover in its order, if it shares out what belongs to p and the item is
// behind its moment, sends it on: the pattern of its own weights names for k the new place p', and how many numbers
// below k it names that place for is the new k. So a handover maps a list onto lists without gaps or overlaps, and all
// places together own each item once, whatever changed hands and in whatever order the moments come.
//
// An arrival of an open loop is behind a moment if it is due then or later. What belongs to whom in a closed loop is
// told at Closed.
//
// A share that is split at random draws a place instead: at first by all weights, then once for each handover that
// sends the arrival on, by that one's weights.
type Share struct {
	stripe    *spatev1.Stripe
	rank      uint32
	base      Stripe        // what is the place's by the weights alone
	pattern   *pattern      // of the weights; nil: nothing has changed hands
	handovers []handover    // in order
	seats     uint64        // of all their rounds
	gives     [][]int       // handovers by the place that gives
	changed   time.Duration // no arrival before it has changed hands
	settled   time.Duration // none from it on changes hands again
	keeps     bool          // the place has something from settled on
	draws     *draws        // nil: arrivals are dealt out in turn
}

// handover shares out what belongs to a place.
type handover struct {
	from      uint32
	pattern   *pattern
	at        time.Duration
	fromItems []uint64
}

const (
	// mostItems bounds the numbers of items that a handover may name.
	mostItems = 1 << 62
	// latestMoment bounds when something may change hands: so late that nothing is due any more, and no sum with it
	// overflows.
	latestMoment = time.Duration(math.MaxInt64 / 2)
	// mostSeats bounds the memory of handovers, whatever a coordinator says: 8 bytes each.
	mostSeats = 16 * MaxCycle
)

// NewShare reads a stripe. A place that is not in its weights has what handovers give it, which may be nothing yet. It
// is an error if weights are none that NewStripe takes, if a handover has a negative moment, or if it names a giver
// that has nothing by then.
func NewShare(m *spatev1.Stripe) (Share, error) {
	s := Share{stripe: &spatev1.Stripe{Weights: m.GetWeights(), Rank: m.GetRank()}, rank: m.GetRank(),
		changed: math.MaxInt64}
	if int(s.rank) < len(m.GetWeights()) {
		var err error
		if s.base, err = NewStripe(m.GetWeights(), int(s.rank)); err != nil {
			return Share{}, err
		}
	}
	if len(m.GetHandovers()) == 0 && s.base.cycle != 0 {
		return s, nil
	}
	return s.append(m.GetHandovers())
}

// Revised returns the share of a later revision of its stripe: the same with more handovers behind those there are.
// Anything else is an error.
func (s *Share) Revised(m *spatev1.Stripe) (Share, error) {
	old, list := s.stripe.GetHandovers(), m.GetHandovers()
	switch {
	case m.GetRank() != s.rank || !slices.Equal(m.GetWeights(), s.stripe.GetWeights()):
		return Share{}, fmt.Errorf("arrival: a revision for place %d cannot have other weights or another place than the one before, for place %d: "+
			"shares change by handovers only", m.GetRank(), s.rank)
	case len(list) < len(old):
		return Share{}, fmt.Errorf("arrival: a revision of %d handovers cannot follow one of %d: handovers are only added", len(list), len(old))
	}
	for i, h := range old {
		if !sameHandover(h, list[i]) {
			return Share{}, fmt.Errorf("arrival: handover %d was changed from {%v} to {%v}: handovers are only added",
				i, h, list[i])
		}
	}
	return s.append(list[len(old):])
}

// sameHandover compares two handovers: of large stages there are many, and each names all places.
func sameHandover(a, b *spatev1.Handover) bool {
	return a.GetFromRank() == b.GetFromRank() && a.GetFromNs() == b.GetFromNs() &&
		slices.Equal(a.GetWeights(), b.GetWeights()) && slices.Equal(a.GetFromItems(), b.GetFromItems())
}

// Joined says whether the place came later than the weights, and from when on it has something: the last offset there
// is if it has nothing yet.
func (s *Share) Joined() (from time.Duration, joined bool) {
	if int(s.rank) < len(s.stripe.GetWeights()) {
		return 0, false
	}
	from = math.MaxInt64
	for i := range s.handovers {
		if h := &s.handovers[i]; h.pattern.gives(s.rank) {
			from = min(from, h.at)
		}
	}
	return from, true
}

// nothing says whether the place never has anything.
func (s *Share) nothing() bool {
	return s.base.Empty() && !slices.ContainsFunc(s.handovers, func(h handover) bool { return h.pattern.gives(s.rank) })
}

// settle works out what is left in the end, when all moments have passed: a place that gives has nothing but what it
// keeps of it.
func (s *Share) settle() {
	has := map[uint32]bool{}
	for _, rank := range s.pattern.ranks {
		has[rank] = true
	}
	for i := range s.handovers {
		h := &s.handovers[i]
		s.settled = max(s.settled, h.at)
		if !has[h.from] {
			continue
		}
		has[h.from] = false
		for _, rank := range h.pattern.ranks {
			has[rank] = true
		}
	}
	s.keeps = has[s.rank]
}

// over says whether the place has nothing from an offset on, by all that is known.
func (s *Share) over(from time.Duration) bool { return from >= s.settled && !s.keeps }

// Changed says whether anything has changed hands, be it of this place or of another.
func (s *Share) Changed() bool { return len(s.handovers) > 0 }

// append returns a share with more handovers. It leaves s as it is.
func (s *Share) append(list []*spatev1.Handover) (Share, error) {
	n := *s
	if n.pattern == nil {
		var err error
		if n.pattern, err = newPattern(s.stripe.GetWeights(), nil); err != nil {
			return Share{}, err
		}
	}
	n.stripe = &spatev1.Stripe{Weights: s.stripe.GetWeights(), Rank: s.rank,
		Handovers: slices.Concat(s.stripe.GetHandovers(), list)}
	n.handovers = slices.Clone(s.handovers)
	holders := n.holders()
	for i, m := range list {
		if err := n.add(m, holders); err != nil {
			return Share{}, fmt.Errorf("arrival: handover %d: %w", len(s.handovers)+i, err)
		}
	}
	n.index()
	n.settle()
	return n, nil
}

// holders are the places that have a part by the weights, or were given one.
func (s *Share) holders() map[uint32]bool {
	all := map[uint32]bool{}
	for _, rank := range s.pattern.ranks {
		all[rank] = true
	}
	for i := range s.handovers {
		for _, rank := range s.handovers[i].pattern.ranks {
			all[rank] = true
		}
	}
	return all
}

// add takes in the next handover, and those it gives to as holders.
func (s *Share) add(m *spatev1.Handover, holders map[uint32]bool) error {
	h := handover{from: m.GetFromRank(), at: time.Duration(m.GetFromNs()), fromItems: m.GetFromItems()}
	switch {
	case h.at < 0 || h.at > latestMoment:
		return fmt.Errorf("its moment is %v: it must be from 0 to %v after the start", h.at, latestMoment)
	case !holders[h.from]:
		return fmt.Errorf("place %d has nothing to give", h.from)
	case slices.ContainsFunc(h.fromItems, func(n uint64) bool { return n > mostItems }):
		return errors.New("it names an item beyond all counting")
	}
	last := s.pattern
	if n := len(s.handovers); n > 0 {
		last = s.handovers[n-1].pattern // those of one loss or of one newcomer are alike
	}
	var err error
	if h.pattern, err = newPattern(m.GetWeights(), last); err != nil {
		return err
	}
	if h.pattern.round != last.round {
		s.seats += h.pattern.cycle
	}
	if s.seats > mostSeats {
		return fmt.Errorf("the weights of all handovers sum up to more than %d: round them with Quantise", mostSeats)
	}
	for _, rank := range h.pattern.ranks {
		holders[rank] = true
	}
	s.handovers = append(s.handovers, h)
	s.changed = min(s.changed, h.at)
	return nil
}

// index lists the handovers by who gives.
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

// owns says whether arrival i of an open loop, due at an offset, is the place's.
func (s *Share) owns(i uint64, due time.Duration) bool {
	if due < s.changed {
		return s.dealt(i)
	}
	rank, k := s.pattern.owner(s.draws.seat(0, i, i, s.pattern.cycle))
	for h := s.following(rank, 0, due); h < len(s.handovers); h = s.following(rank, h+1, due) {
		p := s.handovers[h].pattern
		rank, k = p.owner(s.draws.seat(h+1, i, k, p.cycle))
	}
	return rank == s.rank
}

// count returns how many arrivals from an index to below another are the place's, if all are due when nothing changes
// hands any more.
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

// dealt reports whether arrival i of an open loop is the place's by the weights, before anything changes hands.
func (s *Share) dealt(i uint64) bool {
	return !s.base.Empty() && s.base.has(s.draws.seat(0, i, i, s.base.cycle))
}

// following returns the first handover from h on in which a place gives what is due at an offset: their number if there
// is none.
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
