package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
)

// openWorker is a worker on a goroutine of its own.
type openWorker struct {
	*worker
	arrivals chan schedule.Arrival
	fire     chan command
	at       schedule.Arrival
	free     clock.Instant // since when the place of the arrival was free
	prepared atomic.Bool   // ready to be sent
	awaited  bool          // the loop waits until this worker has started
}

// command says what happens to a prepared arrival.
type command uint8

const (
	drop command = iota
	sendMeasured
	sendUnmeasured
)

// takeWorker returns an idle worker, the one that was busy most recently, or a new one.
func (o *openLoop) takeWorker() *openWorker {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.idle); n > 0 {
		w := o.idle[n-1]
		o.idle = o.idle[:n-1]
		return w
	}
	w := &openWorker{
		worker:   o.newWorker(o.workerCount),
		arrivals: make(chan schedule.Arrival, 1),
		fire:     make(chan command, 1),
	}
	w.onFrame = chainOnFrame(w.onFrame, o.noticed)
	o.workerCount++
	o.workers.Go(func() { o.serve(w) })
	return w
}

// serve plays a worker's arrivals until the worker is dismissed.
func (o *openLoop) serve(w *openWorker) {
	for a := range w.arrivals {
		ready := w.prepare(a)
		w.prepared.Store(true)
		o.timer.Notice(clock.Now())
		what := <-w.fire
		w.prepared.Store(false)
		if what != drop {
			if w.awaited {
				o.workerStarted <- struct{}{}
			}
			a.Unmeasured = what == sendUnmeasured
			o.playOne(w, a, ready)
			o.timer.Notice(clock.Now())
		}
		if !o.release(w) {
			return
		}
	}
}

// playOne plays an arrival that holds a place, and gives the place back.
func (o *openLoop) playOne(w *openWorker, a schedule.Arrival, ready bool) {
	if !ready || !o.mayStart() {
		o.countNeverSent(a)
		o.places.give(clock.Now())
		return
	}
	w.request.Unmeasured, w.request.Held = a.Unmeasured, max(w.free.Sub(o.due(a)), 0)
	w.play(o.due(a))
	o.places.give(w.observation.End)
}

// release makes a worker idle. It returns false if all workers are dismissed.
func (o *openLoop) release(w *openWorker) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.workersEnded {
		return false
	}
	o.idle = append(o.idle, w)
	return true
}

// endWorkers ends the idle workers now, and busy ones when they are done.
func (o *openLoop) endWorkers() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.idle {
		close(w.arrivals)
	}
	o.workersEnded = true
}

// onFrame takes an event's data and its two times, see stream.Request.
type onFrame = func(data []byte, at, seen clock.Instant)

// chainOnFrame returns a function that calls both functions in order. The first may be nil.
func chainOnFrame(first, second onFrame) onFrame {
	if first == nil {
		return second
	}
	return func(data []byte, at, seen clock.Instant) {
		first(data, at, seen)
		second(data, at, seen)
	}
}

// places are the requests that an open loop may have in flight. If they are a limit of the plan, each place knows when
// it became free: an arrival that was due before then was held back by the plan, and is not late. A places is safe for
// concurrent use and never blocks.
type places struct {
	planned bool          // they are a limit of the plan, not of the agent
	freed   chan struct{} // signals that a place has become free

	mu     sync.Mutex
	most   int
	taken  int
	since  []clock.Instant // when free places became free, oldest first; without those that were never taken
	latest clock.Instant   // when a place last became free
}

// take takes the place that has been free for longest, and returns since when. It returns 0 for a place that was never
// taken, and for any place if they are not a limit of the plan. It returns false if no place is free.
func (p *places) take() (since clock.Instant, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.most {
		return 0, false
	}
	untouched := p.most - p.taken - len(p.since)
	p.taken++
	if untouched > 0 || !p.planned {
		return 0, true
	}
	since, p.since = p.since[0], p.since[1:]
	return since, true
}

// give returns a place that has been free since an instant.
func (p *places) give(since clock.Instant) {
	p.mu.Lock()
	p.taken--
	p.latest = max(p.latest, since)
	if p.planned {
		p.since = append(p.since, since)
	}
	p.mu.Unlock()
	notify(p.freed)
}

// grow raises the number of places, if it is below most. The new ones are free from an instant on.
func (p *places) grow(most int, from clock.Instant) {
	p.mu.Lock()
	for ; p.most < most; p.most++ {
		if p.planned {
			p.since = append(p.since, from)
		}
	}
	p.mu.Unlock()
	notify(p.freed)
}

// allFree reports whether no place is taken.
func (p *places) allFree() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken == 0
}

// lastFreed returns when a place last became free, 0 if none has.
func (p *places) lastFreed() clock.Instant {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest
}

// errEnded is returned when a load can take over nothing more.
var errEnded = errors.New("the load has ended: it cannot take over arrivals")

// Revise changes which arrivals are the agent's: the new stripe must be the old one with more handovers. The agent
// sends the arrivals that it takes over, late if necessary. revise returns an error, and changes nothing, if the stripe
// differs in any other way, if it takes away arrivals that may already be sent, if the new stripe exceeds the agent's
// limits, or if the load has ended. It may be called at any time from any goroutine. It blocks for as long as it takes
// to walk a second of the schedule.
func (l *Load) Revise(stripe *spatev1.Stripe) error {
	l.revising.Lock()
	defer l.revising.Unlock()
	if l.ended || l.starting.Err() != nil || l.running.Err() != nil {
		return errEnded
	}
	if err := l.checkHandovers(stripe, clock.Now().Sub(l.start)); err != nil {
		return err
	}
	if err := l.Stage.Revise(stripe); err != nil {
		return err
	}
	if l.revised != nil {
		l.revised()
	}
	return nil
}

// checkHandovers returns an error if a new handover takes arrivals of this agent's that were due before now.
func (l *Load) checkHandovers(stripe *spatev1.Stripe, now time.Duration) error {
	if l.Closed != nil {
		return nil // closed.Revise rejects any handover that takes slots from the agent
	}
	for i, h := range stripe.GetHandovers() {
		if from := time.Duration(h.GetFromNs()); i >= len(l.Stripe.GetHandovers()) &&
			h.GetFromRank() == stripe.GetRank() && from <= now {
			return fmt.Errorf("handover %d takes this agent's arrivals from %v on, but came at %v: arrivals due in "+
				"between may have been sent",
				i, from, now.Round(time.Millisecond))
		}
	}
	return nil
}

// setRevised sets the function that is called after each revision; nil: none. It returns once no call is under way.
func (l *Load) setRevised(revised func()) {
	l.revising.Lock()
	defer l.revising.Unlock()
	l.revised = revised
}

// reopen reverts a drain whose only reason was the end of the schedule, and reports whether the load may continue.
func (l *Load) reopen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starting.Err() != nil || l.draining != nil &&
		!l.draining.Stop() { // the drain is already cancelling what is in flight
		return false
	}
	l.draining = nil
	if l.taking.Err() != nil {
		l.taking, l.stopTaking = context.WithCancel(l.starting)
	}
	if l.Closed != nil {
		l.timeEnd = 0
		l.endBy(max(clock.Now().Sub(l.start), 0))
	}
	return true
}
