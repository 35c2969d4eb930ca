package coordinator

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// run is a run and what it needs of the world. The machine is guarded by Coordinator.mu.
type run struct {
	id      string
	plan    string
	record  *spatev1.RunRecord
	machine *lifecycle.Run
	ledger  *aggregate.Ledger
	secrets map[string]string // values by reference; in memory only
	events  *eventLog
	sink    sink.Sink

	progress []lifecycle.Progress      // to be reported by the worker; guarded by Coordinator.mu
	toClose  chan lifecycle.CloseStage // capacity 1: the machine waits for one stage at a time
	ended    chan struct{}             // closed when the machine has ended

	mu     sync.RWMutex // guards stages
	stages map[uint32]*measured
}

// measured is what is known of a stage that has been assigned.
type measured struct {
	record *spatev1.StageRecord // never changed, only replaced
	merged *aggregate.Stage     // nil once the stage has ended
	last   uint32               // highest window that a snapshot came from
}

// put takes in a stage's record. The first one begins the merge.
func (r *run) put(rec *spatev1.StageRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index := rec.GetStage().GetIndex()
	if m := r.stages[index]; m != nil {
		if m.merged != nil {
			m.merged.Update(rec)
		}
		m.record = rec
		return
	}
	m := &measured{record: rec}
	if !rec.GetEnded() {
		m.merged = aggregate.NewStage(rec)
		if r.sink == sink.Discard {
			m.merged.HideWindows()
		}
	}
	r.stages[index] = m
}

// stage returns a copy of what is known of a stage, false if it has not been assigned.
func (r *run) stage(index uint32) (measured, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, ok := r.stages[index]
	if !ok {
		return measured{}, false
	}
	return *m, true
}

// saw notes that a snapshot of a window came.
func (r *run) saw(index, window uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.stages[index]
	m.last = max(m.last, window)
}

// forget lets go of a stage's measurements, which are in the ledger.
func (r *run) forget(index uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stages[index].merged = nil
}

// feed gives the machine of the run in progress an event and carries out what follows. c.mu is held.
func (c *Coordinator) feed(event func(r *run, at clock.Instant)) {
	if r := c.active; r != nil {
		event(r, clock.Now())
		c.carryOut(r)
	}
}

// abort ends the run in progress at once. c.mu is held.
func (c *Coordinator) abort(reason string) {
	c.feed(func(r *run, at clock.Instant) { r.machine.Abort(at, reason) })
}

// carryOut carries out the effects of the run in progress. If the ledger fails, the run ends: what cannot be kept is not to be
// measured. c.mu is held. The worker hears of the end last: it closes the sink, which must not be called after that.
func (c *Coordinator) carryOut(r *run) {
	for effects := r.machine.Effects(); len(effects) > 0; effects = r.machine.Effects() {
		for _, e := range effects {
			if err := c.do(r, e); err != nil {
				c.log.Error("run cannot go on", "run", r.id, "error", err)
				r.machine.Abort(clock.Now(), err.Error())
			}
		}
	}
	if r.machine.Ended() {
		c.active = nil
		close(r.ended)
	}
}

// do carries out one effect.
func (c *Coordinator) do(r *run, e lifecycle.Effect) error {
	switch e := e.(type) {
	case lifecycle.Send:
		c.send(r, e)
	case lifecycle.PutStage:
		r.put(e.Record)
		return r.ledger.PutStage(e.Record)
	case lifecycle.PutSearch:
		r.record.Searches = append(r.record.Searches, e.Record)
		return r.ledger.PutRun(r.record)
	case lifecycle.CloseStage:
		r.toClose <- e
	case lifecycle.Progress:
		r.progress = append(r.progress, e)
	case lifecycle.Emit:
		c.publish(r, e.Event)
	case lifecycle.Finish:
		c.finish(r, e)
	}
	return nil
}

// send passes a message on, an assignment with the secrets its target needs.
func (c *Coordinator) send(r *run, e lifecycle.Send) {
	s := c.sessions[e.Agent]
	if s == nil {
		return // the machine hears of the loss, if it has not yet
	}
	m := e.Message
	if assign := m.GetAssign(); assign != nil {
		m = proto.CloneOf(m)
		m.GetAssign().Secrets = secretsOf(assign.GetStage().GetTarget(), r.secrets)
	}
	s.send(m)
}

// finish writes the run's end and closes its ledger: what happens to followers next is the end, and then the file can be fetched.
func (c *Coordinator) finish(r *run, f lifecycle.Finish) {
	record := proto.CloneOf(r.record)
	record.EndTime, record.Outcome, record.Reason = timestamppb.New(f.Time), f.Outcome, f.Reason
	record.Stages = f.Stages
	if err := r.ledger.PutRun(record); err != nil {
		c.log.Error("the run's end is not in its ledger", "run", r.id, "error", err)
	}
	if err := r.ledger.Close(); err != nil {
		c.log.Error("ledger did not close", "run", r.id, "error", err)
	}
	c.log.Info("run ended", "run", r.id, "outcome", f.Outcome, "complete", f.Complete, "reason", f.Reason)
	r.secrets = nil
}

// publish tells followers and sinks.
func (c *Coordinator) publish(r *run, e *spatev1.RunEvent) {
	if added, notice := r.events.add(e), e.GetNotice(); !added && notice != nil {
		c.log.Info("notice that followers of the run do not get", "run", r.id, "text", notice.GetText())
	}
	if p, ok := eventPoint(r, e); ok {
		r.sink.Event(p)
	}
}

// tickInterval bounds how late the machine notices that time has passed.
const tickInterval = 100 * time.Millisecond

// conduct is the run's worker: it tells the machine the time and does what takes long outside the lock. It ends with the run.
func (c *Coordinator) conduct(r *run) {
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	live := &live{run: r, shown: &c.shown}
	for {
		select {
		case <-r.ended:
			c.closeSink(r)
			return
		case e := <-r.toClose:
			c.closeStage(r, live, e)
		case <-tick.C:
			live.show(false)
			progress := c.tick(r, live)
			for _, p := range progress {
				c.publish(r, live.progress(p))
			}
		}
	}
}

// sinkDeadline is how long a run's sink may go on handing on what it has after the run's end.
const sinkDeadline = 15 * time.Second

// sinkPatience is how long a sink may take before a person is told what is waited for.
const sinkPatience = time.Second

// closeSink lets the sink hand on the rest.
func (c *Coordinator) closeSink(r *run) {
	ctx, cancel := context.WithTimeout(context.Background(), sinkDeadline)
	defer cancel()
	slow := time.AfterFunc(sinkPatience, func() {
		c.log.Warn("not all points are written yet: waiting for their database", "run", r.id, "at_most", sinkDeadline)
	})
	defer slow.Stop()
	if err := r.sink.Close(ctx); err != nil {
		c.log.Warn("not all points were written", "run", r.id, "error", err)
	}
}

// tick tells the machine the time and what was merged, and returns the progress it wants reported.
func (c *Coordinator) tick(r *run, live *live) []lifecycle.Progress {
	view, ruled := live.view()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == r {
		c.feed(func(r *run, at clock.Instant) {
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

// closeStage hands on what is left of a stage, and tells the machine whether anything is missing.
func (c *Coordinator) closeStage(r *run, live *live, e lifecycle.CloseStage) {
	live.show(true)
	last, complete, outcome := live.end(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == r {
		if last != nil {
			c.publish(r, progressAt(time.Now(), last))
		}
		c.feed(func(r *run, at clock.Instant) { r.machine.Closed(at, complete, outcome) })
	}
}
