package lifecycle

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/rules"
	"github.com/spate-load/spate/coordinator/series"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Observe applies the stage's rules to what was merged: it may abort the stage, end it because it has measured enough,
// or end the warm-up because the load is steady. The shell calls it after the Tick of the same instant.
func (r *Run) Observe(at clock.Instant, v rules.View) {
	if r.phase != running || v.StageIndex != r.stage.ref.GetStageIndex() {
		return
	}
	load := r.stage.record.GetStage().GetLoad()
	if reason := rules.Hopeless(r.stage.record.GetStage(), v); reason != "" {
		r.failTarget(at, reason)
		return
	}
	if reason := rules.TooManyErrors(load.GetAbort(), v); reason != "" {
		r.abortStage(at, reason)
		return
	}
	if reason := rules.PreciseEnough(load.GetUntil(), v.Percentile); reason != "" {
		r.stage.record.Enough = reason
		r.endStage(at, false)
		return
	}
	if rules.Steady(v.Frames) {
		r.measureSoon(at)
	}
}

// failTarget ends the stage in progress and skips the remaining stages of its target.
func (r *Run) failTarget(at clock.Instant, reason string) {
	r.failAssignment(at, spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD, reason)
}

// judgeTarget skips the remaining stages of a target if a stage has ended and none of its requests completed. A short
// stage may end before Observe can abort it.
func (r *Run) judgeTarget(at clock.Instant, o series.Outcome) {
	rec := r.stage.record
	st := rec.GetStage()
	if !st.GetFailFast() || rec.GetFailure() != "" || rec.GetStopped() || o.Completed > 0 || o.Failed == 0 {
		return
	}
	why := fmt.Sprintf("none of the %d requests of stage %d completed", o.Failed, st.GetIndex()+1)
	if o.Fault != "" {
		why += ": " + o.Fault
	}
	why = reason.HopelessTarget(st.GetTarget().GetName(), why)
	r.notice(at, spatev1.Severity_SEVERITY_ERROR, "%s", why)
	r.dead[st.GetTarget().GetName()], r.failure = why, cmp.Or(r.failure, why)
}

// checkRules applies the rules that depend on time: the abort rule's duration and the longest warm-up.
func (r *Run) checkRules(at clock.Instant) {
	if r.phase != running {
		return
	}
	load := r.stage.record.GetStage().GetLoad()
	if longest := load.GetAbort().GetDuration(); longest != nil && at.Sub(r.stage.start) >= longest.AsDuration() {
		r.abortStage(at, rules.TooLong(longest.AsDuration()))
		return
	}
	if longest := load.GetWarmupUntilSteady(); longest != nil &&
		at.Sub(r.stage.start) >= longest.AsDuration()-r.measureLead() {
		r.measureSoon(at)
	}
}

// abortStage aborts the stage in progress by an abort rule. For a search or a frontier this is a valid outcome: the
// load is too high.
func (r *Run) abortStage(at clock.Instant, reason string) {
	if !r.searching() {
		r.failStage(at, reason, true)
		return
	}
	r.stage.abortedBy = reason
	r.stage.record.Enough = reason
	r.endStage(at, true)
}

// measureLeadTime is how long before measuring begins the agents are told: more than a message takes to the farthest
// agent, even if that agent is busy.
const measureLeadTime = time.Second

// measureLead returns measureLeadTime plus the largest uncertainty of the agents' clocks.
func (r *Run) measureLead() time.Duration {
	lead := measureLeadTime
	for _, p := range r.stage.assignments {
		lead = max(lead, measureLeadTime+p.uncertainty)
	}
	return lead
}

// measureSoon ends a warm-up that lasts until the load is steady, at the next whole window of which all agents hear in
// time, or at the warm-up's longest duration if that is earlier. A coordinator that was held up exceeds the longest
// duration rather than give the agents less than half the lead.
func (r *Run) measureSoon(at clock.Instant) {
	s := r.stage
	longest := s.record.GetStage().GetLoad().GetWarmupUntilSteady()
	if longest == nil || s.record.MeasuredFromNs != nil {
		return
	}
	soonest := max(0, at.Sub(s.start)+r.measureLead())
	from := time.Duration(math.Ceil(soonest.Seconds())) * time.Second
	if latest := max(longest.AsDuration(), soonest-measureLeadTime/2); from > latest {
		from = latest
	}
	s.record.MeasuredFromNs = new(from.Nanoseconds())
	r.do(PutStage{s.snapshot()})
	for _, p := range s.assignments {
		r.sendMeasure(p)
	}
}

// sendMeasure tells an agent when measuring begins, if that is known. It is also called for agents that come back,
// which may have missed the message.
func (r *Run) sendMeasure(p *assignment) {
	if s := r.stage; s.record.MeasuredFromNs != nil && !p.done() && !p.observer {
		r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Measure{Measure: &spatev1.Measure{
			Ref: s.refTo(p), FromNs: s.record.GetMeasuredFromNs(),
		}}})
	}
}
