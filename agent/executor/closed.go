package executor

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/schedule"
)

// closedLoop keeps slots busy. One goroutine waits for them; each slot runs on its own goroutine.
type closedLoop struct {
	*Load
	started bool
	opening preconnecting

	mu       sync.Mutex
	decided  bool // it is known whether the load starts
	slots    []*slot
	busy     int // slots that are running
	idle     sync.Cond
	revision int
}

// slot is one slot of the closed loop: it plays one arrival after another.
type slot struct {
	*worker
	number   int
	gate     chan struct{}    // closed when it is known whether the load starts
	next     schedule.Arrival // prepared
	free     clock.Instant    // when the slot is or was free for its next arrival
	ramped   bool             // it has played a measured arrival
	running  bool
	revision int // revision of the stripe whose arrivals it last looked for
}

// runClosed keeps each slot of the closed loop busy until there is nothing more to start. It blocks until the last
// response has ended.
func (l *Load) runClosed() {
	t := l.newTimer(l.starting)
	defer t.Close()
	c := &closedLoop{Load: l, opening: l.preconnecting()}
	defer c.opening.end()
	c.idle.L = &c.mu
	c.setRevised(c.takeOver)
	c.fill(l.start)
	c.started = c.awaitStart(t, func() {})
	c.release()
	c.wait()
	c.setRevised(nil)
	c.noteIdle()
	l.Closed.Measure(math.MaxInt64) // so that a pending warm-up does not hide arrivals that were never begun
	l.countRestNeverSent(func() (schedule.Arrival, bool) { return l.Closed.Next(math.MaxInt64 - 1) })
}

// releasedAtOnce is how many slots are released at a time. The scheduler runs ready goroutines in turn: with 20,000
// slots at once, each with a connection to open, an agent's heartbeat would wait for seconds.
const releasedAtOnce = 64

// release lets all slots continue, once it is known whether the load starts.
func (c *closedLoop) release() {
	c.mu.Lock()
	c.decided = true
	slots := slices.Clone(c.slots)
	c.mu.Unlock()
	for i, s := range slots {
		close(s.gate)
		if i%releasedAtOnce == releasedAtOnce-1 {
			runtime.Gosched()
		}
	}
}

// addSlot adds a slot. The caller holds c.mu.
func (c *closedLoop) addSlot() {
	s := &slot{worker: c.newWorker(len(c.slots)), number: len(c.slots), gate: make(chan struct{})}
	if c.decided {
		close(s.gate)
	}
	c.slots = append(c.slots, s)
}

// fill starts all slots that are not running, free from an instant on: slots that a revision of the stripe added, and
// slots that had nothing more to start.
func (c *closedLoop) fill(from clock.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	for len(c.slots) < c.Closed.Slots() {
		c.addSlot()
	}
	for _, s := range c.slots {
		if !s.running {
			s.running, s.free, s.revision = true, max(s.free, from), c.revision
			c.busy++
			go c.run(s)
		}
	}
}

// takeOver continues with a revised stripe, unless the load's time is over.
func (c *closedLoop) takeOver() {
	now := max(clock.Now(), c.start)
	if _, over := c.Closed.Ending(); now.Sub(c.start) < over && c.reopen() {
		c.fill(now)
	}
}

// wait blocks until no slot is running and no more arrivals can be taken over.
func (c *closedLoop) wait() {
	for !c.ended {
		c.mu.Lock()
		for c.busy > 0 {
			c.idle.Wait()
		}
		c.mu.Unlock()
		c.endIdle()
	}
}

// noteIdle notes when the first slot became free that started nothing more because the load was cut short. All slots
// have ended.
func (c *closedLoop) noteIdle() {
	c.Load.mu.Lock()
	defer c.Load.mu.Unlock()
	measured, _ := c.Closed.Ending()
	for _, s := range c.slots {
		if at := s.free.Sub(c.start); c.cutShort && at < measured {
			c.neverStarted.noteDue(at)
		}
	}
}

// endIdle marks the load as ended, unless slots are running again. An ended load takes over nothing.
func (c *closedLoop) endIdle() {
	c.revising.Lock()
	defer c.revising.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = c.busy == 0
}

// run lets a slot play until it has nothing to start in the newest revision of the stripe. Slots that are active at the
// start prepare their first arrival and open its connection before the start, so that they all start at once. Slots
// that are active later wait for that from now on: if they were released at the start, too, thousands would be runnable
// then.
func (c *closedLoop) run(s *slot) {
	prepared := s.active() && s.free == c.start && s.prepareNext(c.start)
	switch {
	case prepared:
		c.opening.open(s)
	case s.free > c.start:
		s.wait(c.takes(), s.free)
	}
	<-s.gate
	if prepared && !c.started {
		c.countNeverSent(s.next)
		prepared = false
	}
	s.playAll(prepared)
	for !c.leave(s) {
		s.free = max(s.free, clock.Now())
		s.playAll(false)
	}
}

// leave takes a slot with nothing more to start out of the loop. It returns false if the stripe was revised since the
// slot last looked.
func (c *closedLoop) leave(s *slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.revision != c.revision {
		s.revision = c.revision
		return false
	}
	s.running = false
	if c.busy--; c.busy == 0 {
		c.idle.Broadcast()
	}
	return true
}

// playAll plays one arrival after another, until there is nothing more to start.
func (s *slot) playAll(prepared bool) {
	for prepared || s.await() && s.prepareNext(clock.Now()) {
		prepared = false
		if !s.load.mayStart() {
			s.load.countNeverSent(s.next)
			return
		}
		s.markRamped()
		s.play(s.free)
		s.free = s.observation.End
		if s.load.exhausted(s.observation.End) {
			return
		}
		s.think()
	}
}

// active moves the time at which the slot is free to when the slot is active, and reports whether it will be active
// again.
func (s *slot) active() bool {
	at, more := s.load.Closed.Wake(s.number, s.free.Sub(s.load.start))
	s.free = max(s.free, s.load.start.Add(at))
	return more
}

// await blocks until the slot is free and active, and reports whether it may continue.
func (s *slot) await() bool { return s.active() && s.wait(s.load.takes(), s.free) }

// takes returns the current context that ends when no more arrivals may be started. reopen replaces it.
func (l *Load) takes() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taking
}

// prepareNext takes the slot's next arrival and makes its first request. It reports whether there is one.
func (s *slot) prepareNext(now clock.Instant) bool {
	a, more := s.load.take(now)
	if !more {
		return false
	}
	s.next = a
	if !s.prepare(a) {
		s.load.countNeverSent(a)
		return false
	}
	return true
}

// markRamped counts the slots that have played a measured arrival. The load has ramped up when all slots have.
func (s *slot) markRamped() {
	if s.ramped || s.next.Unmeasured {
		return
	}
	s.ramped = true
	if l := s.load; l.measuredSlots.Add(1) == int64(l.Closed.Slots()) {
		l.steadySince(clock.Now())
	}
}

// think sets when the slot is free again: after its think time, or after the pause that follows a failure if that is
// longer. The agent itself chooses such a pause, so it does not count as a delay of the next request: the slot becomes
// free when the pause ends.
func (s *slot) think() {
	s.free = s.observation.End.Add(s.load.Closed.Think(s.next.Index))
	if pause := s.freeAt(); pause > s.free {
		s.wait(s.load.takes(), pause)
		s.free = clock.Now()
	}
}

// take returns the closed loop's next arrival, and marks where the measured ones end. If there is none, the load
// drains.
func (l *Load) take(now clock.Instant) (schedule.Arrival, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	elapsed := max(now.Sub(l.start), 0)
	a, more := l.Closed.Next(elapsed)
	switch {
	case more && !a.Unmeasured:
		l.measuring = true
	case l.measuring:
		l.steadyUntil(now)
	}
	l.endBy(elapsed)
	if !more && !l.leaving {
		l.drainLocked(max(now, l.start))
	}
	return a, more
}

// endBy makes the load drain when its time is over, even if no slot becomes free then. It sets the timer as soon as the
// end is known and in the future. The caller holds l.mu.
func (l *Load) endBy(elapsed time.Duration) {
	measured, over := l.Closed.Ending()
	if over <= elapsed || over == math.MaxInt64 || over == l.timeEnd {
		return
	}
	if l.closing != nil {
		l.closing.Stop()
	}
	l.timeEnd = over
	l.closing = time.AfterFunc(clock.Until(l.start.Add(over)), func() { l.timeOver(measured, over) })
}

// timeOver makes the load drain at the end of its time, unless that end has moved.
func (l *Load) timeOver(measured, over time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timeEnd == over {
		l.steadyUntil(l.start.Add(measured))
		l.drainLocked(l.start.Add(over))
	}
}

// exhausted reports whether nothing more will start at an instant or later. The load then drains, and no slot needs to
// rest until that instant.
func (l *Load) exhausted(at clock.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, over := l.Closed.Ending(); at.Sub(l.start) < over {
		return false
	}
	l.drainLocked(at)
	return true
}

const (
	// preconnections is how many connections are opened at a time before a closed loop's start. More would delay the
	// agent's heartbeats and the server for longer, without being faster.
	preconnections = 256
	// preconnectMargin is how long before the start no more connections are opened, so that the agent is idle at the
	// start.
	preconnectMargin = 20 * time.Millisecond
)

// preconnecting opens the connections of a closed loop's first requests before the start. If the requests opened a
// thousand connections themselves, starts would be late because of the client: the thousandth request waits for the
// work on all other connections.
type preconnecting struct {
	ctx   context.Context // ends shortly before the start
	end   context.CancelFunc
	turns chan struct{} // one element for each connection that is being opened
}

func (l *Load) preconnecting() preconnecting {
	left := clock.Until(l.start) - preconnectMargin
	ctx, end := context.WithTimeout(l.starting, max(left, 0))
	return preconnecting{ctx: ctx, end: end, turns: make(chan struct{}, preconnections)}
}

// open opens a connection for a slot's first request, and blocks until it is open or the start is near. A failure loses
// nothing: the request then opens its own connection, and reports what is wrong.
func (p *preconnecting) open(s *slot) {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-p.ctx.Done():
		return
	}
	if p.ctx.Err() == nil {
		_ = s.load.client.Preconnect(p.ctx, s.firstEndpoint())
	}
}

// firstEndpoint returns where the slot's first request goes. With least_outstanding, first requests spread evenly.
func (s *slot) firstEndpoint() int {
	if s.load.balance.ChosenAtSend() {
		return s.number % len(s.load.Target().GetEndpoints())
	}
	return s.request.Endpoint
}
