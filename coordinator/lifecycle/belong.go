package lifecycle

import (
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/allotment"
	"github.com/spate-load/spate/plans/estimate"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A run sees only the agents that belong to it, because an agent belongs to one run at most. The shell gives it those
// that it wants and takes back those that it does not need.

// Wants reports whether the run would use one more agent, now or from the next stage on.
func (r *Run) Wants(at clock.Instant, a *spatev1.AgentInfo) bool {
	st := r.first()
	if r.Ended() || r.stopped || allotment.Unfit(a, st) != "" {
		return false
	}
	most := int(st.GetAgents().GetCount())
	if most == 0 {
		return true
	}
	has := r.agentsThat(func(a *agent) bool { return r.available(at, a) })
	if len(has) < most {
		return true
	}
	for _, region := range withoutAgents(has, st.GetRegions()) {
		if r.phase == gathering && region == a.GetRegion() {
			return true
		}
	}
	return false
}

// Needs returns the names of the agents that must stay with the run: those that take part, and those that may take part
// later. The run must not have ended.
func (r *Run) Needs(at clock.Instant) map[string]bool {
	needs, present := map[string]bool{}, 0
	for _, a := range r.roster { // another process may have the name
		needs[a.name()] = true
		if r.available(at, a) {
			present++
		}
	}
	most := int(r.first().GetAgents().GetCount())
	for _, a := range r.agentsThat(func(a *agent) bool { return !needs[a.name()] }) {
		joins := r.joining != nil && r.joining.agent == a
		if joins || r.available(at, a) && (most == 0 || r.phase == gathering || present < most) {
			needs[a.name()] = true
			present++
		}
	}
	return needs
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
		now = estimate.Plan([]*spatev1.Stage{r.series.template})
		now[0].Stages = max(1, now[0].GetStages()-min(now[0].GetStages(), uint32(len(r.series.probes))))
	case r.pending != nil:
		now = estimate.Plan([]*spatev1.Stage{r.pending})
	case r.inStage():
		now = estimate.Plan([]*spatev1.Stage{r.stage.record.GetStage()})
	}
	if r.inStage() && r.stage.start != 0 {
		passed = min(max(0, at.Sub(r.stage.start)), now[0].GetExpected().AsDuration())
	}
	length := estimate.Time(append(now, estimate.Plan(r.plan[r.next:])...)).Length()
	if length == nil {
		return nil
	}
	return new(*length - passed)
}
