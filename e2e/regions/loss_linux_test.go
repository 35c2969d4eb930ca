package regions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/netlab"
	"github.com/spate-load/spate/internal/process"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// lossPlan sends 60 requests per second, at constant gaps, so that missing ones can be identified.
const lossPlan = `
name: loss
on_agent_loss: %s
targets: [{name: server, endpoints: [%q], model: m}]
workloads: [{random: {isl: 20, osl: 3}}]
loads:
  - {rate: [60], arrival: constant, duration: %ds}
`

const lossRate = 60

// scene is a world with three agents in three regions and a server near all of them, under a loss policy.
type scene struct {
	*world
	server server
	hosts  map[string]*netlab.Host
}

// newScene sets up a scene. Agents continue by themselves for the lease.
func newScene(t *testing.T, lease time.Duration) scene {
	t.Helper()
	w := newWorld(t)
	w.startCoordinator("--lease", lease.String())
	s := scene{w, w.serve("server"), map[string]*netlab.Host{}}
	for name, delay := range map[string]int{"ap": 60, "eu": 10, "us": 40} {
		s.hosts[name] = w.join(site{name: name, region: name, to: oneWay(delay), from: oneWay(delay)})
	}
	w.awaitAgents()
	return s
}

// begin starts a run and waits until it sends load.
func (s scene) begin(policy string, seconds int) running {
	s.t.Helper()
	r := s.run(fmt.Sprintf(lossPlan, policy, s.server.url, seconds))
	r.Await(`stage|on 3 agents`)
	s.awaitRequest()
	return r
}

// awaitRequest waits until the server has answered a request.
func (s scene) awaitRequest() {
	s.t.Helper()
	process.Eventually(s.t, "the server has answered", func() bool { return len(s.server.records()) > 0 })
}

// cut separates an agent from its coordinator for a time. Its link to the server stays up.
func (s scene) cut(agent string, length time.Duration) {
	s.lab.Partition(s.hosts[agent], s.center)
	<-time.After(length)
	s.lab.Heal(s.hosts[agent], s.center)
}

// changes returns the events about lost and joined agents, and notices, in order, but for how a target was asked.
func changes(events []*spatev1.RunEvent) (said []string) {
	for _, e := range events {
		if c := e.GetAgentChanged(); c != nil {
			said = append(said, fmt.Sprintf("%s joined=%v: %s: %s", c.GetAgent().GetName(), c.GetJoined(),
				c.GetReason(), c.GetConsequence()))
		}
		if n := e.GetNotice(); n != nil && !strings.Contains(n.GetText(), "Short requests that showed") {
			said = append(said, n.GetText())
		}
	}
	return said
}

// mustSay fails the test unless one of the texts has all the parts.
func mustSay(t *testing.T, said []string, parts ...string) {
	t.Helper()
	for _, text := range said {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) }) {
			return
		}
	}
	t.Errorf("%q is in no message:\n%s", parts, strings.Join(said, "\n"))
}

// mustNotSay fails the test if one of the texts has the part.
func mustNotSay(t *testing.T, said []string, part string) {
	t.Helper()
	for _, text := range said {
		if strings.Contains(text, part) {
			t.Errorf("it was said: %s", text)
		}
	}
}

// once fails the test if a request has two rows. It returns how often each agent sent.
func once(t *testing.T, rows []programs.Row) map[string]int {
	t.Helper()
	seen, by := map[uint64]string{}, map[string]int{}
	for _, r := range rows {
		if other, twice := seen[r.Index]; twice {
			t.Errorf("request %d was sent by %s and by %s", r.Index, other, r.Agent)
		}
		seen[r.Index] = r.Agent
		by[r.Agent]++
	}
	return by
}

// A second and six without an agent lose nothing under degrade. The second is not even a loss: TCP tries again 1.4 s
// after the first lost packet, and then only after 3 s, when the agent has given the connection up.
func TestShortPartitionsLoseNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, 30*time.Second)
	r := s.begin("degrade", 12)
	s.cut("us", 1200*time.Millisecond)
	<-time.After(time.Second)
	s.cut("ap", 6*time.Second)
	r.MustExit(0)
	result := r.mustBeComplete()
	if q := result.Stages[0].Requests; q.Started != 12*lossRate || q.Completed != q.Started || *q.NeverSent != 0 {
		t.Errorf("requests %+v", q)
	}
	if by := once(t, r.rows()); by["ap"] != 4*lossRate || by["us"] != 4*lossRate {
		t.Errorf("requests by agent: %v", by)
	}
	said := changes(s.events())
	mustSay(t, said, "ap joined=false", "33.3 % of the load is missing from second", "unless it is back by second")
	mustSay(t, said, "agent ap is back: nothing is missing")
	mustNotSay(t, said, "us joined")
}

// An agent that stays disconnected under degrade is declared lost, and what is missing is reported exactly, to the
// second.
func TestLongPartitionIsSaidExactly(t *testing.T) {
	t.Parallel()
	s := newScene(t, 5*time.Second)
	r := s.begin("degrade", 10)
	<-time.After(2 * time.Second)
	s.lab.Partition(s.hosts["us"], s.center)
	r.MustExit(3)
	result := r.results()
	stage := result.Stages[0]
	loss := lossOf(t, stage, "us")
	if result.Run.Complete || stage.Complete || *result.Run.Outcome != "done" || loss.TakenOver {
		t.Errorf("run %+v, loss %+v", result.Run, loss)
	}
	rows := r.rows()
	once(t, rows)
	checkGap(t, stage, rows, 10*lossRate, "us", func(uint64) bool { return false })
	t.Logf("missing: %q", stage.Missing)
	said := fmt.Sprintf("agent us (33.3 %% of the load) lost: seconds %d to", int(loss.FromS))
	mustSay(t, stage.Missing, said)
	s.lab.Heal(s.hosts["us"], s.center)
	s.agents["us"].Await(`stopping|snapshot refused`)
}

// Under reassign the others take over the part of an agent that stays disconnected, from a recorded moment on. Nothing
// is sent twice, neither by the rows nor by what the server received. When the agent returns, it is told to stop.
func TestLongPartitionIsTakenOver(t *testing.T) {
	t.Parallel()
	s := newScene(t, 5*time.Second)
	r := s.begin("reassign", 16)
	<-time.After(2 * time.Second)
	s.cut("us", 11*time.Second)
	s.agents["us"].Await(`stopping|snapshot refused`)
	r.MustExit(3)
	result := r.results()
	stage := result.Stages[0]
	loss := lossOf(t, stage, "us")
	if result.Run.Complete || stage.Complete || *result.Run.Outcome != "done" || !loss.TakenOver || loss.ToS == nil {
		t.Fatalf("run %+v, loss %+v", result.Run, loss)
	}
	t.Logf("missing: %q", stage.Missing)
	rows := r.rows()
	once(t, rows)
	checkGap(t, stage, rows, 16*lossRate, "us", func(i uint64) bool { return dueAt(i) >= *loss.ToS })
	got := map[string]int{}
	for _, one := range s.server.records() {
		if got[one.RequestID]++; got[one.RequestID] == 2 {
			t.Errorf("the server got request %s twice", one.RequestID)
		}
	}
	t.Logf("of %d requests %d were sent, %d are in the result", 16*lossRate, len(got), len(rows))
}

// lossOf returns what was lost with an agent.
func lossOf(t *testing.T, s results.StageResult, agent string) results.Loss {
	t.Helper()
	for _, a := range s.Agents {
		if a.Name == agent && a.Loss != nil {
			return *a.Loss
		}
	}
	t.Fatalf("agent %s was not lost: %+v", agent, s.Agents)
	return results.Loss{}
}

// dueAt returns when a request is due, in seconds.
func dueAt(index uint64) float64 { return float64(index) / lossRate }

// edge is how long a request may be in flight, in seconds. A request that ends in the next window is lost with it.
const edge = 0.5

// checkGap compares the requests without a row with what the result says is missing. Each of three agents has every
// third request. The lost agent's requests must be there until the first second of its loss, and then those that others
// took over. All requests of the other agents must be there.
func checkGap(t *testing.T, s results.StageResult, rows []programs.Row, requests uint64, lost string,
	takenOver func(index uint64) bool) {
	t.Helper()
	loss := lossOf(t, s, lost)
	rank := uint64(slices.IndexFunc(s.Agents, func(a results.AgentResult) bool { return a.Name == lost }))
	sent := map[uint64]string{}
	for _, r := range rows {
		sent[r.Index] = r.Agent
	}
	wrong := 0
	for i := range requests {
		by, due := sent[i], dueAt(i)
		var ok bool
		switch {
		case i%3 != rank:
			ok = by != "" && by != lost
		case takenOver(i):
			ok = by != "" && by != lost
		case due < loss.FromS-edge:
			ok = by == lost
		case due >= loss.FromS:
			ok = by == ""
		default:
			ok = by == "" || by == lost
		}
		if !ok {
			wrong++
			if wrong <= 5 {
				t.Errorf("request %d, due at %.2f s: sent by %q; %s's are missing from second %v on, taken over: %v", i,
					due, by, lost, loss.FromS, takenOver(i))
			}
		}
	}
	if wrong > 5 {
		t.Errorf("%d such requests in all", wrong)
	}
}
