package allotment

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// agentOf reads an agent: "a@eu#big" is free, "a@eu#big=r1" belongs to r1, "!a" takes no new run.
func agentOf(text string) Agent {
	text, barred := strings.CutPrefix(text, "!")
	text, run, _ := strings.Cut(text, "=")
	text, pool, _ := strings.Cut(text, "#")
	name, region, _ := strings.Cut(text, "@")
	a := &spatev1.AgentInfo{Name: name, Region: region}
	if pool != "" {
		a.Labels = map[string]string{"pool": pool}
	}
	return Agent{Info: a, Run: run, Barred: barred}
}

// runOf reads a run: "r2 big 3 eu,us >server" asks for three of the pool big in two regions, and loads a server.
// "-" stands for no pool, 0 for no count.
func runOf(t interface{ Fatal(...any) }, text string) Run {
	var pool, regions string
	var count int
	id, rest, _ := strings.Cut(text, " ")
	rest, server, _ := strings.Cut(rest, ">")
	if _, err := fmt.Sscan(rest, &pool, &count); err != nil {
		t.Fatal(text, err)
	}
	if fields := strings.Fields(rest); len(fields) > 2 {
		regions = fields[2]
	}
	r := Run{ID: id, First: &spatev1.Stage{Agents: &spatev1.AgentSelector{Count: uint32(count)}}, Least: max(1, count)}
	if pool != "-" {
		r.First.Agents.Labels = map[string]string{"pool": pool}
	}
	if regions != "" {
		r.First.Regions = map[string]float64{}
		for region := range strings.SplitSeq(regions, ",") {
			r.First.Regions[region] = 1
		}
	}
	if server != "" {
		r.Servers = strings.Split(server, ",")
	}
	return r
}

// readRuns reads runs.
func readRuns(t interface{ Fatal(...any) }, texts ...string) (out []Run) {
	for _, text := range texts {
		out = append(out, runOf(t, text))
	}
	return out
}

// said writes a decision: "begins a b", "waits agents r1 r2".
func said(d Decision) string {
	if d.Wait == None {
		return strings.TrimSpace("begins " + strings.Join(d.Agents, " "))
	}
	word := map[Reason]string{
		Limit: "limit", Servers: "servers", Agents: "agents", Missing: "missing",
	}[d.Wait]
	return strings.TrimSpace("waits " + word + " " + strings.Join(d.For, " "))
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		agents           string
		running, waiting []string
		most             int
		want             []string
	}{
		"a run without a selector takes every agent": {
			agents: "b a c !d", waiting: []string{"r1 - 0", "r2 - 0"}, want: []string{"begins a b c", "waits agents r1"},
		},
		"it waits until all are free": {
			agents: "a=r1 b c", running: []string{"r1 - 1"}, waiting: []string{"r2 - 0"}, want: []string{"waits agents r1"},
		},
		"an agent that takes no new run is not waited for": {
			agents: "!a=r1 b c", running: []string{"r1 - 1"}, waiting: []string{"r2 - 0"}, want: []string{"begins b c"},
		},
		"runs on other agents begin beside it": {
			agents: "a#big b#big c#small d#small", waiting: []string{"r1 big 0", "r2 small 1", "r3 small 2", "r4 - 1"},
			want: []string{"begins a b", "begins c", "waits agents r2", "waits agents r1 r2 r3"},
		},
		"a run that waits reserves what is free": {
			agents: "a=r1 b c", running: []string{"r1 - 1"}, waiting: []string{"r2 - 3", "r3 - 1"},
			want: []string{"waits agents r1", "waits agents r1 r2"},
		},
		"a run that can never have enough reserves nothing": {
			agents: "a=r1 b c", running: []string{"r1 - 1"}, waiting: []string{"r2 - 4", "r3 - 1"},
			want: []string{"waits missing", "begins b"},
		},
		"alone it begins all the same, and waits for agents as long as it was told to": {
			agents: "a b", waiting: []string{"r1 - 4", "r2 - 1"}, want: []string{"begins a b", "waits agents r1"},
		},
		"without any agent the first run begins": {
			waiting: []string{"r1 - 0", "r2 - 0"}, want: []string{"begins", "waits missing"},
		},
		"each region of the plan has an agent": {
			agents: "a@eu b@eu c@us d@asia", waiting: []string{"r1 - 2 eu,us", "r2 - 2 eu,us", "r3 - 0 asia"},
			want: []string{"begins a c", "waits agents r1", "begins d"},
		},
		"a region without agents": {
			agents: "a@eu=r1 b@eu", running: []string{"r1 - 1"}, waiting: []string{"r2 - 0 eu,us"},
			want: []string{"waits missing"},
		},
		"two runs do not load one server": {
			agents: "a b c d=r1", running: []string{"r1 - 1 >x"},
			waiting: []string{"r2 - 1 >x,y", "r3 - 1 >y", "r4 - 1 >z", "r5 - 2"},
			want:    []string{"waits servers r1", "waits servers r2", "begins a", "begins b c"},
		},
		"a run that loads two of its servers is named once": {
			agents: "a=r1 b", running: []string{"r1 - 1 >x,y"}, waiting: []string{"r2 - 1 >x,y"},
			want: []string{"waits servers r1"},
		},
		"a run that waits for agents keeps its server": {
			agents: "a=r1 b c#small", running: []string{"r1 - 1"}, waiting: []string{"r2 - 3 >x", "r3 small 1 >x"},
			want: []string{"waits agents r1", "waits servers r2"},
		},
		"the limit": {
			agents: "a=r1 b c", running: []string{"r1 - 1"}, waiting: []string{"r2 - 1", "r3 - 1"}, most: 2,
			want: []string{"begins b", "waits limit r1 r2"},
		},
	} {
		var agents []Agent
		if c.most == 0 {
			c.most = 10
		}
		for text := range strings.FieldsSeq(c.agents) {
			agents = append(agents, agentOf(text))
		}
		var got []string
		for _, d := range Decide(agents, readRuns(t, c.running...), readRuns(t, c.waiting...), c.most) {
			got = append(got, said(d))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// world is a fleet and runs in random sizes.
type world struct {
	agents           []Agent
	running, waiting []Run
	most             int
}

func drawWorld(t *rapid.T) *world {
	w := &world{most: rapid.IntRange(1, 4).Draw(t, "most")}
	for i := range rapid.IntRange(0, 8).Draw(t, "agents") {
		pool := rapid.SampledFrom([]string{"", "#big", "#small"}).Draw(t, "pool")
		region := rapid.SampledFrom([]string{"", "@eu", "@us"}).Draw(t, "region")
		w.agents = append(w.agents, agentOf(fmt.Sprintf("a%d%s%s", i, region, pool)))
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "runs") {
		r := runOf(t, fmt.Sprintf("r%d %s %d%s>%s", i, rapid.SampledFrom([]string{"-", "-", "big", "small"}).Draw(t, "asks"),
			rapid.IntRange(0, 5).Draw(t, "count"), rapid.SampledFrom([]string{"", "", " eu", " us"}).Draw(t, "in"),
			rapid.SampledFrom([]string{"", "x", "y", "x,y"}).Draw(t, "server")))
		w.waiting = append(w.waiting, r)
	}
	return w
}

// begin begins what can begin, and returns the runs that did.
func (w *world) begin(t *rapid.T) (began []string) {
	var still []Run
	for i, d := range Decide(w.agents, w.running, w.waiting, w.most) {
		if d.Wait != None {
			still = append(still, w.waiting[i])
			continue
		}
		began = append(began, w.waiting[i].ID)
		w.running = append(w.running, w.waiting[i])
		for j, a := range w.agents {
			if slices.Contains(d.Agents, a.Info.GetName()) {
				if a.Run != "" || Unfit(a.Info, w.waiting[i].First) != "" {
					t.Fatalf("%s takes %v", w.waiting[i].ID, a)
				}
				w.agents[j].Run = w.waiting[i].ID
			}
		}
	}
	w.waiting = still
	return began
}

// suffices reports whether a run could begin if all agents were free.
func (w *world) suffices(r Run) bool {
	fit, regions := 0, map[string]bool{}
	for _, a := range w.agents {
		if Unfit(a.Info, r.First) == "" {
			fit++
			regions[a.Info.GetRegion()] = true
		}
	}
	for region := range r.First.GetRegions() {
		if !regions[region] {
			return false
		}
	}
	return fit >= r.Least
}

// end ends a run in progress.
func (w *world) end(i int) {
	for j := range w.agents {
		if w.agents[j].Run == w.running[i].ID {
			w.agents[j].Run = ""
		}
	}
	w.running = slices.Delete(w.running, i, i+1)
}

// check fails the test if two runs load one server, or more runs are in progress than may be.
func (w *world) check(t *rapid.T) {
	loads := map[string]string{}
	for _, r := range w.running {
		for _, server := range r.Servers {
			if other := loads[server]; other != "" {
				t.Fatalf("%s and %s load %s", other, r.ID, server)
			}
			loads[server] = r.ID
		}
	}
	if len(w.running) > w.most {
		t.Fatalf("%d runs are in progress, at most %d may be", len(w.running), w.most)
	}
}

// Whatever the fleet and the runs, an agent belongs to one run, a server is loaded by one run, and each run begins,
// also if runs behind it keep coming: the first in the queue begins when the runs have ended that were in progress, or,
// if it also waited for a server, those that began meanwhile. A run for which the fleet is too small begins when it is
// alone.
func TestEachRunBegins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.begin(t)
		rounds := map[string]int{}
		for late := 0; len(w.waiting) > 0; {
			w.check(t)
			first := w.waiting[0].ID
			if rounds[first]++; rounds[first] > 3 && w.suffices(w.waiting[0]) || len(w.running) == 0 {
				t.Fatalf("%s waits, and %d runs are in progress", first, len(w.running))
			}
			for range len(w.running) {
				if late < 30 {
					w.waiting = append(w.waiting, runOf(t, fmt.Sprintf("late%d - 1", late)))
					late++
				}
				w.end(0)
				w.begin(t)
				w.check(t)
			}
		}
	})
}
