package lifecycle

import (
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/series"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// nextStage begins the next stage that can run, or the pause before it, or ends the run.
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

// beginPending begins the pending stage, or ends the run if there are no agents for it.
func (r *Run) beginPending(at clock.Instant) {
	if why := r.updateRoster(at, r.pending); why != "" {
		r.fatal, r.incomplete = why, true
		r.finish(at)
		return
	}
	st := r.pending
	r.pending = nil
	r.count(st)
	r.assign(at, st, 1)
}

// count gives a stage its index in the run.
func (r *Run) count(st *spatev1.Stage) {
	st.Index = r.begun
	r.begun++
}

// skip records a stage as skipped.
func (r *Run) skip(at clock.Instant, st *spatev1.Stage, reason string) {
	reason = "skipped: " + reason
	r.count(st)
	r.incomplete = true
	r.do(PutStage{&spatev1.StageRecord{Stage: st, Failure: reason, Ended: true}})
	r.emitEnded(at, &spatev1.StageEnded{StageIndex: st.GetIndex(), Failure: reason})
}

// upcoming returns the next stage to begin, without its index: the next stage of the series in progress, or else of the
// plan. It returns nil at the end. A template of a dead target is returned as it is, to be skipped.
func (r *Run) upcoming(at clock.Instant) *spatev1.Stage {
	for {
		if r.series != nil {
			if step, ok := r.series.steps.Next(); ok {
				return r.series.stage(step)
			}
			r.concludeSeries(at)
		}
		if r.next == len(r.plan) {
			return nil
		}
		st := r.plan[r.next]
		r.next++
		steps := series.New(st.GetLoad())
		if _, dead := r.dead[st.GetTarget().GetName()]; steps == nil || dead {
			return clone(st)
		}
		r.series = &activeSeries{template: st, number: r.begunSeries, steps: steps}
		r.begunSeries++
	}
}

// Left estimates how long the run still takes, without the time in which stages are prepared and drain. Nil: it is not
// known.
func (r *Run) Left(at clock.Instant) *time.Duration {
	if r.stopped {
		return new(time.Duration)
	}
	now, passed := []*spatev1.PlannedStage(nil), time.Duration(0)
	switch {
	case r.series != nil:
		now = plans.Planned([]*spatev1.Stage{r.series.template})
		now[0].Stages = max(1, now[0].GetStages()-min(now[0].GetStages(), uint32(len(r.series.probes))))
	case r.pending != nil:
		now = plans.Planned([]*spatev1.Stage{r.pending})
	case r.phase.inStage():
		now = plans.Planned([]*spatev1.Stage{r.stage.record.GetStage()})
	}
	if r.phase.inStage() && r.stage.start != 0 {
		passed = min(max(0, at.Sub(r.stage.start)), now[0].GetExpected().AsDuration())
	}
	length := plans.TimeOf(append(now, plans.Planned(r.plan[r.next:])...)).Length()
	if length == nil {
		return nil
	}
	return new(*length - passed)
}

// mostStages returns the largest number of stages that the plan can become.
func mostStages(plan []*spatev1.Stage) (n uint32) {
	for _, st := range plan {
		n += plans.EstimateOf(st).Stages
	}
	return n
}
