package lifecycle

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/agent/arrival"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// stage is the stage in progress.
type stage struct {
	record    *spatev1.StageRecord
	ref       *spatev1.AssignmentRef
	shares    []*share
	start     clock.Instant
	deadline  clock.Instant // of applying, or of stopping
	progress  clock.Instant // when progress was last reported
	immediate bool          // agents have been told to cancel
	gaveUp    string        // why an abort rule ended a probe of a search
}

// share is one agent's part of a stage.
type share struct {
	agent       *agent
	applied     bool
	uncertainty time.Duration
	preparation *spatev1.Preparation // what it found out about the target
	snapshots   uint64               // merged so far
	totals      *spatev1.Totals      // unset: not here yet
	failure     string               // why it was given up
}

// done says that nothing more is waited for.
func (s *share) done() bool {
	return s.failure != "" || s.totals != nil && s.snapshots >= s.totals.GetSnapshots()
}

// share returns an agent's part.
func (s *stage) share(name string) *share {
	for _, p := range s.shares {
		if p.agent.info.GetName() == name {
			return p
		}
	}
	return nil
}

// target is the name of the deployment under test.
func (s *stage) target() string { return s.record.GetStage().GetTarget().GetName() }

// all says whether each share is so.
func (s *stage) all(is func(*share) bool) bool {
	for _, p := range s.shares {
		if !is(p) {
			return false
		}
	}
	return true
}

// fail keeps the first reason.
func (s *stage) fail(reason string) { s.record.Failure = cmp.Or(s.record.Failure, reason) }

// snapshot returns the record with what is known about each agent.
func (s *stage) snapshot() *spatev1.StageRecord {
	for i, p := range s.shares {
		s.record.Agents[i].Failure, s.record.Agents[i].Preparation = p.failure, p.preparation
		if p.failure == "" {
			s.record.Agents[i].Failure = p.totals.GetFailure()
		}
	}
	return clone(s.record)
}

// matches says whether a reference is to this stage's assignment.
func (s *stage) matches(ref *spatev1.AssignmentRef) bool {
	return s != nil && ref.GetRunId() == s.ref.GetRunId() && ref.GetStageIndex() == s.ref.GetStageIndex() &&
		ref.GetRevision() == s.ref.GetRevision()
}

// nextStage begins the next stage that can be, or ends the run.
func (r *Run) nextStage(at clock.Instant) {
	r.stage = nil
	for r.fatal == "" && !r.stopped {
		st := r.upcoming(at)
		if st == nil {
			break
		}
		if reason, dead := r.dead[st.GetTarget().GetName()]; dead {
			r.skip(at, st, reason)
			continue
		}
		r.pending = st
		if pause := st.GetPause().AsDuration(); pause > 0 && r.begun > 0 {
			r.phase, r.resume, r.unsaved = pausing, at.Add(pause), true
			return
		}
		r.beginPending(at)
		return
	}
	r.finish(at)
}

// endPause begins the stage that follows a pause, when it is over.
func (r *Run) endPause(at clock.Instant) {
	if at >= r.resume {
		r.beginPending(at)
	}
}

// beginPending begins the stage that is next, if all agents are there.
func (r *Run) beginPending(at clock.Instant) {
	if r.missAgent() {
		r.finish(at)
		return
	}
	st := r.pending
	r.pending = nil
	r.count(st)
	r.assign(at, st)
}

// count gives a stage its place in the run.
func (r *Run) count(st *spatev1.Stage) {
	st.Index = r.begun
	r.begun++
}

// missAgent ends the run if an agent of the roster is gone.
func (r *Run) missAgent() bool {
	for _, a := range r.roster {
		if a.lost != "" {
			r.fatal, r.incomplete = "agent "+a.info.GetName()+" lost: "+a.lost, true
			return true
		}
	}
	return false
}

// skip passes over a stage.
func (r *Run) skip(at clock.Instant, st *spatev1.Stage, reason string) {
	reason = "skipped: " + reason
	r.count(st)
	r.incomplete = true
	r.do(PutStage{&spatev1.StageRecord{Stage: st, Failure: reason, Ended: true}})
	r.emitEnded(at, st.GetIndex(), false, reason)
}

// assign hands each agent its share.
func (r *Run) assign(at clock.Instant, st *spatev1.Stage) {
	ref := &spatev1.AssignmentRef{RunId: r.id, StageIndex: st.GetIndex(), Revision: 1}
	s := &stage{record: &spatev1.StageRecord{Stage: st}, ref: ref, deadline: at.Add(r.applyTimeout(st))}
	weights := weights(r.roster)
	for i, a := range r.roster {
		a.inFlight = 0
		s.shares = append(s.shares, &share{agent: a})
		s.record.Agents = append(s.record.Agents, &spatev1.AssignedAgent{
			Agent: a.info, Incarnation: a.incarnation, Weight: weights[i],
		})
	}
	r.stage, r.phase = s, applying
	r.do(PutStage{s.snapshot()})
	for i, p := range s.shares {
		r.sendAssign(p, i)
	}
}

// sendAssign hands an agent its share.
func (r *Run) sendAssign(p *share, rank int) {
	s := r.stage
	weights := make([]uint32, len(s.shares))
	for i, a := range s.record.GetAgents() {
		weights[i] = a.GetWeight()
	}
	r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Assign{Assign: &spatev1.Assign{
		Ref: s.ref, Stage: clone(s.record.GetStage()), Records: r.cfg.Records,
		Stripe: &spatev1.Stripe{Weights: weights, Rank: uint32(rank)},
	}}})
}

// slowTransfer is the pace, in bytes a second, at which an agent must be able to fetch a dataset. Others may fetch it at the same time.
const slowTransfer = 1 << 20

// applyTimeout is how long agents may take to get ready: longer, if they may have to fetch a dataset first.
func (r *Run) applyTimeout(st *spatev1.Stage) time.Duration {
	return r.cfg.ApplyTimeout + time.Duration(st.GetDataset().GetSize()/slowTransfer)*time.Second
}

// maxWeights is the largest sum of weights that is taken as it is: a larger one makes patterns longer than many stages.
const maxWeights = 10_000

// weights are the agents' own, rounded if they sum up to too much. 0 is no weight: it counts as 1.
func weights(roster []*agent) []uint32 {
	out, capacities, sum := make([]uint32, len(roster)), make([]float64, len(roster)), uint64(0)
	for i, a := range roster {
		out[i] = max(1, a.info.GetWeight())
		capacities[i] = float64(out[i])
		sum += uint64(out[i])
	}
	if sum <= maxWeights {
		return out
	}
	rounded, err := arrival.Quantise(capacities, max(maxWeights, uint32(len(roster))))
	if err != nil {
		return out // more agents than a pattern can hold: they say so themselves, by rejecting it
	}
	return rounded
}

// Applied says that an agent is ready to start its share.
func (r *Run) Applied(at clock.Instant, name string, m *spatev1.Applied) {
	if r.phase != applying || !r.stage.matches(m.GetRef()) {
		return
	}
	p := r.stage.share(name)
	if p == nil {
		return
	}
	p.applied, p.uncertainty, p.preparation = true, time.Duration(m.GetClockUncertaintyNs()), m.GetPreparation()
	r.passOn(at, m.GetPreparation().GetNotes())
	if r.stage.all(func(p *share) bool { return p.applied }) {
		r.arm(at)
	}
}

// passOn tells people what agents found out about the target, each thing once.
func (r *Run) passOn(at clock.Instant, notes []string) {
	for _, note := range notes {
		text := r.stage.target() + ": " + note
		if !r.noted[text] {
			r.noted[text], r.unsaved = true, true
			r.notice(at, spatev1.Severity_SEVERITY_INFO, "%s", text)
		}
	}
}

// Rejected says why an agent does not take its share. The stage fails. Unless the target is dead another load may be possible, so
// its next stage is tried; the same reason again ends the target.
func (r *Run) Rejected(at clock.Instant, name string, m *spatev1.Rejected) {
	if r.phase != applying || !r.stage.matches(m.GetRef()) || r.stage.share(name) == nil {
		return
	}
	r.stage.share(name).failure = "rejected: " + m.GetReason()
	reason := "agent " + name + " rejected its share: " + m.GetReason()
	kind, target := m.GetKind(), r.stage.target()
	if r.rejected[target] == reason {
		kind = spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD
	}
	r.rejected[target] = reason
	r.failShare(at, kind, reason)
}

// arm sets the start.
func (r *Run) arm(at clock.Instant) {
	s := r.stage
	s.start = at.Add(r.lead())
	s.progress = s.start
	s.record.StartTime = timestamppb.New(r.wallTime(s.start))
	r.phase = running
	r.do(PutStage{s.snapshot()})
	for _, p := range s.shares {
		r.sendArm(p)
	}
	r.emit(at, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageBegan{StageBegan: began(s.record.GetStage())}})
}

// sendArm tells an agent the start.
func (r *Run) sendArm(p *share) {
	r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Arm{Arm: &spatev1.Arm{
		Ref: r.stage.ref, StartClockNs: int64(r.stage.start),
	}}})
}

// lead is the time from arming to the start: short if all clocks are known to be as good as one. An uncertainty of 0 means that
// it is not known.
func (r *Run) lead() time.Duration {
	var worst time.Duration
	near := true
	for _, p := range r.stage.shares {
		worst = max(worst, p.uncertainty)
		near = near && p.uncertainty > 0 && p.uncertainty <= r.cfg.NearUncertainty
	}
	if near {
		return r.cfg.NearLead
	}
	return r.cfg.FarLead + worst
}

// Merged says that a snapshot is in the ledger and was not there before.
func (r *Run) Merged(at clock.Instant, snapshot *spatev1.Snapshot) {
	p := r.tally(snapshot)
	if p == nil {
		return
	}
	if snapshot.GetTotals() == nil || !r.heed(at, p) {
		r.settle()
	}
}

// tally counts a snapshot of the stage in progress and returns whose it is, nil if it is none.
func (r *Run) tally(snapshot *spatev1.Snapshot) *share {
	s := r.stage
	if s == nil || snapshot.GetStageIndex() != s.ref.GetStageIndex() || r.phase != running && r.phase != stopping {
		return nil
	}
	key := snapshot.GetKey()
	p := s.share(key.GetAgent())
	if p == nil || p.agent.incarnation != key.GetIncarnation() {
		return nil
	}
	p.snapshots++
	if t := snapshot.GetTotals(); t != nil {
		p.totals = t
	}
	return p
}

// heed ends the stage if a share's totals say that it failed.
func (r *Run) heed(at clock.Instant, p *share) (failed bool) {
	t := p.totals
	if t.GetFailure() == "" || t.GetStopped() {
		return false
	}
	r.failShare(at, t.GetFailureKind(), "agent "+p.agent.info.GetName()+": "+t.GetFailure())
	return true
}

// Closed says that the shell has worked out a stage's result, whether anything is missing from it, and what sweeps and searches
// go on by.
func (r *Run) Closed(at clock.Instant, complete bool, outcome series.Outcome) {
	if r.phase != closing {
		return
	}
	rec := r.stage.record
	r.incomplete, r.unsaved = r.incomplete || !complete, true
	r.emitEnded(at, rec.GetStage().GetIndex(), complete, rec.GetFailure())
	r.takeOutcome(at, complete, outcome)
	r.nextStage(at)
}

// settle closes the stage if nothing more is waited for.
func (r *Run) settle() {
	if r.stage.all((*share).done) {
		r.closeStage()
	}
}

// closeStage hands the stage to the shell.
func (r *Run) closeStage() {
	r.phase = closing
	r.stage.record.Ended = true
	rec := r.stage.snapshot()
	r.do(PutStage{rec})
	r.do(CloseStage{Record: rec, Keep: r.objectives()})
}

func (r *Run) send(p *share, m *spatev1.ConnectResponse) {
	r.do(Send{Agent: p.agent.info.GetName(), Message: m})
}

func (r *Run) emitEnded(at clock.Instant, index uint32, complete bool, failure string) {
	r.emit(at, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{
		StageIndex: index, Complete: complete, Failure: failure,
	}}})
}
