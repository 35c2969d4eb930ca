// Package timer waits for absolute instants more precisely than Go's own timers, which fire 0.5 to 1 ms late.
//
// On Linux a Timer is a timerfd read through the runtime's poller, elsewhere a time.Timer. A core that sleeps takes
// tens of microseconds to wake, so for starts a Timer can stay awake for the last of a wait, while others run. It does
// nothing but wait: what is due when is the caller's business. The agent's executor calls it, for the armed start and
// for the arrivals of an open loop.
package timer

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
)

// Timer waits for one instant at a time, for as long as its context lasts. It belongs to one goroutine, which closes
// it.
type Timer struct {
	ctx    context.Context
	alarm  alarm
	woken  atomic.Bool
	until  atomic.Int64 // instant that is waited for and not noticed yet; idle: there is none
	margin margin
	missed int // waits in a row whose instant had passed
}

// idle is the until of a Timer that nobody waits on.
const idle = math.MaxInt64

// ErrWoken is a wait's error that Wake has ended.
var ErrWoken = errors.New("timer: woken")

// alarm is how a system wakes a goroutine.
type alarm interface {
	// wait blocks until at has passed, the context has ended, or woken is true and ring was called. Any error means
	// that it could not wait.
	wait(at clock.Instant, woken *atomic.Bool) error
	// ring ends the wait under way. It may be called from any goroutine.
	ring()
	// hasten lets the wait under way see at once that its instant has passed. It may be called from any goroutine.
	hasten()
	// pass lets others run, those too of whom only the kernel knows as yet, and returns when it is this goroutine's
	// turn again. Nothing is to be done before the instant until, if that is still to come.
	pass(until clock.Instant) error
	// close frees what the alarm holds. Nobody waits any more.
	close() error
}

// New returns a Timer by the best means this system has. When ctx ends, so does every wait.
func New(ctx context.Context) *Timer {
	t := &Timer{ctx: ctx, margin: firstMargin}
	t.until.Store(idle)
	if a, err := newPrecise(ctx); err == nil {
		t.alarm = a
	} else {
		t.alarm = newCoarse(ctx)
	}
	return t
}

// Wait blocks until the instant at, and returns at once if it has passed. Its error is the context's if that has ended,
// before or while waiting, and ErrWoken if Wake was called since the last wait.
func (t *Timer) Wait(at clock.Instant) error {
	if err := t.ended(); err != nil || clock.Now() >= at {
		return err
	}
	t.until.Store(int64(at))
	err := t.alarm.wait(at, &t.woken)
	t.until.Store(idle)
	if err != nil && t.ctx.Err() == nil {
		return err
	}
	return t.ended()
}

// mostMissed is how many waits in a row may find their instant passed until others have their turn: a program that is
// asked for more than it can do does less of it, but answers whoever asks whether it lives.
const mostMissed = 16

// WaitAwake is as Wait, but sleeps only until a little before the instant, as long as a sleep lately needed to end, and
// stays awake for the rest. Others run meanwhile, before the waiting goroutine if they can, and now and then between
// waits whose instants have all passed. What it costs is a core's idle time, at most 150 us a call.
func (t *Timer) WaitAwake(at clock.Instant) error {
	if err := t.approach(at); err != nil {
		return err
	}
	t.until.Store(int64(at))
	defer t.until.Store(idle)
	for {
		if err := t.ended(); err != nil || clock.Now() >= at {
			return err
		}
		if err := t.alarm.pass(at); err != nil {
			return err
		}
	}
}

// approach sleeps until the margin before an instant. If that has passed, and those before it had, others have their
// turn now and then.
func (t *Timer) approach(at clock.Instant) error {
	switch now, early := clock.Now(), at.Add(-time.Duration(t.margin)); {
	case now < early:
		t.missed = 0
		if err := t.Wait(early); err != nil {
			return err
		}
		t.margin.learn(clock.Now().Sub(early))
		return nil
	case now < at:
		t.missed = 0
		return nil
	}
	if t.missed++; t.missed%mostMissed == 0 {
		return t.alarm.pass(at)
	}
	return nil
}

// Notice ends the wait under way if its instant has passed at now. The runtime asks the kernel for news only when it
// has nothing else to do, so a program that is busy hears of its timers late; goroutines that do its work and have just
// read the clock tell it by this, and who waits is run next: as soon as they wait, or yield. It costs a load where
// there is nothing to notice, and may be called from any goroutine, after Close to no effect.
func (t *Timer) Notice(now clock.Instant) {
	until := t.until.Load()
	if int64(now) >= until && t.until.CompareAndSwap(until, idle) {
		t.alarm.hasten()
	}
}

// lead is how long before its instant WaitExactly wakes. A machine with cores to spare wakes a goroutine within it
// nearly always; on one that is overloaded a longer one makes it worse, since who has just used a core long is the
// first to lose it.
const lead = time.Millisecond

// WaitExactly is as Wait, but wakes a little early and looks at the clock until the instant has come: late by well
// below a microsecond, unless the machine itself holds the thread up. It takes a core for the last millisecond, in
// which Wake does not end it.
func (t *Timer) WaitExactly(at clock.Instant) error {
	if err := t.Wait(at.Add(-lead)); err != nil {
		return err
	}
	for now := clock.Now(); now < at; {
		now = clock.Now()
	}
	return t.ctx.Err()
}

// Wake ends the wait under way, or the next one if there is none. It may be called from any goroutine until Close.
func (t *Timer) Wake() {
	t.woken.Store(true)
	t.alarm.ring()
}

// ended says why a wait is to end before its instant, and forgets that it was woken.
func (t *Timer) ended() error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	if t.woken.CompareAndSwap(true, false) {
		return ErrWoken
	}
	return nil
}

// Close frees the Timer. It must not be waited on any more, nor woken.
func (t *Timer) Close() error { return t.alarm.close() }

// coarse waits by a time.Timer.
type coarse struct {
	ctx   context.Context
	rings chan struct{}
}

func newCoarse(ctx context.Context) coarse { return coarse{ctx, make(chan struct{}, 1)} }

func (c coarse) wait(at clock.Instant, woken *atomic.Bool) error {
	t := time.NewTimer(clock.Until(at))
	defer t.Stop()
	for !woken.Load() {
		select {
		case <-t.C:
			return nil
		case <-c.rings:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
	return nil
}

func (c coarse) ring() {
	select {
	case c.rings <- struct{}{}:
	default: // one that nobody has heard yet says as much
	}
}

// hasten does nothing: a time.Timer that is due ends its wait in the scheduler's next round.
func (coarse) hasten() {}

func (coarse) pass(clock.Instant) error {
	runtime.Gosched()
	return nil
}

func (coarse) close() error { return nil }
