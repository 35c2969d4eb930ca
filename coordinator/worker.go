package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/live"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// tickInterval is how often the machine is told the time.
const tickInterval = 100 * time.Millisecond

// work is the run's worker. It tells the machine the time, and computes results without holding the lock. The results
// of a whole stage, which may take long, are computed by another goroutine, which has the publisher meanwhile. It
// returns when the run has ended.
func (c *Coordinator) work(r *run) {
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	publisher := c.publisherOf(r)
	health := &live.Health{Run: r.points(), Sink: r.sink, Interval: c.cfg.HeartbeatInterval, Log: c.log,
		Agents: func() []*spatev1.AgentStatus { return c.statuses(r) }}
	idle := make(chan struct{}) // closed unless the results of a stage are being computed
	close(idle)
	for {
		select {
		case <-r.ended:
			<-idle
			c.latest.Leave(r.id)
			c.guarded(r, func() { c.closeSink(r) })
			c.recordEnded()
			c.guarded(r, func() { c.tidy(time.Now()) })
			return
		case e := <-r.toClose:
			<-idle // the machine has heard of the stage before
			done := make(chan struct{})
			idle = done
			c.workers.Go(func() {
				defer close(done)
				c.guarded(r, func() { c.closeStage(r, publisher, e) })
			})
		case <-tick.C:
			c.guarded(r, func() {
				select {
				case <-idle:
					c.publishWindows(r, publisher)
				default:
					c.tick(r, lifecycle.View{}, false)
				}
				health.Show(time.Now())
				c.allotRegularly()
			})
		}
	}
}

// publishWindows publishes what has become known since the last tick, and tells the machine the time.
func (c *Coordinator) publishWindows(r *run, publisher *live.Publisher) {
	publisher.Windows(false)
	view, ruled := publisher.View()
	for _, p := range c.tick(r, view, ruled) {
		c.publish(r, publisher.Progress(p))
	}
}

// publisherOf returns the publisher of a run whose sink is open.
func (c *Coordinator) publisherOf(r *run) *live.Publisher {
	return live.NewPublisher(r.points(), r.stages, r.sink, r.ledger, &c.lag, &c.latest,
		func(e *spatev1.RunEvent) { c.publish(r, e) })
}

// sinkDeadline is how long a run's sink may take to write its remaining points once the coordinator is being closed.
const sinkDeadline = 30 * time.Second

// sinkPatience is how long a sink may take before a warning is logged.
const sinkPatience = time.Second

// closeSink closes the sink, which writes its remaining points for as long as their databases take them.
func (c *Coordinator) closeSink(r *run) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.workers.Go(func() {
		select {
		case <-c.closing:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(sinkDeadline):
			cancel()
		case <-ctx.Done():
		}
	})
	slow := time.AfterFunc(sinkPatience, func() {
		c.log.Warn("not all points are written yet: waiting for the database", "run", r.id)
	})
	defer slow.Stop()
	if err := r.sink.Close(ctx); err != nil {
		c.log.Warn("not all points were written", "run", r.id, "error", err)
	}
}

// tick tells the machine the time and, if ruled is true, what was merged, and returns the progress to report. While the
// disk is stalled, time stands still for the machine.
func (c *Coordinator) tick(r *run, view lifecycle.View, ruled bool) []lifecycle.Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.disk.Stalled() {
		c.feed(r, func(r *run, at clock.Instant) {
			r.machine.Tick(at)
			if ruled {
				r.machine.Observe(at, view)
			}
		})
	}
	out := r.progress
	r.progress = nil
	return out
}

// publish tells followers and the sink of an event that is not written to the ledger: progress, or a window. The event
// is queued after pending writes.
func (c *Coordinator) publish(r *run, e *spatev1.RunEvent) {
	c.later(r, func() {
		if n, ok := r.events.Number(e); ok {
			c.deliver(r, n)
		}
	})
}

// closeStage publishes the rest of a stage and tells the machine whether anything is missing.
func (c *Coordinator) closeStage(r *run, publisher *live.Publisher, e lifecycle.CloseStage) {
	publisher.Windows(true)
	last, complete, outcome, err := publisher.EndStage(e)
	if err != nil {
		c.log.Error("the results of a stage cannot be computed", "run", r.id, "error", err)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.abort(r, fmt.Sprintf("the results of stage %d cannot be computed: %v", e.Record.GetStage().GetIndex()+1, err))
		return
	}
	if last != nil {
		c.publish(r, live.ProgressEvent(time.Now(), last))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feed(r, func(r *run, at clock.Instant) { r.machine.Closed(at, complete, outcome) })
}
