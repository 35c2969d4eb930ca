package agent

import (
	"math"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/arrival"
	"github.com/spate-load/spate/agent/timer"
	"github.com/spate-load/spate/clock"
)

// slot is one of the closed loop's users: it plays one arrival after another.
type slot struct {
	*worker
	number int
	next   arrival.Arrival // prepared
	free   clock.Instant   // when the slot is or was free for the next arrival
	ramped bool            // it has come to measured arrivals
}

// runClosed keeps each slot of the closed loop busy until there is no more to start. It blocks until the last response has ended.
func (l *load) runClosed() {
	t := timer.New(l.starting)
	defer t.Close()
	gate := make(chan bool, l.closed.Slots())
	var slots sync.WaitGroup
	for i := range l.closed.Slots() {
		slots.Go(func() { l.runSlot(&slot{worker: l.newWorker(i), number: i, free: l.start}, gate) })
	}
	begin := l.awaitStart(t)
	for range l.closed.Slots() {
		gate <- begin
	}
	slots.Wait()
	l.closed.Measure(0) // for the count of what was not begun: no warm-up holds it up
	l.oweRest(func() (arrival.Arrival, bool) { return l.closed.Next(math.MaxInt64 - 1) })
}

// runSlot plays one arrival after another. The first one is prepared before the start, so that the start is one for all slots that are
// active then.
func (l *load) runSlot(s *slot, gate <-chan bool) {
	prepared := s.active() && s.free == l.start && s.prepareNext(l.start)
	if begin := <-gate; !begin {
		if prepared {
			l.owe(s.next)
		}
		return
	}
	for prepared || s.await() && s.prepareNext(clock.Now()) {
		prepared = false
		s.markRamped()
		s.play(s.free)
		if s.load.exhausted(s.observation.End) {
			return
		}
		s.think()
	}
}

// active moves the time at which the slot is free to when it is active, and reports whether it ever is again.
func (s *slot) active() bool {
	at, more := s.load.closed.Wake(s.number, s.free.Sub(s.load.start))
	s.free = max(s.free, s.load.start.Add(at))
	return more
}

// await blocks until the slot is free and active, and reports whether it may go on.
func (s *slot) await() bool { return s.active() && s.wait(s.load.taking, s.free) }

// prepareNext takes the slot's next arrival and makes its first request. It reports whether there is one.
func (s *slot) prepareNext(now clock.Instant) bool {
	a, more := s.load.take(now)
	if !more {
		s.load.drain(max(now, s.load.start))
		return false
	}
	s.next = a
	if !s.prepare(a) {
		s.load.owe(a)
		return false
	}
	return true
}

// markRamped counts the slots that have come to measured arrivals. With the last of them the load has ramped up.
func (s *slot) markRamped() {
	if s.ramped || s.next.Unmeasured {
		return
	}
	s.ramped = true
	if l := s.load; l.measuredSlots.Add(1) == int64(l.closed.Slots()) {
		l.steadySince(clock.Now())
	}
}

// think sets when the slot is free again: after its think time, or after the pause that a failure asks for if that is longer. Such a pause
// is the agent's own choice and no delay of the next request, so that the slot is free when the pause is over.
func (s *slot) think() {
	s.free = s.observation.End.Add(s.load.closed.Think(s.next.Index))
	if pause := s.rest(); pause > s.free {
		s.wait(s.load.taking, pause)
		s.free = clock.Now()
	}
}

// take hands out the closed loop's next arrival, and marks where the measured ones end.
func (l *load) take(now clock.Instant) (arrival.Arrival, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	elapsed := max(now.Sub(l.start), 0)
	a, more := l.closed.Next(elapsed)
	switch {
	case more && !a.Unmeasured:
		l.measuring = true
	case l.measuring:
		l.steadyUntil(now)
	}
	l.endBy(elapsed)
	return a, more
}

// endBy makes the load drain when its time is over, as soon as that is known to lie ahead, even if no slot becomes free to find that
// out. l.mu is locked.
func (l *load) endBy(elapsed time.Duration) {
	measured, over := l.closed.Ending()
	if over <= elapsed || over == math.MaxInt64 || over == l.over {
		return
	}
	if l.closing != nil {
		l.closing.Stop()
	}
	l.over = over
	at := l.start.Add(over)
	l.closing = time.AfterFunc(clock.Until(at), func() { l.cool(l.start.Add(measured)); l.drain(at) })
}

// exhausted reports whether nothing more is to be started at an instant or later, so that no slot need rest until then, and makes the
// load drain if so.
func (l *load) exhausted(at clock.Instant) bool {
	_, over := l.closed.Ending()
	if at.Sub(l.start) < over {
		return false
	}
	l.drain(at)
	return true
}
