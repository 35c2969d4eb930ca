package agent

import (
	"sync"

	"github.com/spate-load/spate/agent/timer"
	"github.com/spate-load/spate/clock"
)

// runClosed keeps each slot of the closed loop busy until there is no more to start. It blocks until the last response has ended.
func (l *load) runClosed() {
	t := timer.New(l.starting)
	defer t.Close()
	gate := make(chan bool, l.closed.Slots())
	var slots sync.WaitGroup
	for i := range l.closed.Slots() {
		slots.Go(func() { l.runSlot(l.newWorker(i), gate) })
	}
	begin := l.awaitStart(t)
	for range l.closed.Slots() {
		gate <- begin
	}
	slots.Wait()
}

// runSlot sends one request after another. The first one is prepared before the start, so that the start is one for all slots.
func (l *load) runSlot(w *worker, gate <-chan bool) {
	a, more := l.closed.Next(0)
	if more {
		w.prepare(a)
	}
	if begin := <-gate; !begin {
		return
	}
	ramped := false
	for free := l.start; more; {
		if !ramped && !a.Unmeasured {
			ramped = true
			l.slotRamped()
		}
		w.send(free)
		if free = w.rest(); !l.awaitRest(&free) {
			return
		}
		if a, more = l.closed.Next(clock.Now().Sub(l.start)); more {
			w.prepare(a)
		}
	}
	l.drain(max(clock.Now(), l.start))
}

// slotRamped counts the slots that have come to measured requests. With the last of them the load has ramped up.
func (l *load) slotRamped() {
	if l.measuredSlots.Add(1) == int64(l.closed.Slots()) {
		l.steadySince(clock.Now())
	}
}

// awaitRest waits until the slot is free and reports whether it may go on. A pause is the slot's own choice and no delay of its
// next request, so that the slot is free when the pause is over.
func (l *load) awaitRest(free *clock.Instant) bool {
	if *free > clock.Now() {
		sleep(l.starting, *free)
		*free = clock.Now()
	}
	return l.starting.Err() == nil
}
