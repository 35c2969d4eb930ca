package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// assign gives each agent of the roster its assignment and starts the applying phase.
func (r *Run) assign(at clock.Instant, st *spatev1.Stage, revision uint32) {
	s := &stage{
		record: &spatev1.StageRecord{Stage: st}, deadline: at.Add(r.applyTimeout(st)), declined: map[string][]uint64{},
		ref: &spatev1.AssignmentRef{RunId: r.id, StageIndex: st.GetIndex(), Revision: revision},
	}
	for _, a := range r.roster {
		a.inFlight = 0
		s.assignments = append(s.assignments, &assignment{agent: a, revision: revision, knows: revision})
	}
	s.weigh(st.GetRegions())
	for _, p := range s.assignments {
		s.enter(p)
	}
	if !named(r.roster)[r.finder] {
		r.finder = r.roster[0].name()
	}
	r.stage, r.phase = s, applying
	r.do(PutStage{s.snapshot()})
	for _, p := range s.assignments {
		r.sendAssign(p)
	}
}

// weigh sets rank and weight of the assignments.
func (s *stage) weigh(regions map[string]float64) {
	agents := lists.Each(s.assignments, func(p *assignment) *spatev1.AgentInfo { return p.agent.info })
	for i, w := range weightsOf(agents, regions) {
		s.assignments[i].rank, s.assignments[i].weight = uint32(i), w
	}
}

// enter adds an assignment to the record.
func (s *stage) enter(p *assignment) {
	s.record.Agents = append(s.record.Agents, &spatev1.AssignedAgent{
		Agent: clone(p.agent.info), Incarnation: p.agent.incarnation, Weight: p.weight,
		JoinedNs: p.joined.Nanoseconds(),
	})
}

// sendAssign sends an agent its current assignment.
func (r *Run) sendAssign(p *assignment) {
	s := r.stage
	m := &spatev1.Assign{
		Ref: s.refTo(p), Stage: s.record.GetStage(), Records: r.cfg.Records, Stripe: s.stripe(p),
		ServerSources: s.serverSources(p), Found: s.record.GetFound(),
	}
	m.AwaitsFound = r.phase == applying && m.GetFound() == nil && p.agent.name() != r.finder
	if policyOf(s.record.GetStage()) == reassign {
		m.Lease = durationpb.New(r.lease())
	}
	r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Assign{Assign: m}})
}

// slowTransfer is the rate, in bytes a second, at which an agent must be able to fetch a dataset while other agents
// fetch it too.
const slowTransfer = 1 << 20

// applyTimeout returns how long agents may take to get ready for a stage: longer if they may have to fetch a dataset
// first, or to wait for the server.
func (r *Run) applyTimeout(st *spatev1.Stage) time.Duration {
	bytes := lists.Sum(content.Sources(st), func(source content.Source) uint64 { return source.Rows.GetSize() })
	asking := time.Duration(0)
	if st.GetCanaries() != nil {
		asking = askCanaries
	}
	return getReady + asking + time.Duration(bytes/slowTransfer)*time.Second +
		st.GetTarget().GetReady().GetWithin().AsDuration()
}

// Applied handles an agent's message that it has applied its assignment or a change of its assignment.
func (r *Run) Applied(at clock.Instant, name string, m *spatev1.Applied) {
	if !r.stage.concerns(m.GetRef()) {
		return
	}
	if c := r.joining; c != nil && c.agent.name() == name && c.revision == m.GetRef().GetRevision() {
		c.markApplied(m)
		r.tellNotes(at, m.GetPreparation().GetNotes())
		r.join(at, c)
		return
	}
	p := r.assignmentOf(r.agents[name])
	switch {
	case p == nil || p.failure != "":
	case r.phase == applying && r.stage.matches(m.GetRef()):
		p.markApplied(m)
		r.share(at, m.GetFound())
		r.tellNotes(at, m.GetPreparation().GetNotes())
		r.armIfReady(at)
	case r.phase == running || r.phase == stopping:
		p.agreed(m.GetRef().GetRevision())
	}
}

// markApplied stores what an agent reports when it is ready.
func (p *assignment) markApplied(m *spatev1.Applied) {
	p.applied, p.uncertainty, p.preparation = true, time.Duration(m.GetClockUncertaintyNs()), m.GetPreparation()
}

// share passes what one agent found out about the target on to the others, which wait for it. So all do the same, and
// the server is asked once however many agents there are.
func (r *Run) share(at clock.Instant, found *spatev1.Found) {
	s := r.stage
	if found == nil || s.record.Found != nil {
		return
	}
	s.record.Found, r.unsaved = found, true
	if n := found.GetPreparation().GetRequests(); n > 0 {
		r.tellNotes(at, []string{fmt.Sprintf("Short requests that showed what the server does: %d.", n)})
	}
	for _, p := range s.assignments {
		if !p.applied && p.failure == "" {
			r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Share{
				Share: &spatev1.Share{Ref: s.refTo(p), Found: found}}})
		}
	}
}

// maxNoted bounds the notes that a run passes on. Agents find the same things, so there are few.
const maxNoted = 256

// tellNotes tells followers what agents found out about the target, each note once.
func (r *Run) tellNotes(at clock.Instant, notes []string) {
	for _, note := range notes {
		if text := r.stage.target() + ": " + note; !r.noted[text] && len(r.noted) < maxNoted {
			r.noted[text], r.unsaved = true, true
			r.notice(at, spatev1.Severity_SEVERITY_INFO, "%s", text)
		}
	}
}

// Waiting handles an agent's message that the server of its assignment is not ready yet.
func (r *Run) Waiting(at clock.Instant, m *spatev1.Waiting) {
	if r.phase == applying && r.stage.concerns(m.GetRef()) {
		r.tellNotes(at, []string{m.GetText()})
	}
}

// Rejected handles an agent's message that it rejects its assignment or a change of its assignment. If it rejects its
// assignment, the stage fails. Unless the target is dead, another load may be possible, so the target's next stage is
// tried. If that is rejected for the same reason, the target's remaining stages are skipped.
func (r *Run) Rejected(at clock.Instant, name string, m *spatev1.Rejected) {
	if !r.stage.concerns(m.GetRef()) {
		return
	}
	if c := r.joining; c != nil && c.agent.name() == name {
		r.dropJoining(at, c.agent, "rejected its assignment: "+m.GetReason())
		return
	}
	p := r.assignmentOf(r.agents[name])
	switch {
	case p == nil || p.done():
	case r.phase == applying && r.stage.matches(m.GetRef()):
		r.assignmentRejected(at, p, m)
	case r.phase == running && p.active() && m.GetRef().GetRevision() > 1:
		r.tellToEnd(at, p, "rejected a change of its assignment: "+m.GetReason())
	}
}

// assignmentRejected fails the stage because an agent rejected its assignment.
func (r *Run) assignmentRejected(at clock.Instant, p *assignment, m *spatev1.Rejected) {
	p.failure = "rejected: " + m.GetReason()
	reason := "agent " + p.agent.name() + " rejected its assignment: " + m.GetReason()
	kind, target := m.GetKind(), r.stage.target()
	if kind == spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD {
		reason = m.GetReason() + " (agent " + p.agent.name() + ")"
	}
	if r.rejected[target] == reason {
		kind = spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD
	}
	r.rejected[target] = reason
	r.failAssignment(at, kind, reason)
}

// assignAgain assigns a stage that was not armed yet to the remaining agents.
func (r *Run) assignAgain(at clock.Instant, lost *assignment, reason string) {
	r.sayLost(at, lost, reason, "the stage is assigned again without it")
	r.assignWithout(at, lost, "lost: "+reason)
}

// assignWithout assigns a stage that was not armed yet to the agents that are there. If that is not possible, the run
// fails, and the assignment that is gone has failed.
func (r *Run) assignWithout(at clock.Instant, gone *assignment, failure string) {
	st, revision := r.stage.record.GetStage(), r.stage.ref.GetRevision()
	if why := r.updateRoster(at, st); why != "" {
		gone.failure = failure
		r.failRun(at, why)
		return
	}
	r.assign(at, st, revision+1)
}

// applyTimedOut fails the run and names the agents that are not ready. An agent that is ready but disconnected is not
// named: it will soon be back or lost.
func (r *Run) applyTimedOut(at clock.Instant) {
	timeout := r.applyTimeout(r.stage.record.GetStage())
	var late []string
	for _, p := range r.stage.assignments {
		if !p.applied {
			p.failure = fmt.Sprintf("not ready within %v", timeout)
			late = append(late, p.agent.name())
		}
	}
	if len(late) > 0 {
		r.failRun(at, fmt.Sprintf("not ready for the stage within %v: %s", timeout, strings.Join(late, ", ")))
	}
}

// armIfReady arms the stage once all agents are ready. An agent whose control stream is broken cannot be armed, so the
// stage waits until that agent is back or lost.
func (r *Run) armIfReady(at clock.Instant) {
	set := func(p *assignment) bool { return p.failure != "" || p.applied && p.agent.disconnected == "" }
	if r.stage.all(set) {
		r.arm(at)
	}
}

// arm sets the start of the stage and tells the agents.
func (r *Run) arm(at clock.Instant) {
	s := r.stage
	s.start = at.Add(max(r.lead(), s.opening()))
	s.progress = s.start
	s.record.StartTime = timestamppb.New(r.wallTime(s.start))
	r.phase = running
	r.do(PutStage{s.snapshot()})
	for _, p := range s.assignments {
		if p.failure == "" {
			r.sendArm(p)
		}
	}
	r.emit(at, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageStarted{StageStarted: stageBegan(s.record.GetStage())}})
}

func (r *Run) sendArm(p *assignment) {
	r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Arm{
		Arm: &spatev1.Arm{Ref: r.stage.refTo(p), StartClockNs: int64(r.stage.start)}}})
}

// lead returns the time from arming to the start: NearLead if all clocks are known to be close enough, else longer. An
// uncertainty of 0 means that it is not known.
func (r *Run) lead() time.Duration {
	var worst time.Duration
	near := true
	for _, p := range r.stage.assignments {
		if p.failure != "" {
			continue
		}
		worst = max(worst, p.uncertainty)
		near = near && p.uncertainty > 0 && p.uncertainty <= nearUncertainty
	}
	if near {
		return r.cfg.NearLead
	}
	return farLead + worst
}

// The time for opening connections, by the agent that opens the most. A connection costs an agent about 100 us of a
// core, several times that with TLS or on a busy machine. A server accepts connections about as fast. To distant
// servers, 256 connections at a time take a few round trips.
const (
	openingLeast = 100 * time.Millisecond
	openingEach  = time.Millisecond
	openingMost  = 10 * time.Second
)

// opening returns the time that agents get before the start to open the connections for a closed loop's first requests.
// It is 0 for loads that open no connections in advance: other loads, loops whose slots do not start together, and
// targets with a new connection per request.
func (s *stage) opening() time.Duration {
	st := s.record.GetStage()
	l := st.GetLoad()
	if openLoop(l) || l.GetStagger() != nil || st.GetTarget().GetConnection().GetReuse() == "new" {
		return 0
	}
	var largest, sum uint64
	for _, p := range s.assignments {
		largest, sum = max(largest, uint64(p.weight)), sum+uint64(p.weight)
	}
	slots := uint64(l.GetConcurrency()) * largest / max(sum, 1)
	return min(openingLeast+time.Duration(slots)*openingEach, openingMost)
}

// stageBegan returns the event data for the start of a stage.
func stageBegan(st *spatev1.Stage) *spatev1.StageStarted {
	b := &spatev1.StageStarted{
		StageIndex: st.GetIndex(), Target: st.GetTarget().GetName(), Workload: st.GetWorkload().GetName(),
		Load: loadpoint.Words(st.GetLoad()), Whole: !defaults.Streams(st.GetTarget()),
	}
	if d, known := plans.ExpectedDuration(st); known {
		b.Expected = durationpb.New(d)
	}
	if n, counted := plans.ExpectedRequests(st); counted {
		b.ExpectedRequests = n
	}
	return b
}
