// Package allotment decides which waiting runs begin, and which agents they take. It is pure.
//
// An agent belongs to one run at most. A run takes the agents that its plan asks for: as many as it gives as a count,
// or else all that have its labels and are in its regions. Two runs never load the same server at once, because each
// would measure the other.
//
// Runs begin in the order in which they wait. A run that has to wait for agents reserves those that are free, and a run
// that has to wait for a server reserves that server, so that no run behind it can keep it waiting forever. A run that
// waits for a server reserves no agents meanwhile.
package allotment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Agent is an agent that is connected, or that a run has.
type Agent struct {
	Info *spatev1.AgentInfo
	// Run has the agent. Empty: it is free.
	Run string
	// Barred agents take no new run.
	Barred bool
}

// Run is a run that waits or is in progress.
type Run struct {
	ID string
	// First is the first stage of the plan, from which the agents of the run are known. Nil: any agent will do.
	First *spatev1.Stage
	// Least is how many agents the run needs at least, by its plan or its submission.
	Least int
	// Servers are the hosts, with ports, that the run loads.
	Servers []string
}

// Reason is why a run waits.
type Reason uint8

// Reasons.
const (
	None    Reason = iota // it begins
	Limit                 // no more runs may be in progress
	Servers               // a run before it loads the same server
	Agents                // runs before it have its agents
	Missing               // fewer agents than it needs are connected, which are free or not
)

// Decision is what becomes of a waiting run now.
type Decision struct {
	// Wait is why the run does not begin.
	Wait Reason
	// For are the runs that it waits for: those in progress first, then those that wait before it.
	For []string
	// Agents are the names of the agents that it takes if it begins.
	Agents []string
}

// Decide decides about waiting runs, in the order in which they wait. most is how many runs may be in progress.
func Decide(agents []Agent, running, waiting []Run, most int) []Decision {
	t := table{
		agents: slices.Clone(agents), reserved: make([]string, len(agents)), servers: map[string]string{},
		most: most,
	}
	slices.SortFunc(t.agents, func(a, b Agent) int { return strings.Compare(a.Info.GetName(), b.Info.GetName()) })
	for _, r := range running {
		t.begin(r)
	}
	return lists.Each(waiting, t.decide)
}

// table is who has what while runs are decided about.
type table struct {
	agents   []Agent           // by name
	reserved []string          // run for which an agent is kept free; empty: none
	servers  map[string]string // run that loads a server, or waits for it
	running  []string
	most     int // runs in progress
}

// begin enters a run that is in progress.
func (t *table) begin(r Run) {
	t.running = append(t.running, r.ID)
	t.claim(r)
}

// claim keeps a run's servers for it.
func (t *table) claim(r Run) {
	for _, server := range r.Servers {
		if t.servers[server] == "" {
			t.servers[server] = r.ID
		}
	}
}

// decide decides about one run.
func (t *table) decide(w Run) Decision {
	if len(t.running) >= t.most {
		return Decision{Wait: Limit, For: slices.Clone(t.running)}
	}
	if others := t.loading(w); len(others) > 0 {
		t.claim(w)
		return Decision{Wait: Servers, For: others}
	}
	free, had, others := t.fitting(w)
	chosen := t.choose(w, free)
	switch {
	case chosen != nil && (len(had) == 0 || w.count() > 0) || len(t.running) == 0:
		return t.start(w, free, chosen)
	case t.choose(w, append(slices.Clone(free), had...)) == nil:
		return Decision{Wait: Missing}
	}
	for _, i := range free {
		t.reserved[i] = w.ID
	}
	t.claim(w)
	return Decision{Wait: Agents, For: others}
}

// start lets a run begin with the chosen agents or, if there are too few for it and no other run can free any, with
// those that there are: it then waits for the rest.
func (t *table) start(w Run, free, chosen []int) Decision {
	if chosen == nil {
		chosen = free
	}
	d := Decision{}
	for _, i := range chosen {
		t.agents[i].Run = w.ID
		d.Agents = append(d.Agents, t.agents[i].Info.GetName())
	}
	t.begin(w)
	return d
}

// loading returns the runs before w that load one of its servers.
func (t *table) loading(w Run) (others []string) {
	for _, server := range w.Servers {
		if other := t.servers[server]; other != "" && !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	return others
}

// fitting returns the agents that a run asks for: those that are free, and those that other runs have or wait for.
func (t *table) fitting(w Run) (free, had []int, others []string) {
	for i, a := range t.agents {
		if a.Barred || Unfit(a.Info, w.First) != "" {
			continue
		}
		other := cmp.Or(a.Run, t.reserved[i])
		if other == "" {
			free = append(free, i)
			continue
		}
		had = append(had, i)
		others = words.AppendOnce(others, other)
	}
	slices.SortStableFunc(others, func(a, b string) int { return t.place(a) - t.place(b) }) // those in progress first
	return free, had, others
}

// place returns a run's place among those in progress, or one behind all of them.
func (t *table) place(run string) int {
	if i := slices.Index(t.running, run); i >= 0 {
		return i
	}
	return len(t.running)
}

// choose returns the agents with which a run can begin, nil if these are too few: with a count one of each region of
// the plan and then the first by name, else all.
func (t *table) choose(w Run, from []int) []int {
	present, first, rest := map[string]bool{}, []int(nil), []int(nil)
	for _, i := range from {
		if region := t.agents[i].Info.GetRegion(); len(w.First.GetRegions()) > 0 && !present[region] {
			present[region] = true
			first = append(first, i)
			continue
		}
		rest = append(rest, i)
	}
	if len(from) < max(1, w.Least) || len(present) < len(w.First.GetRegions()) {
		return nil
	}
	all := slices.Concat(first, rest)
	if n := w.count(); n > 0 {
		all = all[:n] // rules: a count covers the regions
	}
	return all
}

// count returns how many agents the plan asks for. 0: all.
func (r Run) count() int { return int(r.First.GetAgents().GetCount()) }

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
