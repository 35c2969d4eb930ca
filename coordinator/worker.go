package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
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
func (r *run) work() {
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	publisher := live.NewPublisher(r.points(), r.stages, r.sink, r.ledger, &r.lag, &r.latest, r.publish)
	health := &live.Health{Run: r.points(), Sink: r.sink, Interval: r.cfg.HeartbeatInterval, Agents: r.statuses}
	idle := make(chan struct{}) // closed unless the results of a stage are being computed
	close(idle)
	for {
		select {
		case <-r.ended:
			<-idle
			r.latest.Leave(r.id)
			r.guarded(r.closeSink)
			r.keeper.recorded()
			return
		case e := <-r.toClose:
			<-idle // the machine has heard of the stage before
			done := make(chan struct{})
			idle = done
			r.workers.Go(func() {
				defer close(done)
				r.guarded(func() { r.closeStage(publisher, e) })
			})
		case <-r.stages.Whole:
			r.guarded(func() { r.publishWindows(publisher, idle) })
		case <-tick.C:
			r.guarded(func() {
				r.publishWindows(publisher, idle)
				health.Show(time.Now())
				r.keeper.tick()
			})
		}
	}
}

// publishWindows publishes what has become known since the last time, and tells the machine the time. Unless idle is
// closed, another goroutine has the publisher, and it does only the latter.
func (r *run) publishWindows(publisher *live.Publisher, idle <-chan struct{}) {
	select {
	case <-idle:
	default:
		r.tick(lifecycle.View{}, false)
		return
	}
	publisher.Windows(false)
	view, ruled := publisher.View()
	for _, p := range r.tick(view, ruled) {
		r.publish(publisher.Progress(p))
	}
}

// sinkDeadline is how long a run's sink may take to write its remaining points once the coordinator is being closed.
const sinkDeadline = 30 * time.Second

// sinkPatience is how long a sink may take before a warning is logged.
const sinkPatience = 5 * time.Second

// closeSink closes the sink, which writes its remaining points for as long as their databases take them.
func (r *run) closeSink() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.workers.Go(func() {
		select {
		case <-r.closing:
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
		r.log.Warn("not all points are written yet: waiting for the database", "run", r.id)
	})
	defer slow.Stop()
	if err := r.sink.Close(ctx); err != nil {
		r.log.Warn("not all points were written", "run", r.id, "error", err)
	}
}

// tick tells the machine the time and, if ruled is true, what was merged, and returns the progress to report. While the
// disk is stalled, time stands still for the machine.
func (r *run) tick(view lifecycle.View, ruled bool) []lifecycle.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.disk.Stalled() {
		r.feed(func(m *lifecycle.Run, at clock.Instant) {
			m.Tick(at)
			if ruled {
				m.Observe(at, view)
			}
		})
	}
	out := r.progress
	r.progress = nil
	return out
}

// publish tells followers and the sink of an event that is not written to the ledger: progress, or a window. The event
// is queued after pending writes.
func (r *run) publish(e *spatev1.RunEvent) {
	r.later(func() {
		if n, ok := r.events.Number(e); ok {
			r.deliver(n)
		}
	})
}

// closeStage publishes the rest of a stage and tells the machine whether anything is missing.
func (r *run) closeStage(publisher *live.Publisher, e lifecycle.CloseStage) {
	publisher.Windows(true)
	last, complete, outcome, err := publisher.EndStage(e)
	if err != nil {
		r.log.Error("the results of a stage cannot be computed", "run", r.id, "error", err)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.abort(fmt.Sprintf("the results of stage %d cannot be computed: %v", e.Record.GetStage().GetIndex()+1, err))
		return
	}
	if last != nil {
		r.publish(live.ProgressEvent(time.Now(), last))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.feed(func(m *lifecycle.Run, at clock.Instant) { m.Closed(at, complete, outcome) })
}

// statuses describes the agents of the run that have a session.
func (r *run) statuses() []*spatev1.AgentStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fleet.Statuses(func(name string) bool { return r.fleet.RunOf(name) == r.id }, r.needs)
}

// openSink opens the run's sink. A sink that cannot be opened is logged and does not affect results.
func (r *run) openSink() {
	if r.cfg.OpenSink == nil {
		return
	}
	s, err := r.cfg.OpenSink(r.storage.Dir(r.id))
	if err != nil {
		r.log.Error("the sink cannot be opened: no live results are written", "run", r.id, "error", err)
		return
	}
	r.sink, r.stages.KeepToDates = s, s != sink.Discard
}
