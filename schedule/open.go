package schedule

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Open is the schedule of an open loop: requests start at its arrivals, whatever the server does. Measure and Revise
// may be called at any time from any goroutine. The other methods are not safe for concurrent use. No method blocks.
//
// It walks through the whole stage's schedule and returns the arrivals at the share's indices. Its memory does not
// depend on their number.
type Open struct {
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

// newOpen returns a schedule at the first arrival.
func newOpen(start process, l limits, s Share, d *draws) *Open {
	s.draws = d
	o := &Open{start: start, share: &s, draws: d}
	o.newest.Store(&s)
	o.from.Store(unheard)
	if l.pending {
		o.longest = l.warmupDuration
	}
	o.rewind(l)
	o.findOwn()
	o.over = s.nothing()
	return o
}

// rewind goes to the first arrival.
func (o *Open) rewind(l limits) {
	o.process, o.progress = o.start.copyTo(o.process), progress{limits: l, quota: l.requests}
	o.index, o.latest = 0, 0
}

// findOwn sets the base stripe's next index from o.index on.
func (o *Open) findOwn() {
	o.changed, o.own = o.share.changed, math.MaxUint64
	switch base := o.share.base; {
	case base.Empty():
	case o.draws != nil:
		o.drawOwn(o.index)
	default:
		o.owned = base.Below(o.index)
		o.own = base.At(o.owned)
	}
}

// nextOwn advances to the base stripe's next index.
func (o *Open) nextOwn() {
	if o.draws != nil {
		o.drawOwn(o.own + 1)
		return
	}
	o.owned++
	o.own = o.share.base.At(o.owned)
}

// drawOwn sets the base stripe's next index to the first one from i on that is drawn for it.
func (o *Open) drawOwn(i uint64) {
	base, seats := &o.share.base, o.draws.of(0)
	for !base.HasSeat(seats.Below(i, base.Cycle())) {
		i++
	}
	o.own = i
}

// Next returns the share's next arrival, and false when the schedule is over. Indices and offsets ascend, except after
// Renew.
//
// With a warm-up until steady, call Next only when the last arrival is about to start: the rest of the schedule is
// known only after Measure was called. A schedule that still waits for Measure returns one arrival beyond
// warmup_until_steady plus MeasureSlack, and is over at the next call.
func (o *Open) Next() (Arrival, bool) {
	o.hear()
	if l := &o.progress.limits; l.pending && o.latest >= l.warmupDuration {
		o.over = true
	}
	if o.latest >= o.marks.due && !o.over {
		o.marks.set(o)
	}
	for !o.over {
		a, more := o.step()
		switch {
		case !more:
			o.over = true
		case a.Offset < o.changed && a.Index != o.own: // the common case: another share's arrival
		case o.mine(a):
			o.kept = a.Index
			return a, true
		case a.Offset >= o.changed:
			o.over = o.share.over(a.Offset)
		}
	}
	o.kept = o.index
	return Arrival{}, false
}

// mine reports whether the next arrival is the share's and was not returned before.
func (o *Open) mine(a Arrival) bool {
	if a.Offset >= o.changed {
		if !o.share.owns(a.Index, a.Offset) {
			return false
		}
	} else {
		o.nextOwn()
	}
	return a.Index >= o.fresh || !o.returned(a)
}

// step returns the next arrival of the whole stage.
func (o *Open) step() (Arrival, bool) {
	offset, err := o.process.next()
	if err != nil {
		o.err = err
		return Arrival{}, false
	}
	unmeasured, more := o.progress.take(o.index, offset)
	if !more {
		return Arrival{}, false
	}
	a := Arrival{Index: o.index, Offset: offset, Unmeasured: unmeasured}
	o.index++
	o.latest = offset
	return a, true
}

// Settle returns an arrival that Next returned earlier, as it must be started now. It returns false if the arrival must
// not be started. A Measure in between may have made the arrival measured, or placed it beyond the end. A Renew in
// between may have given it to another agent. Without a warm-up until steady and without Renew, arrivals do not change.
func (o *Open) Settle(a Arrival) (Arrival, bool) {
	o.hear()
	unmeasured, more := o.progress.recall(a.Index, a.Offset)
	a.Unmeasured = unmeasured
	return a, more && (a.Offset < o.share.changed || o.share.owns(a.Index, a.Offset))
}

// Measure ends a warm-up until steady: arrivals are measured from this offset on, and requests and duration count from
// there. An offset beyond warmup_until_steady plus MeasureSlack is reduced to that. A further call moves the offset, at
// the next Renew; no arrival at either offset or later may have started by then. It returns the offset, and false for
// other loads, which ignore Measure.
func (o *Open) Measure(from time.Duration) (at time.Duration, measures bool) {
	if o.longest == 0 {
		return 0, false
	}
	from = min(max(from, 0), o.longest)
	o.from.Store(int64(from))
	return from, true
}

// moved reports whether Measure was called again after hear had applied it.
func (o *Open) moved() bool {
	l := &o.progress.limits
	return o.longest > 0 && !l.pending && l.warmupDuration != time.Duration(o.from.Load())
}

// hear applies the offset given to Measure, once. If arrivals that have passed turn out to be measured, they are
// counted by walking there again. This is rare: an arrival must have been returned so far ahead of its time that
// Measure came later.
func (o *Open) hear() {
	l := &o.progress.limits
	if !l.pending || o.from.Load() == unheard {
		return
	}
	l.pending, l.warmupDuration = false, time.Duration(o.from.Load())
	if o.latest < l.warmupDuration {
		return
	}
	passed := o.index
	o.rewind(*l)
	for o.index < passed {
		if _, more := o.step(); !more {
			o.over = true
			return
		}
	}
}

// Left returns how many measured arrivals Next would still return, and ends the schedule. It takes a few nanoseconds
// for each remaining arrival of the whole stage. If only a number of requests ends the load, arrivals are counted by
// index, without their times, once nothing changes hands any more and no arrival can have been returned before.
func (o *Open) Left() uint64 {
	left, l := uint64(0), &o.progress.limits
	byIndex := l.requests > 0 && l.duration == 0 && l.warmupDuration == 0 && !l.bounded
	for a, more := o.Next(); more; a, more = o.Next() {
		if a.Unmeasured {
			continue
		}
		left++
		if byIndex && a.Offset >= o.share.settled && a.Index >= o.fresh {
			return left + o.share.count(a.Index+1, l.warmupRequests+l.requests)
		}
	}
	return left
}

// End returns the offset of the last arrival of the whole stage that has passed. After Next has returned false, this is
// the end of the schedule.
func (o *Open) End() time.Duration { return o.latest }

// Err returns why the schedule ended early, nil if it did not. Call it after Next has returned false.
func (o *Open) Err() error {
	if errors.Is(o.err, errOver) {
		return nil
	}
	return o.err
}

// Revise sets the new share, which must come from Share.Revised. It has no effect before Renew.
func (o *Open) Revise(s Share) {
	s.draws = o.draws
	o.newest.Store(&s)
}

// era says what was returned under an earlier share: the share's arrivals below an index.
type era struct {
	share *Share
	below uint64
}

// Renew switches to the share that Revise set, and to an offset that Measure has moved, and reports whether there was
// either. If so, the arrival that Next returned last is taken back. Next then continues with all arrivals of the new
// share that it had not returned before that one, including earlier arrivals that it had passed over. The caller must
// pass other arrivals that Next has returned and that were not started to Settle, and must not start those for which
// Settle returns false. If such an arrival becomes the share's again, Next returns it again.
//
// Renew goes back to where the new handovers begin and walks from there again. If the start of measuring was moved, it
// walks from the schedule's start. Arrivals that have been returned stay returned.
//
// An arrival below an era's end has been returned if it was that share's. It still counts as returned if it has been
// the agent's in all eras since: an arrival that an era takes away is not started, and may come back in a later era. An
// era that does not end after the newest one adds nothing and is dropped.
func (o *Open) Renew() bool {
	s, moved := o.newest.Load(), o.moved()
	if s == o.share && !moved {
		return false
	}
	if moved { // no mark knows the new start of measuring
		o.marks = marks{}
		o.progress.limits.pending, o.progress.limits.warmupDuration = true, o.longest
	}
	kept := o.kept
	o.before = slices.DeleteFunc(o.before, func(e era) bool { return e.below <= kept })
	o.before = append(o.before, era{o.share, kept})
	o.fresh = o.before[0].below // the ends of the remaining eras descend
	from := time.Duration(math.MaxInt64)
	for _, h := range s.handovers[len(o.share.handovers):] {
		from = min(from, h.at)
	}
	o.share = s
	o.goBack(from)
	return true
}

// returned reports whether an arrival of the share was returned and not taken back since.
func (o *Open) returned(a Arrival) bool {
	for _, e := range slices.Backward(o.before) {
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
func (o *Open) goBack(from time.Duration) {
	o.over, o.err = o.share.nothing(), nil
	if m := o.marks.before(from, o.kept); m != nil {
		o.process, o.progress = m.process.copyTo(o.process), m.progress
		o.index, o.latest = m.index, m.latest
	} else {
		o.rewind(o.progress.limits)
	}
	o.kept = o.index // nothing was returned yet under the new share
	o.findOwn()
	o.hear()
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
func (m *marks) set(o *Open) {
	at := &m.list[m.next]
	*at = mark{process: o.process.copyTo(at.process), progress: o.progress, index: o.index, latest: o.latest}
	m.next = (m.next + 1) % mostMarks
	m.due = later(o.latest, markEvery)
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
