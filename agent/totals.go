package agent

import (
	"strings"
	"time"

	"github.com/spate-load/spate/agent/arrival"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// totals are what the recorder cannot know.
func (l *load) totals() *spatev1.Totals {
	neverSent := l.neverSent()
	l.mu.Lock()
	defer l.mu.Unlock()
	return &spatev1.Totals{
		NeverSent:          neverSent,
		UnsentFromNs:       l.unsentFrom(neverSent),
		SteadyFromNs:       l.offset(l.steadyFrom),
		SteadyToNs:         l.offset(l.steadyTo),
		StartErrorNs:       l.startError.Nanoseconds(),
		ClockUncertaintyNs: l.uncertainty.Nanoseconds(),
		Failure:            strings.ToValidUTF8(l.failure[:min(len(l.failure), measure.MaxReason)], ""),
		FailureKind:        l.failureKind,
		Stopped:            l.stopped,
	}
}

// neverSent counts the measured requests that were owed and not sent: of arrivals that were not begun, and the later
// turns of sessions that broke off. A load that has measured enough owes only what a failure kept from being sent.
func (l *load) neverSent() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.orphaned.Load()
	if l.enough {
		return n
	}
	return n + l.cutOff.Load() + l.unbegun.requests + l.left()*l.unbegun.each()
}

// left is how many of the measured arrivals that a load must begin were neither begun nor owed, 0 if their number is
// not known. l.mu is locked.
func (l *load) left() uint64 {
	var owed uint64
	switch {
	case !l.counted:
		return 0
	case l.closed != nil:
		owed = l.closed.Owed()
	case l.restUnknown():
		return l.rest
	default:
		owed, _ = arrival.Owed(l.stage.GetLoad(), l.part)
	}
	return owed - min(l.arrivals.Load()+l.unbegun.arrivals, owed)
}

// unsentFrom is when the first request was due that was never sent, nil if it is not known or there is none. l.mu is
// locked.
func (l *load) unsentFrom(neverSent uint64) *int64 {
	if neverSent == 0 || !l.unsent.known {
		return nil
	}
	ns := l.unsent.from.Nanoseconds()
	return &ns
}

// firstUnsent is when the first measured arrival of an open loop was due that was not begun. Its zero value knows of
// none.
type firstUnsent struct {
	from  time.Duration
	known bool
}

// add takes in an arrival that was not begun, if it is a measured one.
func (u *firstUnsent) add(a arrival.Arrival) {
	switch {
	case a.Unmeasured:
	case !u.known:
		u.from, u.known = a.Offset, true
	default:
		u.from = min(u.from, a.Offset)
	}
}

// debt is arrivals that were not begun, and their requests.
type debt struct{ arrivals, requests uint64 }

// each is how many requests an arrival has on average, 1 if that is not known.
func (d debt) each() uint64 { return max(d.requests/max(d.arrivals, 1), 1) }

// owe counts an arrival that will not be begun, if it is a measured one.
func (l *load) owe(a arrival.Arrival) {
	if a.Unmeasured {
		return
	}
	requests := l.turns(a.Index)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unbegun.arrivals++
	l.unbegun.requests += requests
	if l.closed == nil {
		l.unsent.add(a)
	}
}

// turns is the number of an arrival's requests. One that cannot be read counts as one.
func (l *load) turns(index uint64) uint64 {
	if !l.sessions {
		return 1
	}
	ask, err := l.content.Ask(index, 0)
	if err != nil {
		return 1
	}
	return uint64(max(ask.Turns, 1))
}

// walkLimit is how many arrivals of a schedule that was given up are looked at.
const walkLimit = 1 << 20

// oweRest counts the requests of the sessions that a schedule still holds when it is given up. Beyond the limit
// sessions are taken to be as long as those before them on average: a count of millions must not hold up the totals.
func (l *load) oweRest(next func() (arrival.Arrival, bool)) {
	for range walkLimit {
		if !l.owesSessions() {
			return
		}
		a, more := next()
		if !more {
			return
		}
		l.owe(a)
	}
}

// owesSessions says whether there are sessions left whose requests are to be counted.
func (l *load) owesSessions() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions && !l.enough && (l.left() > 0 || l.restUnknown())
}

// restUnknown reports whether only the rest of the schedule tells how many measured arrivals are still the agent's:
// those of an open loop that has a number of them, and draws their agents or hands them over by their times.
func (l *load) restUnknown() bool {
	if !l.counted || l.closed != nil {
		return false
	}
	_, known := arrival.Owed(l.stage.GetLoad(), l.part)
	return !known
}

// offset is an instant since the start, nil for one that did not come, or came before it.
func (l *load) offset(at clock.Instant) *int64 {
	if at < l.start {
		return nil
	}
	ns := at.Sub(l.start).Nanoseconds()
	return &ns
}
