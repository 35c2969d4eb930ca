package simulator

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/kernel"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/engine"
)

// loop runs one model against the clock, in its own goroutine from newLoop to close. If it wakes late, it catches up:
// the engine's instants remain those of the model, and only the sending is late.
type loop struct {
	inFlight atomic.Int64 // requests that handlers have submitted and not yet left
	gauges   gauges
	caches   bool // the engine has a prefix cache

	accounts  sync.Mutex // guards latencies
	latencies latencies

	engine engine.Model  // accessed only by the goroutine
	woke   clock.Instant // accessed only by the goroutine: the instant of the last wake-up

	mu     sync.Mutex // guards inbox and closed
	inbox  []command
	closed bool
	timer  *kernel.Timer // woken when inbox or closed has changed
	done   chan struct{} // closed when the goroutine has ended
}

// command is an action for the engine at an instant.
type command struct {
	at     clock.Instant
	seq    *engine.Sequence
	cancel bool
}

// outlet passes one sequence's tokens from the loop to the handler, or to the reply that the handler has lent to the
// loop.
type outlet struct {
	ready atomic.Int64  // tokens produced so far
	wake  chan struct{} // signalled when ready has grown or the loop has given the reply back

	mu       sync.Mutex
	borrowed *reply // the reply that the loop sends, nil if the handler sends it
}

// Publish implements engine.Outlet: it stores the number of tokens, and sends their frames or wakes the handler.
// returned reports whether this call gave the reply back to the handler.
func (o *outlet) Publish(produced int) (returned bool) {
	o.ready.Store(max(o.ready.Load(), int64(produced)))
	kept, returned := o.drive(produced)
	if kept {
		return false
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return returned
}

// newLoop starts the goroutine of a model. The caller closes the loop.
func newLoop(c *config.Config, number int) *loop {
	l := &loop{engine: engine.New(c, number, clock.Now()), latencies: newLatencies(),
		timer: kernel.NewTimer(context.Background()), done: make(chan struct{}), caches: c.Model.CacheBlocks > 0}
	go l.run()
	return l
}

// send queues a sequence that arrived at an instant and has an outlet, or removes one from the engine.
func (l *loop) send(c command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.inbox = append(l.inbox, c)
	if len(l.inbox) == 1 {
		l.timer.Wake()
	}
}

// close stops the goroutine and waits for it. Sequences in flight get no more tokens. It may be called more than once.
func (l *loop) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.timer.Wake()
	}
	l.mu.Unlock()
	<-l.done
}

func (l *loop) run() {
	defer close(l.done)
	defer l.timer.Close()
	var commands []command
	var emissions []engine.Emission
	for {
		var open bool
		if commands, open = l.take(commands[:0]); !open {
			return
		}
		emissions = l.catchUp(commands, emissions[:0])
		l.deliver(emissions)
		l.sleep()
	}
}

// take swaps the inbox with dst. It returns false when the loop is closed.
func (l *loop) take(dst []command) ([]command, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dst, l.inbox = l.inbox, dst
	return dst, !l.closed
}

// catchUp advances the engine to the present, and applies each command at its own instant.
func (l *loop) catchUp(commands []command, dst []engine.Emission) []engine.Emission {
	now := clock.Now()
	l.woke = now
	for _, c := range commands {
		dst = l.engine.Advance(min(c.at, now), dst)
		if c.cancel {
			l.engine.Cancel(c.seq)
		} else {
			l.engine.Add(c.seq)
		}
	}
	clear(commands)
	return l.engine.Advance(now, dst)
}

// maxYields is the maximum number of ended answers per step whose handlers run before the step's other frames are sent.
// On a single processor, those handlers would otherwise wait for all frames of the step. A slightly late client would
// then read the last frame together with the end, sent milliseconds later, under the receive stamp of the end. The
// limit keeps many ends from delaying the step.
const maxYields = 32

// deliver publishes the tokens. It updates the gauges first, so that a client that has a token sees it counted.
func (l *loop) deliver(emissions []engine.Emission) {
	l.gauges[gaugeRunning].Store(int64(l.engine.Running()))
	l.gauges[gaugeWaiting].Store(int64(l.engine.Waiting()))
	l.gauges[gaugeOutput].Add(int64(len(emissions)))
	l.account(emissions)
	ended := 0
	for i := range emissions {
		// After a late wake-up a step has several emissions of one sequence, which sends all that it has produced.
		if e := &emissions[i]; e.Seq.Outlet.Publish(e.Produced) {
			if ended++; ended <= maxYields {
				runtime.Gosched() // to the handler
			}
		}
	}
	clear(emissions)
}

// account updates the engine's own account of tokens and requests.
func (l *loop) account(emissions []engine.Emission) {
	l.accounts.Lock()
	defer l.accounts.Unlock()
	for i := range emissions {
		e := &emissions[i]
		if e.Produced == 1 {
			l.gauges[gaugePrompt].Add(int64(e.Seq.Prompt))
			if l.caches {
				l.gauges[gaugeLookedUp].Add(int64(e.Seq.Prompt))
				l.gauges[gaugeCached].Add(int64(e.Seq.Cached))
			}
		}
		l.latencies.take(e)
	}
}

// minTimerGap is the minimum time between a wake-up and the next one by timer. A timer is some 30 us late anyway, and
// setting one costs as much as half a frame. With tens of thousands of streams on schedules of their own, several
// frames are sent per wake-up.
const minTimerGap = 50 * time.Microsecond

// sleep blocks until the engine's next event or the next command.
func (l *loop) sleep() {
	at, ok := l.engine.Next()
	if !ok {
		at = math.MaxInt64
	}
	if err := l.timer.Wait(max(at, l.woke.Add(minTimerGap))); err != nil && !errors.Is(err, kernel.ErrWoken) {
		panic("simulator: cannot wait: " + err.Error())
	}
}
