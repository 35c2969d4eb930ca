package schedule

import (
	"math"
	"slices"
	"time"
)

// era says what was returned under an earlier share: the share's arrivals below an index.
type era struct {
	share *Share
	below uint64
}

// Renew switches to the newest share. It goes back to where the new handovers begin and walks from there again.
// Arrivals that have been returned stay returned.
//
// An arrival below an era's end has been returned if it was that share's. It still counts as returned if it has been
// the agent's in all eras since: an arrival that an era takes away is not started, and may come back in a later era. An
// era that does not end after the newest one adds nothing and is dropped.
func (w *walk) Renew() bool {
	s := w.newest.Load()
	if s == w.share {
		return false
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
		w.begin(w.progress.limits)
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
