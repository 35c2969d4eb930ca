package arrival

import (
	"errors"
	"math"
	"sync/atomic"
	"time"
)

// walk goes through the whole stage's schedule and stops at the share's indices. It takes the same memory for any
// number of them.
type walk struct {
	source  source
	process process
	course  course
	share   *Share
	draws   *draws        // of all shares; nil: arrivals are dealt out in turn
	index   uint64        // of the arrival that comes next
	changed time.Duration // of the share
	own     uint64        // the base stripe's next index; none: math.MaxUint64
	owned   uint64        // indices of the base stripe that have passed, if they are dealt out
	latest  time.Duration // offset of the last arrival that has passed
	kept    uint64        // arrivals below it that were returned are not taken back
	fresh   uint64        // no arrival from here on was returned
	before  []era         // of earlier shares
	marks   marks
	over    bool
	err     error
	from    atomic.Int64 // what Measure said; unheard: nothing

	newest atomic.Pointer[Share] // what Revise said
}

// unheard is no offset.
const unheard = -1

// newWalk begins at the first arrival.
func newWalk(src source, l limits, s Share, d *draws) *walk {
	s.draws = d
	w := &walk{source: src, share: &s, draws: d}
	w.newest.Store(&s)
	w.from.Store(unheard)
	w.begin(l)
	w.findOwn()
	w.over = s.nothing()
	return w
}

// begin goes to the first arrival.
func (w *walk) begin(l limits) {
	w.process, w.course = w.source(), course{limits: l, quota: l.requests}
	w.index, w.latest = 0, 0
}

// findOwn sets the base stripe's next index.
func (w *walk) findOwn() {
	w.changed, w.own = w.share.changed, math.MaxUint64
	switch base := w.share.base; {
	case base.Empty():
	case w.draws != nil:
		w.drawOwn(w.index)
	default:
		w.owned = base.Below(w.index)
		w.own = base.At(w.owned)
	}
}

// nextOwn goes on to the base stripe's next index.
func (w *walk) nextOwn() {
	if w.draws != nil {
		w.drawOwn(w.own + 1)
		return
	}
	w.owned++
	w.own = w.share.base.At(w.owned)
}

// drawOwn sets the base stripe's next index to the first one from i on that is drawn for it.
func (w *walk) drawOwn(i uint64) {
	base, seats := &w.share.base, w.draws.of(0)
	for !base.hasSeat(seats.Below(i, base.cycle)) {
		i++
	}
	w.own = i
}

// Next returns the share's next arrival.
func (w *walk) Next() (Arrival, bool) {
	w.hear()
	if l := &w.course.limits; l.pending && w.latest >= l.warmupDuration {
		w.over = true
	}
	if w.latest >= w.marks.due && !w.over {
		w.marks.set(w)
	}
	for !w.over {
		a, more := w.step()
		switch {
		case !more:
			w.over = true
		case a.Offset < w.changed && a.Index != w.own: // nearly all arrivals of a large stage are others'
		case w.mine(a):
			w.kept = a.Index
			return a, true
		case a.Offset >= w.changed:
			w.over = w.share.over(a.Offset)
		}
	}
	w.kept = w.index
	return Arrival{}, false
}

// mine says whether an arrival that comes is the share's, and was not returned before.
func (w *walk) mine(a Arrival) bool {
	if a.Offset >= w.changed {
		if !w.share.owns(a.Index, a.Offset) {
			return false
		}
	} else {
		w.nextOwn()
	}
	return a.Index >= w.fresh || !w.returned(a)
}

// step returns the next arrival of the whole stage.
func (w *walk) step() (Arrival, bool) {
	offset, err := w.process.next()
	if err != nil {
		w.err = err
		return Arrival{}, false
	}
	unmeasured, more := w.course.take(w.index, offset)
	if !more {
		return Arrival{}, false
	}
	a := Arrival{Index: w.index, Offset: offset, Unmeasured: unmeasured}
	w.index++
	w.latest = offset
	return a, true
}

// Settle returns an arrival as it is to be started.
func (w *walk) Settle(a Arrival) (Arrival, bool) {
	w.hear()
	unmeasured, more := w.course.recall(a.Index, a.Offset)
	a.Unmeasured = unmeasured
	return a, more && (a.Offset < w.share.changed || w.share.owns(a.Index, a.Offset))
}

// Measure says from when on arrivals are measured.
func (w *walk) Measure(from time.Duration) { w.from.CompareAndSwap(unheard, int64(max(from, 0))) }

// hear takes in what Measure said, once. Arrivals that have passed and turn out to be measured ones are counted by
// walking there again: it is the rare case, of an arrival so far ahead that it was asked for before Measure came.
func (w *walk) hear() {
	l := &w.course.limits
	if !l.pending || w.from.Load() == unheard {
		return
	}
	l.pending = false
	l.warmupDuration = min(time.Duration(w.from.Load()), l.warmupDuration)
	if w.latest < l.warmupDuration {
		return
	}
	passed := w.index
	w.begin(*l)
	for w.index < passed {
		if _, more := w.step(); !more {
			w.over = true
			return
		}
	}
}

// Left counts the measured arrivals that Next has not returned. Once nothing changes hands any more and none can have
// been returned before, the times of arrivals do not matter: they are counted by their indices.
func (w *walk) Left() uint64 {
	left, l := uint64(0), &w.course.limits
	for a, more := w.Next(); more; a, more = w.Next() {
		if a.Unmeasured {
			continue
		}
		left++
		if !l.bounded && a.Offset >= w.share.settled && a.Index >= w.fresh {
			return left + w.share.count(a.Index+1, l.warmupRequests+l.requests)
		}
	}
	return left
}

// End returns the offset of the last arrival that has passed.
func (w *walk) End() time.Duration { return w.latest }

// Err returns why the schedule ended before its end.
func (w *walk) Err() error {
	if errors.Is(w.err, errOver) {
		return nil
	}
	return w.err
}

// Revise says what the share is from now on.
func (w *walk) Revise(s Share) {
	s.draws = w.draws
	w.newest.Store(&s)
}
