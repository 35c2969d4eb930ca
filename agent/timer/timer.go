// Package timer waits for absolute instants more precisely than Go's own timers, which fire 0.5 to 1 ms late.
//
// On Linux a Timer is a timerfd read through the runtime's poller, elsewhere a time.Timer. It does nothing but wait: what is due
// when is the caller's business. The agent's executor calls it, for the armed start and for the arrivals of an open loop.
package timer

import (
	"context"
	"time"

	"github.com/spate-load/spate/clock"
)

// Timer waits for one instant at a time, for as long as its context lasts. It belongs to one goroutine, which closes it.
type Timer struct {
	ctx   context.Context
	alarm alarm
}

// alarm is how a system wakes a goroutine.
type alarm interface {
	// wait blocks until at has passed or the context has ended. Any error means that it could not wait.
	wait(at clock.Instant) error
	// close frees what the alarm holds. Nobody waits any more.
	close() error
}

// New returns a Timer by the best means this system has. When ctx ends, so does every wait.
func New(ctx context.Context) *Timer {
	if a, err := newPrecise(ctx); err == nil {
		return &Timer{ctx: ctx, alarm: a}
	}
	return &Timer{ctx: ctx, alarm: coarse{ctx}}
}

// Wait blocks until the instant at, and returns at once if it has passed. Its error is the context's if that has ended, before or
// while waiting.
func (t *Timer) Wait(at clock.Instant) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	if clock.Now() >= at {
		return nil
	}
	if err := t.alarm.wait(at); err != nil && t.ctx.Err() == nil {
		return err
	}
	return t.ctx.Err()
}

// Close frees the Timer. It must not be waited on any more.
func (t *Timer) Close() error { return t.alarm.close() }

// coarse waits by a time.Timer.
type coarse struct{ ctx context.Context }

func (c coarse) wait(at clock.Instant) error {
	t := time.NewTimer(clock.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

func (coarse) close() error { return nil }
