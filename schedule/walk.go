package schedule

import (
	"errors"
	"math"
	"sync/atomic"
	"time"
)

// walk goes through the whole stage's schedule and returns the arrivals at the share's indices. Its memory does not
// depend on their number.
type walk struct {
	start    process // at its start
	process  process
	progress progress
	share    *Share
	draws    *draws        // random draws; nil: arrivals are dealt in turn
	index    uint64        // index of the next arrival
	changed  time.Duration // share.changed
	own      uint64        // the base stripe's next index; none: math.MaxUint64
	owned    uint64        // passed indices of the base stripe, if dealt in turn
	latest   time.Duration // offset of the last arrival that has passed
	kept     uint64        // arrivals below it that were returned are not taken back
	fresh    uint64        // arrivals from this index on were not returned before
	before   []era         // eras of earlier shares
	marks    marks
	over     bool
	err      error
	from     atomic.Int64 // offset given to Measure; unheard: not called

	newest atomic.Pointer[Share] // share given to Revise
}

// unheard means that Measure was not called.
const unheard = -1

// newWalk returns a walk at the first arrival.
func newWalk(start process, l limits, s Share, d *draws) *walk {
	s.draws = d
	w := &walk{start: start, share: &s, draws: d}
	w.newest.Store(&s)
	w.from.Store(unheard)
	w.begin(l)
	w.findOwn()
	w.over = s.nothing()
	return w
}

// begin goes to the first arrival.
func (w *walk) begin(l limits) {
	w.process, w.progress = w.start.copyTo(w.process), progress{limits: l, quota: l.requests}
	w.index, w.latest = 0, 0
}

// findOwn sets the base stripe's next index from w.index on.
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

// nextOwn advances to the base stripe's next index.
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
	for !base.HasSeat(seats.Below(i, base.Cycle())) {
		i++
	}
	w.own = i
}

// Next returns the share's next arrival.
func (w *walk) Next() (Arrival, bool) {
	w.hear()
	if l := &w.progress.limits; l.pending && w.latest >= l.warmupDuration {
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
		case a.Offset < w.changed && a.Index != w.own: // the common case: another share's arrival
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

// mine reports whether the next arrival is the share's and was not returned before.
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
	unmeasured, more := w.progress.take(w.index, offset)
	if !more {
		return Arrival{}, false
	}
	a := Arrival{Index: w.index, Offset: offset, Unmeasured: unmeasured}
	w.index++
	w.latest = offset
	return a, true
}

// Settle returns an arrival as it must be started now, and false if it must not be.
func (w *walk) Settle(a Arrival) (Arrival, bool) {
	w.hear()
	unmeasured, more := w.progress.recall(a.Index, a.Offset)
	a.Unmeasured = unmeasured
	return a, more && (a.Offset < w.share.changed || w.share.owns(a.Index, a.Offset))
}

// Measure sets the offset from which arrivals are measured.
func (w *walk) Measure(from time.Duration) { w.from.CompareAndSwap(unheard, int64(max(from, 0))) }

// hear applies the offset given to Measure, once. If arrivals that have passed turn out to be measured, they are
// counted by walking there again. This is rare: an arrival must have been returned so far ahead of its time that
// Measure came later.
func (w *walk) hear() {
	l := &w.progress.limits
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

// Left counts the measured arrivals that Next has not returned. Once nothing changes hands any more and no arrival can
// have been returned before, arrivals are counted by index, without their times.
func (w *walk) Left() uint64 {
	left, l := uint64(0), &w.progress.limits
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

// Revise sets the new share, for Renew.
func (w *walk) Revise(s Share) {
	s.draws = w.draws
	w.newest.Store(&s)
}
