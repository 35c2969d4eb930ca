package kernel

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
)

// This file waits for absolute instants more precisely than Go's own timers, which fire 0.5 to 1 ms late.
//
// On Linux a Timer is a timerfd read through the runtime's poller, elsewhere a time.Timer. A sleeping core takes tens
// of microseconds to wake. For starts a Timer can therefore stay awake for the last part of a wait, while other
// goroutines run. It only waits; the caller decides what is due when. The agent's load calls it, for the armed
// start and for the arrivals of an open loop.

// Timer waits for one instant at a time, until its context ends. It belongs to one goroutine, which must close it.
type Timer struct {
	ctx    context.Context
	alarm  alarm
	woken  atomic.Bool
	until  atomic.Int64 // instant that is waited for and was not noticed yet; idle: none
	margin margin
	missed int  // consecutive waits whose instant had already passed
	plain  bool // it never stays awake
}

// idle is the value of until when nothing waits.
const idle = math.MaxInt64

// ErrWoken is returned by a wait that Wake ended.
var ErrWoken = errors.New("timer: woken")

// alarm is the system's way to wake a goroutine.
type alarm interface {
	// wait blocks until at has passed, the context has ended, or woken is true and ring was called. An error means that
	// it could not wait.
	wait(at clock.Instant, woken *atomic.Bool) error
	// ring ends the current wait. It may be called from any goroutine.
	ring()
	// hasten makes the current wait see at once that its instant has passed. It may be called from any goroutine.
	hasten()
	// pass lets other goroutines run, including those that only the kernel knows to be ready, and returns when it is
	// this goroutine's turn again. Nothing is due before the instant until, which may have passed.
	pass(until clock.Instant) error
	// close releases the alarm's resources. There must be no wait.
	close() error
}

// NewTimer returns a Timer that uses the best means of this system. When ctx ends, every wait ends.
func NewTimer(ctx context.Context) *Timer {
	t := &Timer{ctx: ctx, margin: firstMargin}
	t.until.Store(idle)
	if a, err := newPrecise(ctx); err == nil {
		t.alarm = a
	} else {
		t.alarm = newCoarse(ctx)
	}
	return t
}

// NewPlainTimer returns a Timer that uses Go's own timers and never stays awake: the virtual time of tests passes only
// while all goroutines wait.
func NewPlainTimer(ctx context.Context) *Timer {
	t := &Timer{ctx: ctx, alarm: newCoarse(ctx), plain: true}
	t.until.Store(idle)
	return t
}

// Wait blocks until the instant at, and returns at once if the instant has passed. It returns the context's error if
// the context has ended, before or during the wait, and ErrWoken if Wake was called since the last wait.
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

// maxMissed is how many consecutive waits may find their instant passed before other goroutines get a turn. An
// overloaded program does less work, but still answers heartbeats.
const maxMissed = 16

// WaitAwake is like Wait, but sleeps only until a little before the instant, and stays awake for the rest. It wakes as
// much earlier as recent sleeps ended late. Meanwhile other goroutines run, before the waiting one if possible. They
// also run now and then between waits whose instants have all passed. WaitAwake uses a core's idle time, at most 150 us
// per call.
func (t *Timer) WaitAwake(at clock.Instant) error {
	if t.plain {
		return t.Wait(at)
	}
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

// approach sleeps until the margin before an instant. If the instant has passed, and the previous ones had, too, it
// lets other goroutines run now and then.
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
	if t.missed++; t.missed%maxMissed == 0 {
		return t.alarm.pass(at)
	}
	return nil
}

// Notice ends the current wait if its instant has passed at now. The runtime asks the kernel for events only when it
// has nothing else to do, so a busy program hears of its timers late. Goroutines that have just read the clock call
// Notice; the waiting goroutine then runs next, as soon as they block or yield. If there is nothing to notice, Notice
// costs one load. It may be called from any goroutine, and does nothing after Close.
func (t *Timer) Notice(now clock.Instant) {
	if until := t.until.Load(); int64(now) >= until && t.until.CompareAndSwap(until, idle) {
		t.alarm.hasten()
	}
}

// lead is how long before its instant WaitExactly wakes. With cores to spare, a goroutine wakes within this time nearly
// always. On an overloaded machine a longer lead makes it worse: a thread that has used a core for long is the first to
// lose it.
const lead = time.Millisecond

// WaitExactly is like Wait, but wakes a little early and polls the clock until the instant. It is late by well below a
// microsecond, unless the machine delays the thread. It occupies a core for the last millisecond, during which Wake
// does not end it.
func (t *Timer) WaitExactly(at clock.Instant) error {
	if t.plain {
		return t.Wait(at)
	}
	if err := t.Wait(at.Add(-lead)); err != nil {
		return err
	}
	for now := clock.Now(); now < at; {
		now = clock.Now()
	}
	return t.ctx.Err()
}

// Wake ends the current wait, or the next one if there is none. It may be called from any goroutine until Close.
func (t *Timer) Wake() {
	t.woken.Store(true)
	t.alarm.ring()
}

// ended returns why a wait must end before its instant, or nil. It clears woken.
func (t *Timer) ended() error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	if t.woken.CompareAndSwap(true, false) {
		return ErrWoken
	}
	return nil
}

// Close releases the Timer. It must not be waited on or woken afterwards.
func (t *Timer) Close() error { return t.alarm.close() }

// coarse waits with a time.Timer.
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
	default: // a ring is already pending
	}
}

// hasten does nothing: a time.Timer that is due ends its wait in the scheduler's next round.
func (coarse) hasten() {}

func (coarse) pass(clock.Instant) error {
	runtime.Gosched()
	return nil
}

func (coarse) close() error { return nil }

// margin is how long before an instant a sleep must end, to stay awake for the rest: nine of ten recent sleeps ended no
// later than that. A sleeping core takes a while to wake, 5 us on one machine and 50 us on another.
type margin time.Duration

const (
	firstMargin = margin(50 * time.Microsecond)
	minMargin   = margin(5 * time.Microsecond)
	// maxMargin bounds the cost of staying awake. On a core that is busy with other things sleeps end late, too, and a
	// longer margin does not help.
	maxMargin = margin(150 * time.Microsecond)
	// marginStep is small compared to any margin, yet covers the whole range within a few thousand sleeps.
	marginStep = margin(100 * time.Nanosecond)
)

// learn adapts the margin to how late a sleep ended. At the 90th percentile the margin rises as often as it falls: once
// in ten by nine steps, and nine times by one step.
func (l *margin) learn(late time.Duration) {
	if margin(late) > *l {
		*l = min(*l+9*marginStep, maxMargin)
	} else {
		*l = max(*l-marginStep, minMargin)
	}
}
