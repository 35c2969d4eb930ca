package coordinator

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/coordinator/fleet"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
	to      *fleet.Session
	message *spatev1.ConnectResponse
}

// ends reports whether the batch contains the run's end.
func (b batch) ends() bool {
	return slices.ContainsFunc(b.effects, func(e lifecycle.Effect) bool { _, ok := e.(lifecycle.Finish); return ok })
}

// carryOut queues the effects of a run's machine. The lock is held.
func (r *run) carryOut() {
	b := batch{epoch: r.epoch, effects: r.machine.Effects()}
	if len(b.effects) == 0 {
		return
	}
	for _, e := range b.effects {
		switch e := e.(type) {
		case lifecycle.Send:
			if s := r.fleet.Session(e.Agent); s != nil { // else the machine tells the agent when it comes back
				b.messages = append(b.messages, outgoing{s, r.withSecrets(e.Message)})
			}
		case lifecycle.PutCheckpoint:
			b.checkpoint = r.machine.Checkpoint()
			b.checkpoint.BootId = r.boot
		}
	}
	r.later(func() { r.perform(b) })
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
func (r *run) perform(b batch) {
	change, ok := r.change(b)
	if !ok {
		return
	}
	if err := r.write(change); err != nil && !r.unwritten(b, err) {
		return
	}
	r.do(b)
	if b.ends() {
		r.finish(change.Events)
		return
	}
	for _, e := range change.Events {
		r.deliver(e)
	}
}

// unwritten ends the run because a batch cannot be written. It reports whether the batch is carried out all the same:
// the run's end is told even if it cannot be kept.
func (r *run) unwritten(b batch, err error) bool {
	r.log.Error("the ledger cannot be written", "run", r.id, "error", err)
	if b.ends() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch, r.failed = r.epoch+1, cmp.Or(r.failed, err.Error())
	r.abort(err.Error())
	return false
}

// write makes a change durable. If the run's end does not fit on the disk, it frees the reserve and tries again.
func (r *run) write(change ledger.Change) error {
	err := r.disk.Put(change)
	if err != nil && change.Run.GetEndTime() != nil && r.storage.Reserve(r.id).Release() {
		err = r.disk.Put(change)
	}
	return err
}

// tryWrite writes a change that may be lost: a failure is only logged.
func (r *run) tryWrite(change ledger.Change) {
	if err := r.write(change); err != nil {
		r.log.Error("the ledger cannot be written", "run", r.id, "error", err)
	}
}

// change returns what a batch writes, with its events numbered. It returns false if the batch is dropped.
func (r *run) change(b batch) (out ledger.Change, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.epoch != r.epoch && !b.ends() {
		return out, false
	}
	for _, e := range b.effects {
		switch e := e.(type) {
		case lifecycle.PutStage:
			out.Stages = append(out.Stages, e.Record)
		case lifecycle.PutSeries:
			r.record.Series, r.unsaved = append(r.record.Series, e.Record), true
		case lifecycle.PutCheckpoint:
			out.Checkpoint = b.checkpoint
			if e.Stage != nil {
				out.Stages = append(out.Stages, e.Stage)
			}
		case lifecycle.Finish:
			r.conclude(e)
			r.record.Verdict = r.verdict(out.Stages)
		case lifecycle.Emit:
			out.Events = append(out.Events, r.numbered(e.Event)...)
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
	if r.failed != "" && e.Outcome == spatev1.Outcome_OUTCOME_DONE {
		r.record.Outcome, r.record.Reason, r.record.Complete = spatev1.Outcome_OUTCOME_FAILED, r.failed, false
	}
}

// numbered returns the event with its number, or nothing if followers do not get it.
func (r *run) numbered(e *spatev1.RunEvent) []*spatev1.FollowRunResponse {
	if ended := e.GetRunEnded(); ended != nil {
		ended.Outcome, ended.Reason, ended.Complete = r.record.GetOutcome(), r.record.GetReason(),
			r.record.GetComplete()
		ended.Verdict = r.record.GetVerdict()
	}
	if n, ok := r.events.Number(e); ok {
		return []*spatev1.FollowRunResponse{n}
	}
	if notice := e.GetNotice(); notice != nil {
		r.log.Info("notice that followers of the run do not get", "run", r.id, "text", notice.GetText())
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
func (r *run) do(b batch) {
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
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range b.messages {
		l.to.Send(l.message)
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
func (r *run) finish(last []*spatev1.FollowRunResponse) {
	if err := r.ledger.Close(); err != nil {
		r.log.Error("the ledger cannot be closed", "run", r.id, "error", err)
	}
	r.storage.Reserve(r.id).Release()
	r.log.Info("run ended", "run", r.id, "outcome", r.record.GetOutcome(), "complete", r.record.GetComplete(),
		"reason", r.record.GetReason())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = nil
	for _, e := range last {
		r.deliver(e)
	}
	r.release()
}

// release marks a run as over. If it was in progress, others may take its agents. The lock is held.
func (r *run) release() {
	r.over()
	if r.inProgress {
		r.keeper.released(r)
	}
}

// deliver passes an event to followers and to the sink.
func (r *run) deliver(n *spatev1.FollowRunResponse) {
	r.events.Append(n)
	if p, ok := points.Event(r.points(), n.GetEvent(), r.stages.Plan); ok {
		r.sink.Put(p)
	}
}
