package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/allotment"
	"github.com/spate-load/spate/plans/estimate"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// first returns the first entry of the plan, from which the regions and agents of the run are known. Nil: the plan is
// empty.
func (r *Run) first() *spatev1.Stage {
	if len(r.plan) == 0 {
		return nil
	}
	return r.plan[0]
}

// excluded returns why an agent does not take part in a stage, empty if it may.
func (r *Run) excluded(a *agent, st *spatev1.Stage) string {
	return cmp.Or(r.barred(a), allotment.Unfit(a.info, st))
}

// ready returns the agents that take part in a stage, sorted by name: those that can and, if the plan asks for a
// number, no more than that. This is the order of the weights in every stripe.
func (r *Run) ready(at clock.Instant, st *spatev1.Stage) []*agent {
	r.readmit()
	out := r.agentsThat(func(a *agent) bool { return r.available(at, a) && allotment.Unfit(a.info, st) == "" })
	most := int(st.GetAgents().GetCount())
	if most == 0 || len(out) <= most {
		return out
	}
	preferred := r.preference(out, st)
	slices.SortStableFunc(out, func(a, b *agent) int { return preferred[a.name()] - preferred[b.name()] })
	out = out[:most]
	slices.SortFunc(out, func(a, b *agent) int { return strings.Compare(a.name(), b.name()) })
	return out
}

// preference returns in which order agents are chosen: those of the run first, so that the load stays where it is, then
// one of each region of the plan that has none, then the others.
func (r *Run) preference(agents []*agent, st *spatev1.Stage) map[string]int {
	order, present, known := map[string]int{}, map[string]bool{}, named(r.roster)
	for _, a := range agents {
		order[a.name()] = 2
		if known[a.name()] {
			order[a.name()], present[a.info.GetRegion()] = 0, true
		}
	}
	for _, a := range agents {
		if region := a.info.GetRegion(); len(st.GetRegions()) > 0 && !present[region] {
			order[a.name()], present[region] = 1, true
		}
	}
	return order
}

// full reports whether a stage in progress has as many agents as the plan asks for.
func (r *Run) full(st *spatev1.Stage) bool {
	most := int(st.GetAgents().GetCount())
	present := r.stage.where(func(p *assignment) bool { return !p.done() && !p.isLost() && !p.agent.leaving })
	return most > 0 && len(present) >= most
}

// needed returns how many agents the run waits for.
func (r *Run) needed() int { return max(r.cfg.MinAgents, int(r.first().GetAgents().GetCount())) }

// withLabels returns which agents the plan asks for, for a sentence: " with pool=big and region=eu". Empty: any.
func withLabels(st *spatev1.Stage) string {
	list := naming.LabelTexts(st.GetAgents().GetLabels())
	if len(list) == 0 {
		return ""
	}
	return " with " + strings.Join(list, " and ")
}

// mostUnfit bounds the agents that are named because they may not take part.
const mostUnfit = 5

// unfitText names the connected agents that may not take part, and why. Empty: there are none.
func (r *Run) unfitText() string {
	var list []string
	left := func(a *agent) bool { return r.excluded(a, r.first()) != "" && a.lost == "" && a.disconnected == "" }
	for _, a := range r.agentsThat(left) {
		list = append(list, a.name()+": "+r.excluded(a, r.first()))
	}
	if r.cfg.Others != nil {
		list = append(list, r.cfg.Others()...)
	}
	if len(list) == 0 {
		return ""
	}
	more := ""
	if n := len(list) - mostUnfit; n > 0 {
		list, more = list[:mostUnfit], fmt.Sprintf("; and %d more", n)
	}
	return "; agents that take no part: " + strings.Join(list, "; ") + more
}

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
