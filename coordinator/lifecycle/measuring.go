package lifecycle

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Observe applies the stage's rules to what was merged: it may abort the stage, end it because it has measured enough,
// or end the warm-up because the load is steady. The shell calls it after the Tick of the same instant.
func (r *Run) Observe(at clock.Instant, v View) {
	if r.phase != running || v.StageIndex != r.stage.ref.GetStageIndex() {
		return
	}
	load := r.stage.record.GetStage().GetLoad()
	if reason := hopeless(r.stage.record.GetStage(), v); reason != "" {
		r.failAssignment(at, spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD, reason)
		return
	}
	if reason := tooManyErrors(load.GetAbort(), v); reason != "" {
		r.abortStage(at, reason)
		return
	}
	warm := load.GetWarmupUntilSteady() != nil && r.stage.record.MeasuredFromNs == nil // on some agents, at least
	if reason := preciseEnough(load.GetUntil(), v.Percentile); reason != "" && !warm {
		r.stage.record.Enough = reason
		r.endStage(at, false)
		return
	}
	if steady(v.Frames) {
		r.measureSoon(at)
	}
}

// checkRules applies the rules that depend on time: the abort rule's duration and the longest warm-up.
func (r *Run) checkRules(at clock.Instant) {
	if r.phase != running {
		return
	}
	load := r.stage.record.GetStage().GetLoad()
	if longest := load.GetAbort().GetDuration(); longest != nil && at.Sub(r.stage.start) >= longest.AsDuration() {
		r.abortStage(at, fmt.Sprintf(abortedPrefix+"it took longer than %v", longest.AsDuration()))
		return
	}
	if longest := load.GetWarmupUntilSteady(); longest != nil &&
		at.Sub(r.stage.start) >= longest.AsDuration()-measureLead-r.stage.uncertainty() {
		r.measureSoon(at)
	}
	r.agree(at)
}

// measureLead is how long before measuring begins the agents are first asked to keep that instant, in addition to the
// largest uncertainty of their clocks. Each further time it is twice as long, up to measureLeadMost.
const (
	measureLead     = time.Second
	measureLeadMost = 16 * time.Second
)

// proposal is an instant from which the agents are asked to measure, because the load is steady. It counts once all
// agents keep it. Messages may be late, so an agent that cannot keep it says so, and all are then asked to keep a later
// one. That works unless another agent has begun to measure by then.
type proposal struct {
	from  time.Duration // 0: the agents were not asked yet
	lead  time.Duration
	retry clock.Instant // when the next one follows if an agent has not answered
}

// measureSoon ends a warm-up that lasts until the load is steady.
func (r *Run) measureSoon(at clock.Instant) {
	s := r.stage
	if s.record.GetStage().GetLoad().GetWarmupUntilSteady() != nil && s.record.MeasuredFromNs == nil &&
		s.proposed.from == 0 {
		r.propose(at, measureLead)
	}
}

// propose asks the agents to measure from the next whole window that is lead away, or from the warm-up's longest
// duration if that is earlier. A coordinator that was held up exceeds the longest duration rather than give the agents
// less than half the lead.
func (r *Run) propose(at clock.Instant, lead time.Duration) {
	s := r.stage
	lead = min(lead, measureLeadMost)
	soonest := max(0, at.Sub(s.start)+lead+s.uncertainty())
	from := time.Duration(math.Ceil(soonest.Seconds())) * time.Second
	from = min(from, max(s.record.GetStage().GetLoad().GetWarmupUntilSteady().AsDuration(), soonest-lead/2))
	if old := s.proposed.from; old != 0 {
		r.notice(at, spatev1.Severity_SEVERITY_INFO, "not all agents heard in time that measuring should begin at %v: "+
			"it begins at %v at the earliest", old, from)
	}
	s.proposed = proposal{from: from, lead: lead, retry: at.Add((s.start.Add(from).Sub(at)) / 2)}
	r.unsaved = true
	for _, p := range s.assignments {
		p.measuring = nil
		r.sendMeasure(p)
	}
}

// uncertainty returns the largest uncertainty of the agents' clocks.
func (s *stage) uncertainty() (most time.Duration) {
	for _, p := range s.assignments {
		most = max(most, p.uncertainty)
	}
	return most
}

// sendMeasure tells an agent when measuring begins, or asks the agent to keep that instant. It is also called for
// agents that come back, which may have missed the message.
func (r *Run) sendMeasure(p *assignment) {
	s := r.stage
	m := &spatev1.Measure{Ref: s.refTo(p), FromNs: s.record.GetMeasuredFromNs()}
	if s.record.MeasuredFromNs == nil {
		m.FromNs, m.AnswerByNs = s.proposed.from.Nanoseconds(), new(s.proposed.retry.Sub(s.start).Nanoseconds())
	}
	if m.GetFromNs() != 0 && !p.done() {
		r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Measure{Measure: m}})
	}
}

// Measuring handles an agent's answer to Measure.
func (r *Run) Measuring(at clock.Instant, name string, m *spatev1.Measuring) {
	s, p := r.stage, r.assignmentOf(r.agents[name])
	switch {
	case r.phase != running || !s.concerns(m.GetRef()) || p == nil || p.failure != "" || p.toldToEnd ||
		p.totals != nil:
	case s.record.MeasuredFromNs == nil && m.GetAskedNs() == s.proposed.from.Nanoseconds():
		p.measuring = m
		r.agree(at)
	case s.record.MeasuredFromNs != nil && m.GetAskedNs() == s.record.GetMeasuredFromNs() && m.FromNs == nil:
		r.tellToEnd(at, p, "heard too late when measuring begins")
	}
}

// agree begins to measure if all agents keep the same instant, and proposes a later one if an agent cannot, or has not
// answered for long.
func (r *Run) agree(at clock.Instant) {
	s := r.stage
	asked := s.where((*assignment).active)
	if s.proposed.from == 0 || s.record.MeasuredFromNs != nil || len(asked) == 0 {
		return
	}
	answered := true
	for _, p := range asked {
		if p.measuring != nil && p.measuring.FromNs == nil || p.measuring == nil && at >= s.proposed.retry {
			r.propose(at, 2*s.proposed.lead)
			return
		}
		answered = answered && p.measuring != nil
	}
	if !answered {
		return
	}
	s.record.MeasuredFromNs = new(asked[0].measuring.GetFromNs())
	for _, p := range asked {
		if p.measuring.GetFromNs() != s.record.GetMeasuredFromNs() {
			p.measuredFrom = p.measuring.FromNs
		}
	}
	if why := s.disagreement(); why != "" {
		r.failStage(at, why, false)
		return
	}
	r.do(PutStage{s.snapshot()})
}

// disagreement returns why a stage fails of which an agent measures from another instant than the record says. Empty:
// none does, as far as is known.
func (s *stage) disagreement() string {
	want := s.record.GetMeasuredFromNs()
	for _, p := range s.assignments {
		switch from := p.measuredFrom; {
		case from != nil && *from != want:
			return fmt.Sprintf("agent %s measured from %v on, others from %v on: messages came too late, run the "+
				"stage again", p.agent.name(), time.Duration(*from), time.Duration(want))
		case from == nil && p.endedWarm():
			return fmt.Sprintf("agent %s ended before it measured, others measured from %v on: messages came too "+
				"late, run the stage again", p.agent.name(), time.Duration(want))
		}
	}
	return ""
}

// endedWarm reports whether the assignment has come to its regular end while the warm-up lasted for its agent.
func (p *assignment) endedWarm() bool {
	return p.whole() && p.failure == "" && !p.leaving && !p.totals.GetStopped() && p.totals.GetFailure() == "" &&
		p.totals.GetCounters().GetUnmeasuredStarted() > 0
}

// checkMeasured fails a stage that has ended unless all that it measured was measured from one instant on. If the
// coordinator was restarted before the agents had agreed, their snapshots tell which one that was.
func (r *Run) checkMeasured() {
	s := r.stage
	if s.record.GetStage().GetLoad().GetWarmupUntilSteady() == nil {
		return
	}
	for _, p := range s.assignments {
		if s.record.MeasuredFromNs == nil {
			s.record.MeasuredFromNs = p.measuredFrom
		}
	}
	why := s.disagreement()
	if s.record.MeasuredFromNs == nil && !s.record.GetStopped() && s.record.GetEnough() == "" {
		why = "the stage ended before its warm-up did: nothing was measured"
	}
	if why != "" && s.record.GetFailure() == "" {
		s.fail(why)
		r.failure, r.incomplete = cmp.Or(r.failure, why), true
	}
}
