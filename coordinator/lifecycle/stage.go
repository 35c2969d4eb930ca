package lifecycle

import (
	"cmp"
	"slices"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/series"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// stage is the stage in progress.
type stage struct {
	record      *spatev1.StageRecord
	ref         *spatev1.AssignmentRef  // with the newest revision
	assignments []*assignment           // in the order of the record's agents; none is removed
	byProcess   map[process]*assignment // the first of each process among the first indexed assignments
	indexed     int
	start       clock.Instant
	deadline    clock.Instant       // deadline of the applying or the stopping phase
	progress    clock.Instant       // when progress was last reported
	immediate   bool                // agents were told to cancel
	abortedBy   string              // why an abort rule ended a probe of a search
	declined    map[string][]uint64 // processes that may not join the stage, by agent's name
	first       []uint32            // see firstWeights
	untold      []*spatev1.Handover // handovers that no agent was told about yet; see tellTakers
	untoldFrom  time.Duration       // offset from which all of them count
	measured    *spatev1.Stage      // the stage with the warm-up that it has had; nil: not needed yet
	proposed    proposal            // when the agents were last asked to begin to measure
	doubtful    int                 // see all
}

// stage makes the stage for a step.
func (e *activeSeries) stage(step series.Step) *spatev1.Stage {
	st := clone(e.templates[step.Entrant])
	st.Load = step.Load
	st.Probe = &spatev1.Probe{Series: e.number, Number: step.Number, Purpose: step.Purpose}
	st.FailFast = st.GetFailFast() && step.Number == 0
	st.Seed = plans.ProbeSeed(e.template(), st.GetLoad(), st.GetProbe())
	return st
}

// target returns the name of the stage's target.
func (s *stage) target() string { return s.record.GetStage().GetTarget().GetName() }

// fail sets the stage's failure. The first reason is kept.
func (s *stage) fail(reason string) { s.record.Failure = cmp.Or(s.record.Failure, reason) }

// snapshot returns a copy of the record, updated with what is known about each agent.
func (s *stage) snapshot() *spatev1.StageRecord {
	for i, p := range s.assignments {
		a := s.record.Agents[i]
		a.Failure, a.Preparation, a.Loss = cmp.Or(p.failure, p.totals.GetFailure()), p.preparation, p.loss
		a.LeftNs = p.left
	}
	return clone(s.record)
}

// concerns reports whether a reference is to this stage, of any revision.
func (s *stage) concerns(ref *spatev1.AssignmentRef) bool {
	return s != nil && ref.GetRunId() == s.ref.GetRunId() && ref.GetStageIndex() == s.ref.GetStageIndex()
}

// matches reports whether a reference is to this stage's newest revision.
func (s *stage) matches(ref *spatev1.AssignmentRef) bool {
	return s.concerns(ref) && ref.GetRevision() == s.ref.GetRevision()
}

// process is one process of an agent.
type process struct {
	agent       string
	incarnation uint64
}

// process returns the agent of the roster with this incarnation, or else a lost agent whose process was replaced.
func (r *Run) process(info *spatev1.AgentInfo, incarnation uint64, at clock.Instant) *agent {
	if a := r.agents[info.GetName()]; a != nil && a.incarnation == incarnation {
		return a
	}
	a := r.agentNotBack(info, incarnation, at)
	a.lost = "its process was restarted"
	return a
}

// assignment returns the assignment of an agent's process, nil if it has none. It runs for each snapshot and heartbeat.
func (s *stage) assignment(name string, incarnation uint64) *assignment {
	if s.byProcess == nil {
		s.byProcess = map[process]*assignment{}
	}
	for ; s.indexed < len(s.assignments); s.indexed++ {
		p := s.assignments[s.indexed]
		if k := (process{p.agent.name(), p.agent.incarnation}); s.byProcess[k] == nil {
			s.byProcess[k] = p
		}
	}
	return s.byProcess[process{name, incarnation}]
}

// assignmentOf returns an agent's assignment of the stage in progress, nil if it has none or there is no stage.
func (r *Run) assignmentOf(a *agent) *assignment {
	if r.stage == nil || a == nil {
		return nil
	}
	return r.stage.assignment(a.name(), a.incarnation)
}

// where returns the assignments that satisfy a predicate.
func (s *stage) where(are func(*assignment) bool) []*assignment {
	return lists.Where(s.assignments, are)
}

// all reports whether each assignment satisfies the predicate is. The stage asks again and again while thousands of
// agents get ready or done, so the search starts at the assignment that was found not to satisfy the last predicate.
func (s *stage) all(is func(*assignment) bool) bool {
	for range s.assignments {
		if !is(s.assignments[s.doubtful]) {
			return false
		}
		s.doubtful = (s.doubtful + 1) % len(s.assignments)
	}
	return true
}

// stripe returns an assignment's current stripe. The stripes of all agents share their weights and handovers, which
// never change: a copy for each of ten thousand agents would take seconds and a gigabyte.
func (s *stage) stripe(p *assignment) *spatev1.Stripe {
	return &spatev1.Stripe{Rank: p.rank, Weights: s.firstWeights(), Handovers: slices.Clip(s.record.GetHandovers())}
}

// firstWeights returns the weights of the assignments that were there at the start, by rank. The caller must not change
// them.
func (s *stage) firstWeights() []uint32 {
	if s.first == nil {
		for _, p := range s.assignments {
			if p.joined == 0 {
				s.first = append(s.first, p.weight)
			}
		}
	}
	return s.first
}

// refTo returns a reference to an assignment, with the revision that its agent was sent last.
func (s *stage) refTo(p *assignment) *spatev1.AssignmentRef {
	ref := clone(s.ref)
	ref.Revision = p.revision
	return ref
}

// serverSources returns the sources of server metrics that an agent scrapes. Sources are dealt in turn, by rank, to the
// agents that were there at the start, so that each source has exactly one reader. If the reader is lost, its sources
// are not read again in the stage, because the numbers of two readers could not be ordered.
func (s *stage) serverSources(p *assignment) (sources []uint32) {
	all, readers := len(servermetrics.Sources(s.record.GetStage().GetTarget())), len(s.firstWeights())
	if int(p.rank) >= readers {
		return nil
	}
	for source := int(p.rank); source < all; source += readers {
		sources = append(sources, uint32(source))
	}
	return sources
}

// openLoop reports whether a load is not a closed loop: its arrivals have scheduled times.
func openLoop(l *spatev1.LoadPoint) bool { return l.GetConcurrency() == 0 }
