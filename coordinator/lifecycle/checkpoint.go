package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A run outlives its coordinator's process: what its machine knows is in the records of its stages, in its snapshots
// and, for the rest, in the checkpoint. Deadlines are not kept: they start again in a restored machine.

// phases are the names of the phases in a checkpoint.
var phases = map[phase]string{
	gathering: "gathering", serving: "serving", pausing: "pausing", applying: "applying", running: "running", stopping: "stopping",
	closing: "closing",
}

// Checkpoint returns the part of the machine's state that is not in the records of stages and the snapshots. The shell
// fills in the boot id. The run must not have ended.
func (r *Run) Checkpoint() *spatev1.Checkpoint {
	c := &spatev1.Checkpoint{
		Phase: phases[r.phase], Roster: infos(r.roster), Next: uint32(r.next), Begun: r.begun,
		BegunSeries: r.begunSeries,
		Noted:       slices.Sorted(maps.Keys(r.noted)), Dead: maps.Clone(r.dead), Rejected: maps.Clone(r.rejected),
		Pending: clone(r.pending), StopRequested: r.stopped,
		Fatal: r.fatal, Failure: r.failure, Incomplete: r.incomplete, Finder: r.finder,
	}
	leaving := map[string]bool{}
	for _, a := range r.roster {
		c.Incarnations = append(c.Incarnations, a.incarnation)
		leaving[a.name()] = a.leaving // of the newest process with this name
	}
	maps.DeleteFunc(leaving, func(_ string, is bool) bool { return !is })
	c.Leaving = slices.Sorted(maps.Keys(leaving))
	if r.series != nil {
		c.Template = clone(r.series.template())
		for _, stage := range r.series.probes {
			c.Probes = append(c.Probes, &spatev1.ProbeOutcome{StageIndex: stage, Complete: true})
		}
	}
	if s := r.stage; r.phase.inStage() {
		c.StartClockNs, c.Revision = int64(s.start), s.ref.GetRevision()
		c.Immediately, c.AbortReason = s.immediate, s.abortedBy
		c.MeasureProposedNs = s.proposed.from.Nanoseconds()
		c.StoppedAgents = s.endReasons()
		for i, p := range s.assignments {
			if p.stays {
				c.StayingAgents = append(c.StayingAgents, uint32(i))
			}
		}
	}
	return c
}

// endReasons returns why agents were told to end their assignments, by the assignment's index in the record.
func (s *stage) endReasons() map[uint32]string {
	out := map[uint32]string{}
	for i, p := range s.assignments {
		if p.toldToEnd && p.lost != "" {
			out[uint32(i)] = p.lost
		}
	}
	return out
}

// Memory is the state from which a restarted coordinator restores a run.
type Memory struct {
	// Submission and Checkpoint are from the ledger. The checkpoint's start must be by the clock of this boot.
	Submission *spatev1.Submission
	Checkpoint *spatev1.Checkpoint
	// Stage is the record of the last stage begun, which may be in progress. Nil: there is none.
	Stage *spatev1.StageRecord
	// Outcomes are the outcomes of the checkpoint's probes, in order, as CloseStage asked for them.
	Outcomes []series.Outcome
	// Delivered is what the ledger's snapshots of the stage say.
	Delivered Delivered
}

// Delivered is what the snapshots of one stage say, by process.
type Delivered struct {
	stage uint32
	of    map[process]*delivery
}

// NewDelivered returns what a stage has without snapshots. rec is the record of the stage.
func NewDelivered(rec *spatev1.StageRecord) Delivered {
	d := Delivered{rec.GetStage().GetIndex(), map[process]*delivery{}}
	for _, a := range rec.GetAgents() {
		p := process{a.GetAgent().GetName(), a.GetIncarnation()}
		if d.of[p] == nil {
			d.of[p] = &delivery{covered: coverage{next: firstWindow(a)}}
		}
	}
	return d
}

// firstWindow returns the first window that an assigned agent delivers.
func firstWindow(a *spatev1.AssignedAgent) uint32 {
	return uint32(a.GetJoinedNs() / int64(time.Second))
}

// Add adds a snapshot that is in the ledger, unless it is not of the stage and its agents.
func (d Delivered) Add(snapshot *spatev1.Snapshot) {
	p := d.of[process{snapshot.GetKey().GetAgent(), snapshot.GetKey().GetIncarnation()}]
	if p != nil && snapshot.GetStageIndex() == d.stage {
		p.take(snapshot)
	}
}

// Restore returns the machine of a run in its old state, at an instant whose wall time is given. The shell then calls
// Resume. No agent is connected: each has the length of a lease to come back.
func Restore(cfg Config, id string, m Memory, at clock.Instant, wall time.Time) (*Run, error) {
	r := New(cfg, id, m.Submission.GetPlan(), at, wall)
	c := m.Checkpoint
	if err := r.restorePhase(c); err != nil {
		return nil, err
	}
	r.next, r.begun, r.begunSeries = int(c.GetNext()), c.GetBegun(), c.GetBegunSeries()
	r.stopped, r.fatal, r.failure, r.incomplete = c.GetStopRequested(), c.GetFatal(), c.GetFailure(), c.GetIncomplete()
	r.finder = c.GetFinder()
	maps.Copy(r.dead, c.GetDead())
	maps.Copy(r.rejected, c.GetRejected())
	for _, text := range c.GetNoted() {
		r.noted[text] = true
	}
	for i, info := range c.GetRoster() {
		a := r.agentNotBack(info, c.GetIncarnations()[i], at)
		a.leaving = slices.Contains(c.GetLeaving(), a.name())
		a.returns = a.leaving // unless it is said again that it is drained, or about to end
		r.agents[info.GetName()] = a
		r.roster = append(r.roster, a)
	}
	if err := r.restoreSeries(c, m.Outcomes); err != nil {
		return nil, err
	}
	if r.phase == pausing || r.phase == serving {
		r.pending = clone(c.GetPending())
		r.resume = at.Add(r.pending.GetPause().AsDuration())
	}
	if !r.phase.inStage() {
		return r, nil
	}
	if err := r.restoreStage(c, m.Stage, at); err != nil {
		return nil, err
	}
	r.recall(m.Delivered)
	return r, nil
}

// restorePhase sets the phase, and checks that this program can have written the checkpoint.
func (r *Run) restorePhase(c *spatev1.Checkpoint) error {
	var known bool
	r.phase, known = phaseOf(c)
	switch {
	case !known:
		return fmt.Errorf("checkpoint: phase %.32q is not known", c.GetPhase())
	case int(c.GetNext()) > len(r.plan):
		return fmt.Errorf("checkpoint: entry %d of a plan of %d", c.GetNext(), len(r.plan))
	case len(c.GetRoster()) != len(c.GetIncarnations()):
		return fmt.Errorf("checkpoint: %d agents and %d processes", len(c.GetRoster()), len(c.GetIncarnations()))
	case (r.phase == pausing || r.phase == serving) && c.GetPending() == nil:
		return errors.New("checkpoint: a pause before no stage")
	}
	return nil
}

// agentNotBack returns an agent that has not come back yet.
func (r *Run) agentNotBack(info *spatev1.AgentInfo, incarnation uint64, at clock.Instant) *agent {
	return &agent{info: clone(info), incarnation: incarnation, heard: at, notBack: true,
		disconnected: "the coordinator was restarted"}
}

// restoreSeries restores the sweep or search in progress.
func (r *Run) restoreSeries(c *spatev1.Checkpoint, outcomes []series.Outcome) error {
	if c.GetTemplate() == nil {
		return nil
	}
	e := r.seriesOf(c.GetTemplate())
	steps := e.steps
	if steps == nil || c.GetBegunSeries() == 0 || len(outcomes) != len(c.GetProbes()) {
		return fmt.Errorf("checkpoint: series %d with %d outcomes of %d probes", c.GetBegunSeries(), len(outcomes),
			len(c.GetProbes()))
	}
	e.number = c.GetBegunSeries() - 1
	for i, probe := range c.GetProbes() {
		if _, ok := steps.Next(); !ok {
			return fmt.Errorf("checkpoint: probe %d of a series that has ended", i)
		}
		e.take(probe.GetStageIndex(), outcomes[i])
	}
	for target, why := range r.dead {
		if len(e.templates) > 1 {
			steps.Drop(target, why)
		}
	}
	r.series = e
	return nil
}

// restoreStage restores the stage in progress, without its snapshots.
func (r *Run) restoreStage(c *spatev1.Checkpoint, rec *spatev1.StageRecord, at clock.Instant) error {
	if rec == nil || rec.GetStage().GetIndex()+1 != r.begun {
		return fmt.Errorf("checkpoint: the record of stage %d is missing", r.begun)
	}
	s := &stage{
		record: clone(rec),
		ref: &spatev1.AssignmentRef{RunId: r.id, StageIndex: rec.GetStage().GetIndex(),
			Revision: c.GetRevision()},
		start:     clock.Instant(c.GetStartClockNs()),
		immediate: c.GetImmediately(), abortedBy: c.GetAbortReason(), declined: map[string][]uint64{},
	}
	if from := time.Duration(c.GetMeasureProposedNs()); from != 0 {
		s.proposed = proposal{from: from, lead: measureLead, retry: at.Add(r.cfg.Silence)}
	}
	s.progress = s.start
	if passed := at.Sub(s.start); passed > 0 && s.start != 0 {
		s.progress = s.start.Add(passed.Truncate(progressInterval))
	}
	for i, a := range s.record.GetAgents() {
		p := &assignment{
			agent: r.process(a.GetAgent(), a.GetIncarnation(), at), weight: a.GetWeight(),
			failure: a.GetFailure(), left: a.LeftNs,
			loss: a.GetLoss(), preparation: a.GetPreparation(), joined: time.Duration(a.GetJoinedNs()),
			revision: c.GetRevision(), rank: uint32(i),
		}
		p.covered.next = firstWindow(a)
		s.assignments = append(s.assignments, p)
	}
	r.stage = s
	for i, p := range s.assignments {
		p.knows = s.initially(p)
		if p.agent.lost != "" && p.failure == "" {
			r.markLost(p, p.agent.lost, r.fenceOf(p.agent))
		}
		p.stays = slices.Contains(c.GetStayingAgents(), uint32(i))
		if reason, out := c.GetStoppedAgents()[uint32(i)]; out {
			r.markToldToEnd(p, reason)
			r.markLost(p, reason, r.fenceOf(p.agent))
		}
	}
	switch r.phase {
	case applying:
		s.deadline = at.Add(r.applyTimeout(rec.GetStage()))
	case stopping:
		s.deadline = at.Add(r.totalsTimeout(s.immediate))
	}
	return nil
}

// initially returns the revision with which an assignment began. Its agent must confirm later revisions again, unless
// its snapshots show that it has applied them.
func (s *stage) initially(p *assignment) uint32 {
	for _, h := range s.record.GetHandovers() {
		if p.joined == 0 || int(p.rank) < len(h.GetWeights()) {
			return h.GetRevision() - 1 // before the first handover, or before the one by which it joined
		}
	}
	return p.revision
}

// recall takes over what was delivered in the stage in progress.
func (r *Run) recall(d Delivered) {
	if r.phase != running && r.phase != stopping {
		return
	}
	for of, delivered := range d.of {
		p := r.stage.assignment(of.agent, of.incarnation)
		p.delivery = *delivered
		p.agreed(p.seen)
		if p.loss == nil && p.failure == p.totals.GetFailure() {
			p.failure = "" // the record has it from the totals
		}
	}
}

// Resume is called after Restore. It continues what the machine was doing when its process ended, and acts
// on the ledger's last snapshots.
func (r *Run) Resume(at clock.Instant) {
	switch r.phase {
	case serving:
		r.awaitServer(at)
	case running, stopping:
		for _, p := range r.stage.assignments {
			if r.phase != closing && p.failure == "" {
				r.passOn(at, p)
				r.actOnTotals(at, p)
			}
		}
		r.settle(at)
	case closing:
		r.do(CloseStage{Record: r.stage.snapshot(), Keep: r.objectives()})
	}
}

// Rewind takes a run back to before the stage in progress, or before the pause in progress. The run's agents died with
// its coordinator, so new agents measure that stage again from its start. After Rewind, Restore waits for agents like a
// new run. Dead targets are tried again, and a requested stop is forgotten. Rewind returns the stage that was in
// progress, nil if there was none. The caller must discard the stage's record and snapshots from the ledger.
func (m *Memory) Rewind() (again *spatev1.Stage) {
	c, next := m.Checkpoint, m.Checkpoint.GetPending()
	begun, failure := c.GetBegun(), c.GetFailure()
	if p, known := phaseOf(c); m.Stage != nil && known && p.inStage() {
		rec := m.Stage
		again, next = rec.GetStage(), rec.GetStage()
		begun--
		if failure == rec.GetFailure() {
			failure = ""
		}
	}
	place := c.GetNext()
	if next != nil && next.GetProbe() == nil {
		place-- // a probe comes again from its sweep or search
	}
	m.Stage = nil
	m.Checkpoint = &spatev1.Checkpoint{
		Phase: phases[gathering], Next: place, Begun: begun, BegunSeries: c.GetBegunSeries(), Probes: c.GetProbes(),
		Template: c.GetTemplate(), Noted: c.GetNoted(), Failure: failure, Incomplete: c.GetIncomplete(),
	}
	return again
}

// phaseOf returns the phase in which a checkpoint was written, false if it is not known.
func phaseOf(c *spatev1.Checkpoint) (p phase, known bool) {
	for p, name := range phases {
		if name == c.GetPhase() {
			return p, true
		}
	}
	return 0, false
}

// Left returns the stages and templates still to be run after Rewind, in order. The template of the sweep or search in
// progress comes first.
func (m *Memory) Left() []*spatev1.Stage {
	left := m.Submission.GetPlan()[min(int(m.Checkpoint.GetNext()), len(m.Submission.GetPlan())):]
	if t := m.Checkpoint.GetTemplate(); t != nil {
		return append([]*spatev1.Stage{t}, left...)
	}
	return left
}
