package agent

import (
	"sync"
	"time"

	"github.com/spate-load/spate/agent/arrival"
	"github.com/spate-load/spate/agent/timer"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// How far ahead of their start requests are prepared, so that making a long prompt delays no request.
const (
	aheadTime     = 100 * time.Millisecond
	aheadRequests = 64
)

// overdueCheck is how often a loop without a free place looks whether its time is over.
const overdueCheck = 100 * time.Millisecond

// openLoop starts requests at the instants of a schedule, whatever the server does. One goroutine runs it; the requests run on
// workers, which are reused.
type openLoop struct {
	*load
	timer  *timer.Timer
	places chan struct{} // holds one element for each arrival under way
	all    sync.WaitGroup
	last   clock.Instant // last start

	lastMeasured clock.Instant // last start of a measured arrival; 0: none

	next    arrival.Arrival // first arrival that is not ahead
	more    bool            // there is one
	ahead   []*openWorker   // arrivals that are being prepared, in order
	scouted arrival.Arrival // where the scout has come to
	passed  arrival.Arrival // the one before
	scoutOn bool            // it has not come to the end of the schedule

	made int // workers so far

	mu        sync.Mutex
	idle      []*openWorker
	dismissed bool
}

// openWorker is a worker on a goroutine of its own.
type openWorker struct {
	*worker
	arrivals chan arrival.Arrival
	fire     chan order
	at       arrival.Arrival
}

// order is what becomes of an arrival that is prepared.
type order uint8

const (
	drop order = iota
	sendMeasured
	sendUnmeasured
)

// runOpen starts each request of the schedule in its turn. It blocks until the last response has ended.
func (l *load) runOpen() {
	o := &openLoop{load: l, timer: timer.New(l.starting), places: make(chan struct{}, l.maxStreams), last: l.start}
	defer o.timer.Close()
	o.next, o.more = l.open.Next()
	o.scouted, o.scoutOn = l.scout.Next()
	o.prepareAhead(l.start)
	if o.awaitStart(o.timer) {
		o.startAll()
	}
	if err := l.open.Err(); err != nil {
		l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false, "the schedule cannot go on: "+err.Error())
	}
	o.giveUp(clock.Now())
	l.drain(o.last)
	o.all.Wait()
}

// startAll starts requests until the schedule or the time is over.
func (o *openLoop) startAll() {
	for {
		o.prepareAhead(clock.Now())
		if len(o.ahead) == 0 {
			if !o.more || o.timer.Wait(o.due(o.next).Add(-aheadTime)) != nil {
				return
			}
			continue
		}
		w := o.ahead[0]
		if o.timer.Wait(o.due(w.at)) != nil || !o.takePlace() {
			return
		}
		var within bool
		if w.at, within = o.open.Settle(w.at); !within {
			<-o.places
			return
		}
		o.ahead = append(o.ahead[:0], o.ahead[1:]...)
		o.last = clock.Now()
		w.fire <- o.order(w.at)
	}
}

// order says how an arrival is sent, and marks where the measured ones end.
func (o *openLoop) order(a arrival.Arrival) order {
	switch {
	case !a.Unmeasured:
		o.lastMeasured = o.last
		return sendMeasured
	case o.lastMeasured != 0:
		o.cool(o.lastMeasured)
	}
	return sendUnmeasured
}

// due is when an arrival is to start.
func (o *openLoop) due(a arrival.Arrival) clock.Instant { return o.start.Add(a.Offset) }

// prepareAhead hands the arrivals of the near future to workers.
func (o *openLoop) prepareAhead(now clock.Instant) {
	if o.more {
		o.next, o.more = o.open.Settle(o.next)
	}
	for o.more && len(o.ahead) < aheadRequests && o.due(o.next) <= now.Add(aheadTime) {
		w := o.takeWorker()
		w.at = o.following()
		w.arrivals <- w.at
		o.ahead = append(o.ahead, w)
	}
}

// takePlace waits for a place among the requests in flight. It fails when the load is stopped, or when the schedule ended longer
// ago than the drain timeout: then what waits will never be sent.
func (o *openLoop) takePlace() bool {
	select {
	case o.places <- struct{}{}:
		return true
	default:
	}
	check := time.NewTicker(overdueCheck)
	defer check.Stop()
	for {
		select {
		case o.places <- struct{}{}:
			return true
		case <-o.starting.Done():
			return false
		case <-check.C:
			if o.overdue(clock.Now()) {
				return false
			}
		}
	}
}

// overdue says whether the schedule ended longer ago than the drain timeout. The scout walks the schedule up to now, since only
// its last arrival tells when it ends.
func (o *openLoop) overdue(now clock.Instant) bool {
	for o.scoutOn && o.due(o.scouted) <= now {
		if o.scouted, o.scoutOn = o.scout.Settle(o.scouted); !o.scoutOn {
			break
		}
		o.passed = o.scouted
		o.scouted, o.scoutOn = o.scout.Next()
	}
	return !o.scoutOn && now > o.due(o.passed).Add(o.drainTimeout())
}

// giveUp drops what was not started, and owes what of it was due, or is owed whenever it is due.
func (o *openLoop) giveUp(now clock.Instant) {
	for _, w := range o.ahead {
		if o.counted || o.due(w.at) <= now {
			o.oweSettled(w.at)
		}
		w.fire <- drop
	}
	for o.more && o.due(o.next) <= now {
		o.oweSettled(o.following())
	}
	o.oweRest(func() (arrival.Arrival, bool) { more := o.more; return o.following(), more })
	o.ahead = nil
	o.dismiss()
}

// oweSettled owes an arrival if it lies within the schedule.
func (o *openLoop) oweSettled(a arrival.Arrival) {
	if a, within := o.open.Settle(a); within {
		o.owe(a)
	}
}

// following takes the next arrival off the schedule.
func (o *openLoop) following() arrival.Arrival {
	a := o.next
	o.next, o.more = o.open.Next()
	return a
}

// takeWorker returns an idle worker, the one that was busy last if there is any.
func (o *openLoop) takeWorker() *openWorker {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.idle); n > 0 {
		w := o.idle[n-1]
		o.idle = o.idle[:n-1]
		return w
	}
	w := &openWorker{worker: o.newWorker(o.made), arrivals: make(chan arrival.Arrival, 1), fire: make(chan order, 1)}
	o.made++
	o.all.Go(func() { o.serve(w) })
	return w
}

// serve plays the arrivals of a worker until it is dismissed.
func (o *openLoop) serve(w *openWorker) {
	for a := range w.arrivals {
		ready := w.prepare(a)
		if what := <-w.fire; what != drop {
			a.Unmeasured = what == sendUnmeasured
			o.playOne(w, a, ready)
		}
		if !o.release(w) {
			return
		}
	}
}

// playOne plays an arrival that has its place, and gives the place back.
func (o *openLoop) playOne(w *openWorker, a arrival.Arrival, ready bool) {
	defer func() { <-o.places }()
	if !ready {
		o.owe(a)
		return
	}
	w.request.Unmeasured = a.Unmeasured
	w.play(o.due(a))
}

// release makes a worker idle, unless all are dismissed.
func (o *openLoop) release(w *openWorker) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dismissed {
		return false
	}
	o.idle = append(o.idle, w)
	return true
}

// dismiss sends the idle workers home, and the busy ones when they are done.
func (o *openLoop) dismiss() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.idle {
		close(w.arrivals)
	}
	o.dismissed = true
}
