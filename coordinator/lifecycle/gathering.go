package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/allotment"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// gather begins the first stage as soon as enough agents are ready, including one of each region that the plan names.
// After AgentsTimeout it ends the run.
func (r *Run) gather(at clock.Instant) {
	ready := r.ready(at, r.first())
	missing := withoutAgents(ready, r.first().GetRegions())
	switch {
	case len(ready) >= r.needed() && len(missing) == 0:
		r.roster = ready
		r.emit(at, &spatev1.RunEvent{Event: &spatev1.RunEvent_RunStarted{RunStarted: &spatev1.RunStarted{
			Agents: infos(ready), Stages: mostStages(r.plan), Plan: plans.Planned(r.plan),
		}}})
		r.nextStage(at)
	case at.Sub(r.begin) >= r.cfg.AgentsTimeout:
		r.fatal = fmt.Sprintf("too few agents after %v: %s: start more agents, or ask for fewer", r.cfg.AgentsTimeout,
			r.readyText(ready, missing))
		r.incomplete = true
		r.finish(at)
	case at.Sub(r.begin) >= quietWait:
		if text := r.readyText(ready, missing); r.awaited != text {
			r.awaited = text
			r.notice(at, spatev1.Severity_SEVERITY_INFO, "waiting for agents, up to %v: %s", r.cfg.AgentsTimeout, text)
		}
	}
}

// quietWait is how long the run waits for agents before it says so.
const quietWait = 2 * time.Second

// first returns the first entry of the plan, from which the regions and agents of the run are known. No plan is empty.
func (r *Run) first() *spatev1.Stage { return r.plan[0] }

// needed returns how many agents the run waits for.
func (r *Run) needed() int { return max(r.cfg.MinAgents, int(r.first().GetAgents().GetCount())) }

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

// readmit lets agents that left, and take runs again, take part in the next stage.
func (r *Run) readmit() {
	for _, a := range r.agents {
		if a.returns && a.lost == "" && a.disconnected == "" {
			a.leaving, a.returns = false, false
		}
	}
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

// withoutAgents returns the named regions that have no agent, sorted.
func withoutAgents(agents []*agent, regions map[string]float64) []string {
	left := maps.Clone(regions)
	for _, a := range agents {
		delete(left, a.info.GetRegion())
	}
	return slices.Sorted(maps.Keys(left))
}

// updateRoster updates the roster for a stage: all agents that are ready take part. It returns why the stage cannot
// begin, empty if it can.
func (r *Run) updateRoster(at clock.Instant, st *spatev1.Stage) string {
	ready := r.ready(at, st)
	if policyOf(st) == fail {
		if why := r.missing(ready); why != "" {
			return why
		}
	}
	if len(ready) == 0 {
		return "no agent is left: " + cmp.Or(r.whyAllGone(), "start agents, and run again what is missing")
	}
	if gone := withoutAgents(ready, st.GetRegions()); len(gone) > 0 {
		r.notice(at, spatev1.Severity_SEVERITY_WARNING,
			"no agent of region %s is left: its part of the load goes to the other regions", strings.Join(gone, ", "))
	}
	r.roster = ready
	maps.DeleteFunc(r.agents,
		func(_ string, a *agent) bool { return a.disconnected != "" && !slices.Contains(ready, a) })
	return ""
}

// missing returns which agent of the run is gone, empty if none is. Agents that left may be gone. A restarted process
// counts as its agent.
func (r *Run) missing(ready []*agent) string {
	present := named(ready)
	for _, old := range r.roster {
		if !old.leaving && !present[old.name()] {
			return "agent " + old.name() + " lost: " + cmp.Or(r.whyGone(old), "it is not connected")
		}
	}
	return ""
}

// named returns the names of agents.
func named(agents []*agent) map[string]bool {
	return lists.Set(lists.Each(agents, (*agent).name))
}

// whyGone returns why an agent is gone, empty if it is there.
func (r *Run) whyGone(a *agent) string {
	if now := r.agents[a.name()]; now != nil {
		return cmp.Or(now.lost, now.disconnected)
	}
	return cmp.Or(a.lost, a.disconnected)
}

// whyAllGone returns why the agents of the roster are gone.
func (r *Run) whyAllGone() string {
	var out []string
	for _, a := range r.roster {
		if why := r.whyGone(a); why != "" {
			out = append(out, fmt.Sprintf("%s lost: %s", a.name(), why))
		}
	}
	return strings.Join(out, ", ")
}

func infos(agents []*agent) []*spatev1.AgentInfo {
	return lists.Each(agents, func(a *agent) *spatev1.AgentInfo { return clone(a.info) })
}

// readyText returns how many agents are ready, which regions have none, and which agents may not take part.
func (r *Run) readyText(ready []*agent, missing []string) string {
	text := fmt.Sprintf("%d of %d%s are ready", len(ready), r.needed(), withLabels(r.first()))
	if len(missing) > 0 {
		text += ", none of region " + strings.Join(missing, ", ")
	}
	return text + r.unfitText()
}

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
	if n := len(list) - mostUnfit; n > 0 {
		list = append(list[:mostUnfit], fmt.Sprintf("and %d more", n))
	}
	return "; agents that take no part: " + strings.Join(list, "; ")
}
