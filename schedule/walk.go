package schedule

import (
	"errors"
	"math"
	"slices"
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
	longest  time.Duration // latest offset that Measure may set; 0: no warm-up until steady
	from     atomic.Int64  // offset given to Measure; unheard: not called

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
	if l.pending {
		w.longest = l.warmupDuration
	}
	w.rewind(l)
	w.findOwn()
	w.over = s.nothing()
	return w
}

// rewind goes to the first arrival.
func (w *walk) rewind(l limits) {
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

// Measure sets the offset from which arrivals are measured, or moves it.
func (w *walk) Measure(from time.Duration) (at time.Duration, measures bool) {
	if w.longest == 0 {
		return 0, false
	}
	from = min(max(from, 0), w.longest)
	w.from.Store(int64(from))
	return from, true
}

// moved reports whether Measure was called again after hear had applied it.
func (w *walk) moved() bool {
	l := &w.progress.limits
	return w.longest > 0 && !l.pending && l.warmupDuration != time.Duration(w.from.Load())
}

// hear applies the offset given to Measure, once. If arrivals that have passed turn out to be measured, they are
// counted by walking there again. This is rare: an arrival must have been returned so far ahead of its time that
// Measure came later.
func (w *walk) hear() {
	l := &w.progress.limits
	if !l.pending || w.from.Load() == unheard {
		return
	}
	l.pending, l.warmupDuration = false, time.Duration(w.from.Load())
	if w.latest < l.warmupDuration {
		return
	}
	passed := w.index
	w.rewind(*l)
	for w.index < passed {
		if _, more := w.step(); !more {
			w.over = true
			return
		}
	}
}

// Left counts the measured arrivals that Next has not returned. If only a number of requests ends the load, arrivals
// are counted by index, without their times, once nothing changes hands any more and no arrival can have been returned
// before.
func (w *walk) Left() uint64 {
	left, l := uint64(0), &w.progress.limits
	byIndex := l.requests > 0 && l.duration == 0 && l.warmupDuration == 0 && !l.bounded
	for a, more := w.Next(); more; a, more = w.Next() {
		if a.Unmeasured {
			continue
		}
		left++
		if byIndex && a.Offset >= w.share.settled && a.Index >= w.fresh {
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

// era says what was returned under an earlier share: the share's arrivals below an index.
type era struct {
	share *Share
	below uint64
}

// Renew switches to the newest share. It goes back to where the new handovers begin and walks from there again. If the
// start of measuring was moved, it walks from the schedule's start. Arrivals that have been returned stay returned.
//
// An arrival below an era's end has been returned if it was that share's. It still counts as returned if it has been
// the agent's in all eras since: an arrival that an era takes away is not started, and may come back in a later era. An
// era that does not end after the newest one adds nothing and is dropped.
func (w *walk) Renew() bool {
	s, moved := w.newest.Load(), w.moved()
	if s == w.share && !moved {
		return false
	}
	if moved { // no mark knows the new start of measuring
		w.marks = marks{}
		w.progress.limits.pending, w.progress.limits.warmupDuration = true, w.longest
	}
	kept := w.kept
	w.before = slices.DeleteFunc(w.before, func(e era) bool { return e.below <= kept })
	w.before = append(w.before, era{w.share, kept})
	w.fresh = w.before[0].below // the ends of the remaining eras descend
	from := time.Duration(math.MaxInt64)
	for _, h := range s.handovers[len(w.share.handovers):] {
		from = min(from, h.at)
	}
	w.share = s
	w.goBack(from)
	return true
}

// returned reports whether an arrival of the share was returned and not taken back since.
func (w *walk) returned(a Arrival) bool {
	for _, e := range slices.Backward(w.before) {
		if !e.share.owns(a.Index, a.Offset) {
			return false
		}
		if a.Index < e.below {
			return true
		}
	}
	return false
}

// goBack goes back to a state before the first arrival that is due at an offset or later, or that was taken back.
func (w *walk) goBack(from time.Duration) {
	w.over, w.err = w.share.nothing(), nil
	if m := w.marks.before(from, w.kept); m != nil {
		w.process, w.progress = m.process.copyTo(w.process), m.progress
		w.index, w.latest = m.index, m.latest
	} else {
		w.rewind(w.progress.limits)
	}
	w.kept = w.index // nothing was returned yet under the new share
	w.findOwn()
	w.hear()
}

// How often a walk keeps a mark to which it can go back, and how many marks it keeps. A revision that goes back further
// than all marks costs a walk from the start, some 10 ns for each arrival of the whole stage.
const (
	markEvery = time.Second
	mostMarks = 16
)

// marks holds the states of a walk in its last seconds, in a ring.
type marks struct {
	list [mostMarks]mark
	next int           // position of the next mark
	due  time.Duration // when the next mark is set
}

// mark is the state of a walk between two arrivals.
type mark struct {
	process  process
	progress progress
	index    uint64
	latest   time.Duration
}

// set stores the current state of the walk.
func (m *marks) set(w *walk) {
	at := &m.list[m.next]
	*at = mark{process: w.process.copyTo(at.process), progress: w.progress, index: w.index, latest: w.latest}
	m.next = (m.next + 1) % mostMarks
	m.due = later(w.latest, markEvery)
}

// before returns the latest mark before an offset and not after an index, nil if there is none.
func (m *marks) before(from time.Duration, index uint64) (latest *mark) {
	for i := range m.list {
		at := &m.list[i]
		if at.process != nil && at.latest < from && at.index <= index && (latest == nil || at.index > latest.index) {
			latest = at
		}
	}
	return latest
}

// copied returns a copy of a process. It reuses the memory of used if that is of the same type.
func copied[T any](p *T, used any) *T {
	to, _ := used.(*T)
	if to == nil {
		to = new(T)
	}
	*to = *p
	return to
}
