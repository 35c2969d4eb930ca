package lifecycle

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/series"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// View is what was merged of the stage in progress, as far as the machine decides by it.
type View struct {
	// StageIndex says which stage it is of.
	StageIndex uint32
	// Ended are the measured requests that completed or failed so far, Failed those that failed.
	Ended, Failed uint64
	// Frames are those of unmeasured requests by window of their arrival, one a second: the newest windows that all
	// agents have delivered, the last one last. SteadyWindows of them are enough.
	Frames []uint64
	// Percentile is the one that the stage's precision is about. Nil: there are too few values for an interval.
	Percentile *Interval
}

// Interval is a percentile with its confidence interval.
type Interval struct {
	Value, Low, High time.Duration
	// Count is the number of values.
	Count uint64
}

// Observe takes in what was merged: the stage may be given up, have measured enough, or be steady. The shell calls it
// after the Tick of the same instant.
func (r *Run) Observe(at clock.Instant, v View) {
	if r.phase != running || v.StageIndex != r.stage.ref.GetStageIndex() {
		return
	}
	load := r.stage.record.GetStage().GetLoad()
	if reason := r.hopeless(v); reason != "" {
		r.failTarget(at, reason)
		return
	}
	if reason := tooManyErrors(load.GetAbort(), v); reason != "" {
		r.giveUpStage(at, reason)
		return
	}
	if reason := preciseEnough(load.GetUntil(), v.Percentile); reason != "" {
		r.stage.record.Enough = reason
		r.endStage(at, false)
		return
	}
	if steady(v.Frames) {
		r.measureSoon(at)
	}
}

// A stage is hopeless when more than hopelessShare of at least hopelessAfter requests have failed.
const (
	hopelessAfter = 100
	hopelessShare = 0.9
)

// hopeless returns why the target of the stage in progress is hopeless. Empty: it is not, or a rule of the plan's own
// says when to give the stage up.
func (r *Run) hopeless(v View) string {
	st := r.stage.record.GetStage()
	if own := st.GetLoad().GetAbort(); !st.GetFailFast() || own != nil && own.ErrorShare != nil {
		return ""
	}
	if v.Ended < hopelessAfter || float64(v.Failed) <= hopelessShare*float64(v.Ended) {
		return ""
	}
	return reason.Hopeless(st.GetTarget().GetName(), fmt.Sprintf("%d of %d requests failed", v.Failed, v.Ended))
}

// failTarget ends the stage in progress, and skips what remains of its target.
func (r *Run) failTarget(at clock.Instant, reason string) {
	r.failShare(at, spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD, reason)
}

// judgeTarget skips what remains of a target if a stage has come to its end and none of its requests completed: a short
// one ends before anybody can give it up.
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
	why = reason.Hopeless(st.GetTarget().GetName(), why)
	r.notice(at, spatev1.Severity_SEVERITY_ERROR, "%s", why)
	r.dead[st.GetTarget().GetName()], r.failure = why, cmp.Or(r.failure, why)
}

// tooManyErrors says why a stage is to be given up. Empty: it is not.
func tooManyErrors(rule *spatev1.Abort, v View) string {
	if rule == nil || rule.ErrorShare == nil || v.Ended < max(1, rule.GetAfterRequests()) {
		return ""
	}
	if share := float64(v.Failed) / float64(v.Ended); share > rule.GetErrorShare() {
		return fmt.Sprintf(givenUp+"%d of %d requests failed, %.3g %% > %.3g %%", v.Failed, v.Ended, 100*share,
			100*rule.GetErrorShare())
	}
	return ""
}

// preciseEnough says why a stage has measured enough. Empty: it has not. The interval is looked at again and again
// while the stage goes on, which makes an early end by chance more likely than its confidence says: it is a rule for
// when to stop, and the stage's own interval at its end is what is known.
func preciseEnough(rule *spatev1.Precision, p *Interval) string {
	if rule == nil || p == nil || p.Value <= 0 {
		return ""
	}
	half := float64(p.High-p.Low) / 2 / float64(p.Value)
	if half > rule.GetWithin() {
		return ""
	}
	return fmt.Sprintf("%s %s is known to ±%.2g %%: %s to %s with %.4g %% confidence, from %d values",
		series.LatencyWords(rule.GetMetric(), rule.GetPercentile()), series.Milliseconds(p.Value), 100*half,
		series.Milliseconds(p.Low), series.Milliseconds(p.High), 100*rule.GetConfidence(), p.Count)
}

// checkRules looks at what only time tells.
func (r *Run) checkRules(at clock.Instant) {
	if r.phase != running {
		return
	}
	load := r.stage.record.GetStage().GetLoad()
	if longest := load.GetAbort().GetDuration(); longest != nil && at.Sub(r.stage.start) >= longest.AsDuration() {
		r.giveUpStage(at, fmt.Sprintf(givenUp+"it took longer than %v", longest.AsDuration()))
		return
	}
	if longest := load.GetWarmupUntilSteady(); longest != nil &&
		at.Sub(r.stage.start) >= longest.AsDuration()-r.measureLead() {
		r.measureSoon(at)
	}
}

// givenUp is how the reasons of abort rules begin.
const givenUp = "given up: "

// GaveUp says why an abort rule ended a probe of a search, by the probe's record. Empty: none did.
func GaveUp(rec *spatev1.StageRecord) string {
	if reason := rec.GetEnough(); strings.HasPrefix(reason, givenUp) {
		return reason
	}
	return ""
}

// giveUpStage ends the stage in progress by an abort rule. For a search that is an answer like another: the objectives
// are broken.
func (r *Run) giveUpStage(at clock.Instant, reason string) {
	if !r.searching() {
		r.failStage(at, reason, true)
		return
	}
	r.stage.gaveUp = reason
	r.stage.record.Enough = reason
	r.endStage(at, true)
}

// measureLeadTime is how long before it begins the agents hear that measuring begins: more than a message takes to the
// farthest of them, beside whatever else they do.
const measureLeadTime = time.Second

// measureLead adds the clocks' uncertainty.
func (r *Run) measureLead() time.Duration {
	lead := measureLeadTime
	for _, p := range r.stage.shares {
		lead = max(lead, measureLeadTime+p.uncertainty)
	}
	return lead
}

// measureSoon ends the warm-up that lasts until the load is steady, at the next whole window that all agents hear of in
// time, or at its longest duration if that is earlier. A coordinator that was held up goes beyond that one rather than
// give less than half the lead.
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
	s.record.MeasuredFromNs = proto.Int64(from.Nanoseconds())
	r.do(PutStage{s.snapshot()})
	for _, p := range s.shares {
		r.sendMeasure(p)
	}
}

// sendMeasure tells an agent when measuring begins, if that is known: an agent that comes back may have missed it.
func (r *Run) sendMeasure(p *share) {
	if s := r.stage; s.record.MeasuredFromNs != nil && !p.done() && !p.observer {
		r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Measure{Measure: &spatev1.Measure{
			Ref: s.refTo(p), FromNs: s.record.GetMeasuredFromNs(),
		}}})
	}
}
