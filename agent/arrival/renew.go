package arrival

import (
	"math"
	"slices"
	"time"
)

// era is what was returned under an earlier share: its arrivals below an index.
type era struct {
	share *Share
	below uint64
}

// Renew takes in the newest share. It goes back to where the new handovers begin and walks there again; what has been
// returned stays so.
//
// An arrival below an era's end has been returned if it was that share's, and it still counts as returned if it has
// stayed the agent's in all eras since: what an era takes away is not started, and may come back in a later one. An era
// that ends before a later one adds nothing to it.
func (w *walk) Renew() bool {
	s := w.newest.Load()
	if s == w.share {
		return false
	}
	kept := w.kept
	w.before = slices.DeleteFunc(w.before, func(e era) bool { return e.below <= kept })
	w.before = append(w.before, era{w.share, kept})
	w.fresh = w.before[0].below // eras that are left end one before the other
	from := time.Duration(math.MaxInt64)
	for _, h := range s.handovers[len(w.share.handovers):] {
		from = min(from, h.at)
	}
	w.share = s
	w.goBack(from)
	return true
}

// returned says whether an arrival of the share was returned and not taken back since.
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

// goBack goes to an arrival before the first one that is due at an offset or was taken back.
func (w *walk) goBack(from time.Duration) {
	w.over, w.err = w.share.nothing(), nil
	if m := w.marks.before(from, w.kept); m != nil {
		w.process, w.course = m.process.copyTo(w.process), m.course
		w.index, w.latest = m.index, m.latest
	} else {
		w.begin(w.course.limits)
	}
	w.kept = w.index // under the new share nothing was returned yet
	w.findOwn()
	w.hear()
}

// How often a walk keeps a mark to go back to, and how many of them: a revision that is later than all of them costs a
// walk from the begin, some 10 ns for each arrival of the whole stage.
const (
	markEvery = time.Second
	mostMarks = 16
)

// marks are the states of a walk at its latest seconds, in a ring.
type marks struct {
	list [mostMarks]mark
	next int           // place of the next one
	due  time.Duration // when it is to be set
}

// mark is the state of a walk between two arrivals.
type mark struct {
	process process
	course  course
	index   uint64
	latest  time.Duration
}

// set keeps the state of the walk.
func (m *marks) set(w *walk) {
	at := &m.list[m.next]
	*at = mark{process: w.process.copyTo(at.process), course: w.course, index: w.index, latest: w.latest}
	m.next = (m.next + 1) % mostMarks
	m.due = later(w.latest, markEvery)
}

// before returns the latest mark before an offset and not behind an index, nil if there is none.
func (m *marks) before(from time.Duration, index uint64) (latest *mark) {
	for i := range m.list {
		at := &m.list[i]
		if at.process != nil && at.latest < from && at.index <= index && (latest == nil || at.index > latest.index) {
			latest = at
		}
	}
	return latest
}

// copied copies a process into the memory of an earlier copy, if there is one of its kind.
func copied[T any](p *T, used any) *T {
	to, _ := used.(*T)
	if to == nil {
		to = new(T)
	}
	*to = *p
	return to
}
