package executor

import (
	"sync/atomic"

	"github.com/spate-load/spate/clock"
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
