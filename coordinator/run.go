package coordinator

import (
	"maps"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// run is a run and what it needs of the world. It waits, goes on, and has ended. All that changes but events and stages is guarded by
// Coordinator.mu.
type run struct {
	id         string
	record     *spatev1.RunRecord
	submission *spatev1.Submission
	machine    *lifecycle.Run // nil: the run waits, or it ended before it began
	ledger     *aggregate.Ledger
	secrets    map[string]string // values by reference; in memory only
	events     *eventLog
	sink       sink.Sink
	unsaved    bool            // record has changed
	client     string          // version of the client that submitted it; empty: not known
	skewed     map[string]bool // programs of which it was said that they are of another version
	refused    int             // snapshots that its followers were told were refused
	place      int             // runs that came before it when its followers were last told. 0: they were not

	progress []lifecycle.Progress      // to be reported by the worker
	toClose  chan lifecycle.CloseStage // capacity 1: the machine waits for one stage at a time
	ended    chan struct{}             // closed when the run has ended

	mu     sync.RWMutex // guards stages
	stages map[uint32]*measured
}

// makeRun makes a run of what its ledger holds.
func makeRun(record *spatev1.RunRecord, submission *spatev1.Submission, ledger *aggregate.Ledger) *run {
	return &run{
		id: record.GetRunId(), record: record, submission: submission, ledger: ledger, sink: sink.Discard, events: newEventLog(nil, 0),
		toClose: make(chan lifecycle.CloseStage, 1), ended: make(chan struct{}), stages: map[uint32]*measured{},
	}
}

// plan is the name of the run's plan.
func (r *run) plan() string { return r.submission.GetName() }

// points names the run in its points.
func (r *run) points() points.Run { return points.Run{ID: r.id, Plan: r.plan()} }

// stageOf is a stage that has been assigned or skipped, nil if there is none.
func (r *run) stageOf(index uint32) *spatev1.Stage {
	m, _ := r.stage(index)
	return m.record.GetStage()
}

// measured is what is known of a stage that has been assigned.
type measured struct {
	record *spatev1.StageRecord // never changed, only replaced
	merged *aggregate.Stage     // nil once the stage has ended
	first  uint32               // first window to be shown
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
		m.merged = r.newMerge(rec)
	}
	r.stages[index] = m
}

// newMerge begins the merge of a stage. Single windows are for the sink only.
func (r *run) newMerge(rec *spatev1.StageRecord) *aggregate.Stage {
	merged := aggregate.NewStage(rec)
	if r.sink == sink.Discard {
		merged.HideWindows()
	}
	return merged
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
	r := c.active
	if r == nil {
		return
	}
	defer func() {
		if fault := recover(); fault != nil {
			c.faulted(r, fault)
		}
	}()
	event(r, clock.Now())
	c.carryOut(r)
}

// abort ends the run in progress at once. c.mu is held.
func (c *Coordinator) abort(reason string) {
	c.feed(func(r *run, at clock.Instant) { r.machine.Abort(at, reason) })
}

// carryOut carries out the effects of the run in progress, batch by batch: what a batch writes is durable, as a whole, before anybody hears of
// it. If the ledger fails, the batch did not happen and the run ends: what cannot be kept is not to be measured. c.mu is held. The worker
// hears of the end last: it closes the sink, which must not be called after that.
func (c *Coordinator) carryOut(r *run) {
	for effects := r.machine.Effects(); len(effects) > 0; effects = r.machine.Effects() {
		change, events := c.change(r, effects)
		if err := c.write(r, change); err != nil {
			c.log.Error("the ledger cannot be written", "run", r.id, "error", err)
			if !r.machine.Ended() {
				r.machine.Abort(clock.Now(), err.Error())
				continue
			}
		}
		for _, e := range effects {
			c.do(r, e)
		}
		for _, e := range events {
			c.hand(r, e)
		}
	}
	if r.machine.Ended() {
		c.active = nil
		close(r.ended)
		c.beginNext()
	}
}

// write makes a batch durable. For the run's end it gives the reserve up if it must.
func (c *Coordinator) write(r *run, change aggregate.Change) error {
	err := r.ledger.Put(change)
	if err != nil && change.Run.GetEndTime() != nil && c.reserveOf(r.id).giveUp() {
		err = r.ledger.Put(change)
	}
	return err
}

// change is what a batch of effects writes, with its events numbered.
func (c *Coordinator) change(r *run, effects []lifecycle.Effect) (aggregate.Change, []*spatev1.FollowRunResponse) {
	var out aggregate.Change
	for _, e := range effects {
		switch e := e.(type) {
		case lifecycle.PutStage:
			out.Stages = append(out.Stages, e.Record)
		case lifecycle.PutSearch:
			r.record.Searches, r.unsaved = append(r.record.Searches, e.Record), true
		case lifecycle.PutCheckpoint:
			out.Checkpoint = r.machine.Checkpoint()
			out.Checkpoint.BootId = c.boot
			if e.Stage != nil {
				out.Stages = append(out.Stages, e.Stage)
			}
		case lifecycle.Finish:
			r.record.EndTime, r.record.Outcome, r.record.Reason = timestamppb.New(e.Time), e.Outcome, e.Reason
			r.record.Stages, r.record.Complete, r.unsaved = e.Stages, e.Complete, true
			r.record.Verdict = r.verdict(out.Stages)
		case lifecycle.Emit:
			if ended := e.Event.GetRunEnded(); ended != nil {
				ended.Verdict = r.record.GetVerdict()
			}
			if n, ok := r.events.number(e.Event); ok {
				out.Events = append(out.Events, n)
			} else if notice := e.Event.GetNotice(); notice != nil {
				c.log.Info("notice that followers of the run do not get", "run", r.id, "text", notice.GetText())
			}
		}
	}
	if r.unsaved {
		out.Run, r.unsaved = proto.CloneOf(r.record), false
	}
	return out, out.Events
}

// verdict is that on the whole run. The newest records of stages go before those that are known.
func (r *run) verdict(newest []*spatev1.StageRecord) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	records := map[uint32]*spatev1.StageRecord{}
	for index, m := range r.stages {
		records[index] = m.record
	}
	for _, rec := range newest {
		records[rec.GetStage().GetIndex()] = rec
	}
	verdictOf := func(rec *spatev1.StageRecord) trust.Verdict { return trust.Verdict(rec.GetVerdict()) }
	return string(aggregate.RunVerdict(maps.Values(records), r.record.GetSearches(), verdictOf))
}

// do carries out one effect, as far as it is not in the ledger already.
func (c *Coordinator) do(r *run, e lifecycle.Effect) {
	switch e := e.(type) {
	case lifecycle.Send:
		c.send(r, e)
	case lifecycle.PutStage:
		r.put(e.Record)
	case lifecycle.PutCheckpoint:
		if e.Stage != nil {
			r.put(e.Stage)
		}
	case lifecycle.CloseStage:
		r.toClose <- e
	case lifecycle.Progress:
		r.progress = append(r.progress, e)
	case lifecycle.Finish:
		c.finish(r)
	}
}

// send passes a message on, an assignment with the secrets its target needs.
func (c *Coordinator) send(r *run, e lifecycle.Send) {
	s := c.sessions[e.Agent]
	if s == nil {
		return // the machine tells the agent when it comes back
	}
	m := e.Message
	if assign := m.GetAssign(); assign != nil {
		m = proto.CloneOf(m)
		m.GetAssign().Secrets = secretsOf(assign.GetStage().GetTarget(), r.secrets)
	}
	s.send(m)
}

// finish closes the ledger of a run whose end is in it: what happens to followers next is the end, and then the file can be fetched.
func (c *Coordinator) finish(r *run) {
	if err := r.ledger.Close(); err != nil {
		c.log.Error("ledger did not close", "run", r.id, "error", err)
	}
	c.reserveOf(r.id).giveUp()
	c.log.Info("run ended", "run", r.id, "outcome", r.record.GetOutcome(), "complete", r.record.GetComplete(), "reason", r.record.GetReason())
	r.secrets = nil
}

// hand shows an event to followers and sinks.
func (c *Coordinator) hand(r *run, n *spatev1.FollowRunResponse) {
	r.events.append(n)
	if p, ok := points.Event(r.points(), n.GetEvent(), r.stageOf); ok {
		r.sink.Event(p)
	}
}
