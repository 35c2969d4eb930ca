package allotment

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Waits estimates how long waiting runs wait until they begin, if no run is added and each takes as long as it is said
// to take. Nil: it is not known, because a run before it may take any time.
func Waits(agents []Agent, running, waiting []Run, limits Limits) []*time.Duration {
	agents, running, left := slices.Clone(agents), slices.Clone(running), slices.Clone(waiting)
	began := map[string]*time.Duration{}
	for now := time.Duration(0); ; {
		for i, d := range Decide(agents, running, left, limits) {
			if w := left[i]; d.Wait == None {
				began[w.ID] = new(now)
				if w.Left != nil {
					w.Left = new(now + *w.Left) // from now on the instant at which it ends
				}
				running = append(running, w)
				give(agents, w.ID, d.Agents)
			}
		}
		left = slices.DeleteFunc(left, func(w Run) bool { return began[w.ID] != nil })
		next := firstToEnd(running)
		if len(left) == 0 || next < 0 {
			break
		}
		now = max(now, *running[next].Left)
		take(agents, running[next].ID)
		running = slices.Delete(running, next, next+1)
	}
	var out []*time.Duration
	for _, w := range waiting {
		out = append(out, began[w.ID])
	}
	return out
}

// give lets a run have the named agents.
func give(agents []Agent, run string, names []string) {
	for i, a := range agents {
		if slices.Contains(names, a.Info.GetName()) {
			agents[i].Run = run
		}
	}
}

// take makes the agents of a run free.
func take(agents []Agent, run string) {
	for i, a := range agents {
		if a.Run == run {
			agents[i].Run = ""
		}
	}
}

// firstToEnd returns the index of the run that ends first, -1 if that is not known of any.
func firstToEnd(running []Run) int {
	first := -1
	for i, r := range running {
		if r.Left != nil && (first < 0 || *r.Left < *running[first].Left) {
			first = i
		}
	}
	return first
}

// Unfit returns why a plan does not ask for an agent, empty if it does: it splits by the agent's region or by none, and
// the agent has the labels.
func Unfit(a *spatev1.AgentInfo, st *spatev1.Stage) string {
	if _, named := st.GetRegions()[a.GetRegion()]; !named && len(st.GetRegions()) > 0 {
		return fmt.Sprintf("the plan has no region %q", a.GetRegion())
	}
	wanted := st.GetAgents().GetLabels()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		has := a.GetLabels()[name]
		if name == naming.RegionLabel {
			has = a.GetRegion()
		}
		switch has {
		case wanted[name]:
		case "":
			return fmt.Sprintf("it has no label %s=%s", name, wanted[name])
		default:
			return fmt.Sprintf("its %s is %s, not %s", name, has, wanted[name])
		}
	}
	return ""
}
