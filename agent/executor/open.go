package executor

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/kernel"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
)

// How far ahead of their start requests are prepared, so that building a long prompt does not delay a request.
const (
	aheadTime     = 100 * time.Millisecond
	aheadRequests = 64
)

// overdueCheck is how often a loop without a free place checks whether its time is over.
const overdueCheck = 100 * time.Millisecond

// openLoop starts requests at the instants of a schedule, whatever the server does. One goroutine runs the loop;
// requests run on workers, which are reused.
type openLoop struct {
	*Load
	timer         *kernel.Timer
	places        *places       // one is taken by each arrival under way
	workerStarted chan struct{} // signals that an awaited worker has started
	revisions     chan struct{} // signals that the stripe was revised
	workers       sync.WaitGroup
	last          clock.Instant // last start

	lastMeasured clock.Instant // last start of a measured arrival; 0: none

	next     schedule.Arrival // first arrival that is not in ahead
	more     bool             // next is valid
	ahead    []*openWorker    // arrivals being prepared, in order
	scouted  schedule.Arrival // the scout's position
	passed   schedule.Arrival // latest arrival that the scout has passed
	scouting bool             // the scout has not reached the end of the schedule

	workerCount int // number of workers
	noticed     func(data []byte, at, seen clock.Instant)

	mu           sync.Mutex
	idle         []*openWorker
	workersEnded bool
}

// runOpen starts each request of the schedule at its time. It blocks until the last response has ended.
func (l *Load) runOpen() {
	o := &openLoop{
		Load: l, timer: l.newTimer(l.starting), last: l.start,
		workerStarted: make(chan struct{}, 1), revisions: make(chan struct{}, 1),
	}
	defer o.timer.Close()
	l.alarm.Store(o.timer)
	o.noticed = func(_ []byte, _, seen clock.Instant) { o.timer.Notice(seen) }
	o.open()
	defer o.setRevised(nil)
	o.next, o.more = l.Open.Next()
	o.scouted, o.scouting = l.Scout.Next()
	o.prepareAhead(o.begins())
	if o.awaitStart(o.timer, func() { o.applyRevision(); o.prepareAhead(o.begins()) }) {
		for more := true; more; {
			more = o.startAll() && o.awaitEnd()
		}
	}
	if err := l.Open.Err(); err != nil {
		l.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false, "the schedule cannot continue: "+err.Error())
	}
	o.dropRest(clock.Now())
	l.drain(o.last)
	o.workers.Wait()
}

// open makes the places, which revisions of the stripe change from then on.
func (o *openLoop) open() {
	o.revising.Lock()
	defer o.revising.Unlock()
	planned := o.Assigned.GetLoad().GetMaxInFlight() > 0
	o.places, o.revised = &places{planned: planned, most: o.MaxStreams, freed: make(chan struct{}, 1)}, o.wake
}

// wake wakes the loop because the stripe was revised. With arrivals, an agent also takes over their places.
func (o *openLoop) wake() {
	o.places.grow(o.MaxStreams, clock.Now())
	o.timer.Wake()
	notify(o.revisions)
}

// notify signals on a channel that holds one element, unless a signal is pending.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// startAll starts requests until the schedule or the time is over. It reports whether it was the schedule.
//
// It starts everything that is due, one request after the other, before it prepares anything that is not. Each request
// has been handed to the kernel, or waits for a connection, before the next is looked at. Other goroutines run when
// nothing is due.
func (o *openLoop) startAll() bool {
	for {
		o.applyRevision()
		at, more := o.upcoming()
		if !more {
			return true
		}
		if err := o.timer.WaitAwake(at); err != nil && !errors.Is(err, kernel.ErrWoken) {
			return false
		}
		now := clock.Now()
		o.applyRevision()
		if !o.anyDue(now) {
			o.prepareAhead(now)
			continue
		}
		free, ok := o.takePlace()
		if !ok {
			return false
		}
		if !o.fire(free) {
			return true
		}
		if !o.anyDue(now) {
			o.prepareAhead(now)
		}
	}
}

// anyDue reports whether the first arrival in ahead is due.
func (o *openLoop) anyDue(now clock.Instant) bool {
	return len(o.ahead) > 0 && now >= o.due(o.ahead[0].at)
}

// upcoming returns when there is something to do: an arrival to start or to prepare, or the end of the schedule if
// arrivals may still be taken over before it. It returns false if there is nothing more to do.
func (o *openLoop) upcoming() (at clock.Instant, more bool) {
	switch {
	case len(o.ahead) > 0:
		return o.due(o.ahead[0].at), true
	case o.more:
		return o.due(o.next).Add(-aheadTime), true
	default:
		at = o.start.Add(o.Open.End())
		return at, o.Assigned.GetOnAgentLoss() == "reassign" && !o.leaves() && clock.Now() < at
	}
}

// fire starts the first arrival in ahead, which already holds a place that was free since an instant, if the arrival
// still belongs to the agent. It reports whether the schedule continues.
//
// It waits until a ready worker has started. The scheduler then runs the worker at once, and next, as soon as the
// worker waits for the network, the loop that waited for it. So goroutines that read responses come after everything
// that is due.
func (o *openLoop) fire(free clock.Instant) (more bool) {
	w, more := o.dispatch(free)
	if w != nil && w.awaited {
		<-o.workerStarted
	}
	return more
}

// dispatch tells the worker of the first arrival in ahead to send it. It returns no worker, and gives the place back,
// if the arrival is not to be sent.
func (o *openLoop) dispatch(free clock.Instant) (told *openWorker, more bool) {
	o.revising.Lock()
	defer o.revising.Unlock()
	w := o.ahead[0]
	if o.applyRevision() {
		o.places.give(free)
		return nil, true
	}
	var within bool
	if w.at, within = o.Open.Settle(w.at); !within {
		o.places.give(free)
		return nil, false
	}
	o.ahead = append(o.ahead[:0], o.ahead[1:]...)
	o.last, o.sent = clock.Now(), max(o.sent, w.at.Offset)
	w.free, w.awaited = free, w.prepared.Load()
	w.fire <- o.commandFor(w.at)
	return w, true
}

// applyRevision applies a revision of the stripe, and reports whether there was one. It drops prepared arrivals that no
// longer belong to the agent. Arrivals newly taken over come in their turn.
func (o *openLoop) applyRevision() bool {
	if !o.Open.Renew() {
		return false
	}
	o.ahead = slices.DeleteFunc(o.ahead, func(w *openWorker) bool {
		_, within := o.Open.Settle(w.at)
		if !within {
			w.fire <- drop
		}
		return !within
	})
	o.next, o.more = o.Open.Next()
	if o.Scout.Renew() {
		o.scouted, o.scouting = o.Scout.Next()
	}
	return true
}

// awaitEnd waits for the last arrivals once the schedule is over. It reports whether something was taken over before
// they ended; if not, nothing can be any more.
func (o *openLoop) awaitEnd() bool {
	if o.leaves() { // the stage is not over: what is in flight has all its time
		o.Load.mu.Lock()
		o.steadyUntil(o.last)
		o.Load.mu.Unlock()
	} else {
		o.drain(o.last)
	}
	for {
		if tookOver, over := o.checkEnd(); over {
			return tookOver
		}
		select {
		case <-o.places.freed:
		case <-o.revisions:
		}
	}
}

// checkEnd reports whether something was taken over, or else whether the last arrival has ended.
func (o *openLoop) checkEnd() (tookOver, over bool) {
	o.revising.Lock()
	defer o.revising.Unlock()
	if o.applyRevision() && (o.more || len(o.ahead) > 0) && o.reopen() {
		return true, true
	}
	o.ended = o.places.allFree()
	return false, o.ended
}

// commandFor returns how an arrival is sent, and marks where the measured arrivals end.
func (o *openLoop) commandFor(a schedule.Arrival) command {
	switch {
	case !a.Unmeasured:
		o.lastMeasured = o.last
		return sendMeasured
	case o.lastMeasured != 0:
		o.coolDown(o.lastMeasured)
	}
	return sendUnmeasured
}

// due returns when an arrival is due.
func (o *openLoop) due(a schedule.Arrival) clock.Instant { return o.start.Add(a.Offset) }

// prepareAhead hands the arrivals of the near future to workers.
func (o *openLoop) prepareAhead(now clock.Instant) {
	if o.more {
		o.next, o.more = o.Open.Settle(o.next)
	}
	for o.more && o.due(o.next) <= now.Add(aheadTime) {
		place := o.placeAhead()
		if place >= aheadRequests {
			return
		}
		w := o.takeWorker()
		w.at = o.following()
		w.arrivals <- w.at
		o.ahead = slices.Insert(o.ahead, place, w)
	}
}

// placeAhead returns where the next arrival belongs in ahead: at the end, unless it was taken over late.
func (o *openLoop) placeAhead() int {
	place := len(o.ahead)
	for place > 0 && o.ahead[place-1].at.Index > o.next.Index {
		place--
	}
	return place
}

// takePlace waits for a place among the requests in flight, and returns since when it was free, see places.take. It
// returns false when the load is stopped, or when arrivals that still wait are overdue: these are never sent.
func (o *openLoop) takePlace() (free clock.Instant, ok bool) {
	if free, ok = o.places.take(); ok {
		return free, true
	}
	o.prepareAhead(clock.Now())
	check := time.NewTicker(overdueCheck)
	defer check.Stop()
	for {
		select {
		case <-o.places.freed:
			if o.places.planned && o.overdue(clock.Now()) {
				return 0, false
			}
			if free, ok = o.places.take(); ok {
				return free, true
			}
		case <-o.starting.Done():
			return 0, false
		case <-check.C:
			if o.overdue(clock.Now()) {
				return 0, false
			}
		}
	}
}

// overdue reports whether the schedule ended longer ago than the drain timeout. For a load that the plan holds back and
// that ends by its requests, the time counts from the last freed place, because all its requests must be sent. The
// scout walks the schedule up to now, because only its last arrival tells when it ends.
func (o *openLoop) overdue(now clock.Instant) bool {
	for o.scouting && o.due(o.scouted) <= now {
		if o.scouted, o.scouting = o.Scout.Settle(o.scouted); !o.scouting {
			break
		}
		if o.scouted.Offset > o.passed.Offset {
			o.passed = o.scouted
		}
		o.scouted, o.scouting = o.Scout.Next()
	}
	end := o.due(o.passed)
	if load := o.Assigned.GetLoad(); o.places.planned && load.GetRequests() > 0 && load.GetDuration() == nil {
		end = max(end, o.places.lastFreed())
	}
	return !o.scouting && now > end.Add(o.drainTimeout())
}

// dropRest drops all arrivals that were not started. It counts those that were due as never sent, and all of them if
// countsRest. Nothing can be taken over any more.
func (o *openLoop) dropRest(now clock.Instant) {
	o.revising.Lock()
	o.applyRevision()
	o.ended = true
	o.revising.Unlock()
	o.Load.mu.Lock()
	all := o.countsRest()
	o.Load.mu.Unlock()
	for _, w := range o.ahead {
		if all || o.due(w.at) <= now {
			o.countIfNeverSent(w.at)
		}
		w.fire <- drop
	}
	for o.more && o.due(o.next) <= now {
		o.countIfNeverSent(o.following())
	}
	o.noteRest()
	o.countRestNeverSent(func() (schedule.Arrival, bool) { more := o.more; return o.following(), more })
	o.countRest()
	o.ahead = nil
	o.endWorkers()
}

// noteRest notes when the first arrival left in the schedule is due, if the load was cut short or must count it as
// never sent although it is not due yet.
func (o *openLoop) noteRest() {
	o.Load.mu.Lock()
	defer o.Load.mu.Unlock()
	if o.more && (o.cutShort || o.countsRest()) {
		o.neverStarted.noteDue(o.next.Offset)
	}
}

// countRest counts the measured arrivals left in the schedule, if only the schedule tells their number.
func (o *openLoop) countRest() {
	if !o.mustWalkRest() {
		return
	}
	rest := o.Open.Left()
	if !o.next.Unmeasured {
		rest++
	}
	o.more = false
	o.Load.mu.Lock()
	defer o.Load.mu.Unlock()
	o.rest = rest
}

// mustWalkRest reports whether the schedule has arrivals left that only it can count.
func (o *openLoop) mustWalkRest() bool {
	o.Load.mu.Lock()
	defer o.Load.mu.Unlock()
	return o.more && o.restUnknown()
}

// countIfNeverSent counts an arrival as never sent if it lies within the schedule.
func (o *openLoop) countIfNeverSent(a schedule.Arrival) {
	if a, within := o.Open.Settle(a); within {
		o.countNeverSent(a)
	}
}

// following takes the next arrival from the schedule.
func (o *openLoop) following() schedule.Arrival {
	a := o.next
	o.next, o.more = o.Open.Next()
	return a
}
