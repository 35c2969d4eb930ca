package coordinator

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/allotment"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/live"
	"github.com/spate-load/spate/coordinator/storage"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// run is a run with its ledger, sink and followers. It waits, then is in progress, then has ended. Coordinator.mu
// guards all that changes, except events, stages, and the sink, which is opened before anything uses it.
type run struct {
	id         string
	record     *spatev1.RunRecord
	submission *spatev1.Submission
	machine    *lifecycle.Run   // nil: the run waits, ended before it began, or is being rebuilt
	rebuilt    chan struct{}    // closed when an earlier coordinator's run continues; nil: of others
	ledger     *ledger.Ledger   // nil: the run is being rebuilt
	disk       *storage.Watched // the ledger, for writes that others wait for
	writes     storage.Queue
	epoch      int               // raised when a write fails: batches of earlier epochs are dropped
	unwritten  string            // why a write failed; empty: none did
	secrets    map[string]string // values by reference; kept in memory only
	events     *live.EventLog
	sink       sink.Sink
	stages     *live.Stages
	claims     storage.Claims
	unsaved    bool               // record has changed
	freeing    bool               // agents that it does not need are about to be freed
	client     string             // version of the client that submitted it; empty: not known
	skewed     map[string]bool    // programs whose other version was told
	refused    int                // refused snapshots that were reported to its followers
	wait       allotment.Decision // while it waits: what for
	told       string             // what its followers were last told about that

	progress []lifecycle.Progress      // to be reported by the worker
	toClose  chan lifecycle.CloseStage // capacity 1: the machine waits for one stage at a time
	ended    chan struct{}             // closed when the run has ended
	once     sync.Once                 // closes ended
}

// makeRun makes a run from what its ledger holds. setLedger must be called next.
func makeRun(record *spatev1.RunRecord, submission *spatev1.Submission) *run {
	return &run{
		id: record.GetRunId(), record: record, submission: submission, sink: sink.Discard,
		events:  live.NewEventLog(nil, 0),
		toClose: make(chan lifecycle.CloseStage, 1), ended: make(chan struct{}), stages: &live.Stages{},
	}
}

// setLedger gives a run its open ledger.
func (c *Coordinator) setLedger(r *run, l *ledger.Ledger) {
	r.ledger, r.disk = l, storage.Watch(c.diskOf(l), clock.Now)
	c.storage.Reserve(r.id).Hold(c.log)
}

// over marks the run as ended, or as left to another coordinator.
func (r *run) over() { r.once.Do(func() { close(r.ended) }) }

// plan returns the name of the run's plan.
func (r *run) plan() string { return r.submission.GetName() }

// points returns the run's identity for its points.
func (r *run) points() points.Run { return points.Run{ID: r.id, Plan: r.plan()} }

// feed gives an event that happens now to the machine of a run. c.mu is held.
func (c *Coordinator) feed(r *run, event func(r *run, at clock.Instant)) {
	c.feedAt(r, clock.Now(), event)
}

// feedAt gives an event to the machine of a run, if the run is in progress, and queues the effects. A run that is being
// rebuilt has no machine: what it misses is made up for by resume. c.mu is held.
func (c *Coordinator) feedAt(r *run, at clock.Instant, event func(r *run, at clock.Instant)) {
	if !c.inProgress(r) || !r.isRebuilt() {
		return
	}
	c.confined(r, func() {
		event(r, at)
		c.carryOut(r)
	})
}

// confined calls do, which uses a run's machine, and ends that run if do panics. c.mu is held.
func (c *Coordinator) confined(r *run, do func()) {
	defer func() {
		if fault := recover(); fault != nil {
			c.faulted(r, fault)
		}
	}()
	do()
}

// abort ends a run at once, if it is in progress. c.mu is held.
func (c *Coordinator) abort(r *run, reason string) {
	c.feed(r, func(r *run, at clock.Instant) { r.machine.Abort(at, reason) })
}

// later queues a task of a run that waits or is in progress. A run's tasks run one after another, without c.mu. It does
// not block. c.mu is held, or the caller is one of c.workers.
func (c *Coordinator) later(r *run, task func()) {
	if r.writes.Push(task) {
		c.workers.Go(func() {
			for task := r.writes.Pop(); task != nil; task = r.writes.Pop() {
				c.guarded(r, task)
			}
		})
	}
}

// written returns a channel that is closed when everything queued for a run so far is durable or has failed. c.mu is
// held.
func (c *Coordinator) written(r *run) <-chan struct{} {
	done := make(chan struct{})
	if c.closed {
		close(done) // no new tasks while the coordinator closes
		return done
	}
	c.later(r, func() { close(done) })
	return done
}

// batch holds effects that the machine returned together. All that a batch writes becomes durable in one change, before
// agents or followers learn of it.
type batch struct {
	epoch      int
	effects    []lifecycle.Effect
	checkpoint *spatev1.Checkpoint // state at the time of the effects
	messages   []outgoing
}

// outgoing is a message to the session that was connected when the machine sent it. An agent that reconnects is told
// again by the machine.
type outgoing struct {
	to      *session
	message *spatev1.ConnectResponse
}

// ends reports whether the batch contains the run's end.
func (b batch) ends() bool {
	return slices.ContainsFunc(b.effects, func(e lifecycle.Effect) bool { _, ok := e.(lifecycle.Finish); return ok })
}

// carryOut queues the effects of a run's machine. c.mu is held.
func (c *Coordinator) carryOut(r *run) {
	b := batch{epoch: r.epoch, effects: r.machine.Effects()}
	if len(b.effects) == 0 {
		return
	}
	for _, e := range b.effects {
		switch e := e.(type) {
		case lifecycle.Send:
			if s := c.sessions[e.Agent]; s != nil { // else the machine tells the agent when it comes back
				b.messages = append(b.messages, outgoing{s, r.withSecrets(e.Message)})
			}
		case lifecycle.PutCheckpoint:
			b.checkpoint = r.machine.Checkpoint()
			b.checkpoint.BootId = c.boot
		}
	}
	c.later(r, func() { c.perform(r, b) })
}

// withSecrets adds the secrets that the target needs to an assignment. Other messages stay as they are. The copy shares
// all else with m, as the assignments of all agents do: they have the weights of all agents.
func (r *run) withSecrets(m *spatev1.ConnectResponse) *spatev1.ConnectResponse {
	secrets := secretsOf(m.GetAssign().GetStage().GetTarget(), r.secrets)
	if len(secrets) == 0 {
		return m
	}
	assign := &spatev1.Assign{}
	m.GetAssign().ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		assign.ProtoReflect().Set(field, value)
		return true
	})
	assign.Secrets = secrets
	return &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Assign{Assign: assign}}
}

// perform writes a batch and then carries it out. If the write fails, the batch is dropped and the run ends, because a
// run must not measure what it cannot keep. It is a task of the run's write queue.
func (c *Coordinator) perform(r *run, b batch) {
	change, ok := c.change(r, b)
	if !ok {
		return
	}
	if err := c.write(r, change); err != nil && !c.unwritten(r, b, err) {
		return
	}
	c.do(r, b)
	if b.ends() {
		c.finish(r, change.Events)
		return
	}
	for _, e := range change.Events {
		c.deliver(r, e)
	}
}

// unwritten ends the run because a batch cannot be written. It reports whether the batch is carried out all the same:
// the run's end is told even if it cannot be kept.
func (c *Coordinator) unwritten(r *run, b batch, err error) bool {
	c.log.Error("the ledger cannot be written", "run", r.id, "error", err)
	if b.ends() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.epoch, r.unwritten = r.epoch+1, cmp.Or(r.unwritten, err.Error())
	c.abort(r, err.Error())
	return false
}

// write makes a change durable. If the run's end does not fit on the disk, it frees the reserve and tries again.
func (c *Coordinator) write(r *run, change ledger.Change) error {
	err := r.disk.Put(change)
	if err != nil && change.Run.GetEndTime() != nil && c.storage.Reserve(r.id).Release() {
		err = r.disk.Put(change)
	}
	return err
}

// change returns what a batch writes, with its events numbered. It returns false if the batch is dropped.
func (c *Coordinator) change(r *run, b batch) (out ledger.Change, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.epoch != r.epoch && !b.ends() {
		return out, false
	}
	for _, e := range b.effects {
		switch e := e.(type) {
		case lifecycle.PutStage:
			out.Stages = append(out.Stages, e.Record)
		case lifecycle.PutSearch:
			r.record.Searches, r.unsaved = append(r.record.Searches, e.Record), true
		case lifecycle.PutFrontier:
			r.record.Frontiers, r.unsaved = append(r.record.Frontiers, e.Record), true
		case lifecycle.PutCheckpoint:
			out.Checkpoint = b.checkpoint
			if e.Stage != nil {
				out.Stages = append(out.Stages, e.Stage)
			}
		case lifecycle.Finish:
			r.conclude(e)
			r.record.Verdict = r.verdict(out.Stages)
		case lifecycle.Emit:
			out.Events = append(out.Events, c.numbered(r, e.Event)...)
		}
	}
	if r.unsaved {
		out.Run, r.unsaved = proto.CloneOf(r.record), false
	}
	return out, true
}

// conclude puts the run's end into its record. A run with a failed write has failed, even if its machine says that it
// is done.
func (r *run) conclude(e lifecycle.Finish) {
	r.record.EndTime, r.record.Outcome, r.record.Reason = timestamppb.New(e.Time), e.Outcome, e.Reason
	r.record.Stages, r.record.Complete, r.unsaved = e.Stages, e.Complete, true
	if r.unwritten != "" && e.Outcome == spatev1.Outcome_OUTCOME_DONE {
		r.record.Outcome, r.record.Reason, r.record.Complete = spatev1.Outcome_OUTCOME_FAILED, r.unwritten, false
	}
}

// numbered returns the event with its number, or nothing if followers do not get it.
func (c *Coordinator) numbered(r *run, e *spatev1.RunEvent) []*spatev1.FollowRunResponse {
	if ended := e.GetRunEnded(); ended != nil {
		ended.Outcome, ended.Reason, ended.Complete = r.record.GetOutcome(), r.record.GetReason(),
			r.record.GetComplete()
		ended.Verdict = r.record.GetVerdict()
	}
	n, ok := r.events.Number(e)
	if ok {
		return []*spatev1.FollowRunResponse{n}
	}
	if notice := e.GetNotice(); notice != nil {
		c.log.Info("notice that followers of the run do not get", "run", r.id, "text", notice.GetText())
	}
	return nil
}

// verdict returns the verdict on the whole run. Records in newest replace those already stored.
func (r *run) verdict(newest []*spatev1.StageRecord) string {
	records := r.stages.Records()
	for _, rec := range newest {
		records[rec.GetStage().GetIndex()] = rec
	}
	verdictOf := func(rec *spatev1.StageRecord) trust.Verdict { return trust.Verdict(rec.GetVerdict()) }
	return string(results.RunVerdict(maps.Values(records), r.record, verdictOf))
}

// do carries out the effects of a batch that has been written. Records come first, because the snapshots that agents
// send in answer are checked against them.
func (c *Coordinator) do(r *run, b batch) {
	for _, e := range b.effects {
		switch e := e.(type) {
		case lifecycle.PutStage:
			r.stages.Put(e.Record)
		case lifecycle.PutCheckpoint:
			if e.Stage != nil {
				r.stages.Put(e.Stage)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range b.messages {
		l.to.send(l.message)
	}
	for _, e := range b.effects {
		switch e := e.(type) {
		case lifecycle.CloseStage:
			r.toClose <- e
		case lifecycle.Progress:
			r.progress = append(r.progress, e)
		}
	}
}

// finish closes the ledger of a run whose end has been written, and tells the run's followers, who can fetch the file
// from then on. The run's worker learns of the end last: the worker closes the sink, which must not be called after
// that.
func (c *Coordinator) finish(r *run, last []*spatev1.FollowRunResponse) {
	if err := r.ledger.Close(); err != nil {
		c.log.Error("the ledger cannot be closed", "run", r.id, "error", err)
	}
	c.storage.Reserve(r.id).Release()
	c.log.Info("run ended", "run", r.id, "outcome", r.record.GetOutcome(), "complete", r.record.GetComplete(),
		"reason", r.record.GetReason())
	c.mu.Lock()
	defer c.mu.Unlock()
	r.secrets = nil
	for _, e := range last {
		c.deliver(r, e)
	}
	c.release(r)
}

// release marks a run as over. If it was in progress, others may take its agents. c.mu is held.
func (c *Coordinator) release(r *run) {
	r.over()
	if c.inProgress(r) {
		c.removeActive(r)
		c.allot(clock.Now())
	}
}

// removeActive removes a run from those in progress, and makes its agents free. c.mu is held.
func (c *Coordinator) removeActive(r *run) {
	c.active = slices.DeleteFunc(c.active, func(other *run) bool { return other == r })
	c.free(r, nil)
}

// deliver passes an event to followers and to the sink.
func (c *Coordinator) deliver(r *run, n *spatev1.FollowRunResponse) {
	r.events.Append(n)
	if p, ok := points.Event(r.points(), n.GetEvent(), r.stages.Plan); ok {
		r.sink.Put(p)
	}
}
