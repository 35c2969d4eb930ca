package e2e

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/e2e/programs"
)

// onePlan has each kind of load, with a warm-up, on both APIs.
const onePlan = `
name: one-plan
seed: 7
targets:
  - name: chat
    simulator: {endpoints: 2, decode_step: 1ms}
  - name: completions
    api: completions
    simulator: {decode_step: 1ms}
workloads:
  - random: {isl: 40, osl: 4}
loads:
  - concurrency: [9]
    requests: 150
    warmup: {requests: 12}
  - rate: [200]
    arrival: constant
    duration: 500ms
  - rate: [200]
    arrival: poisson
    requests: 100
    warmup: {requests: 10}
`

// sent is what the plan decides about a request. Nothing in it may depend on the agent that sent it.
type sent struct {
	stage     uint32
	index     uint64
	turn      uint32
	body      string
	warmup    bool
	scheduled int64 // 0 in a closed loop and in later turns of a session, where it depends on the server
}

// The same plan sends the same requests at the same times on one agent, on seven, and on five processes of unequal
// weight, of which four find the coordinator by gossip and one has its address.
func TestOnePlanIsOneSetOfRequestsOnAnyAgents(t *testing.T) {
	t.Parallel()
	one := programs.RunPlan(t, onePlan, "--agents", "1")
	one.MustExit(0)
	want := sentBy(t, one)
	if len(want) != 2*(162+100+110) {
		t.Errorf("%d requests", len(want))
	}
	seven := programs.RunPlan(t, onePlan, "--agents", "7")
	seven.MustExit(0)

	c := programs.StartCluster(t)
	for name, weight := range map[string]int{"a": 1, "b": 2, "c": 3, "d": 7} {
		c.Join(name, weight)
	}
	c.Connect("e", 2)
	if table := c.AwaitReady(); strings.Count(table, "here") != 5 {
		t.Errorf("spate agents lists\n%s", table)
	}
	processes := programs.RunPlan(t, onePlan, "--coordinator", c.Address, "--min-agents", "5")
	processes.MustExit(0)

	for _, r := range []struct {
		name string
		programs.Running
		agents int
	}{{"one embedded agent", one, 1}, {"seven embedded agents", seven, 7}, {"five processes", processes, 5}} {
		result := r.Results()
		if !result.Run.Complete || len(result.Run.Missing) > 0 || len(result.Run.Agents) != r.agents ||
			len(result.Stages) != 6 {
			t.Errorf("%s: run %+v of %d stages", r.name, result.Run, len(result.Stages))
		}
		if diff := cmp.Diff(want, sentBy(t, r.Running), cmp.AllowUnexported(sent{})); diff != "" {
			t.Errorf("%s: other requests than one agent's:\n%s", r.name, diff)
		}
	}
	mustShareByWeight(t, processes, map[string]int{"a": 1, "b": 2, "c": 3, "d": 7, "e": 2})
}

// sentBy lists what a run sent, by stage and index.
func sentBy(t *testing.T, r programs.Running) []sent {
	t.Helper()
	result, rows := r.Results(), r.Rows()
	var all []sent
	for _, stage := range result.Stages {
		for _, row := range rows[stage.Index] {
			s := sent{stage: stage.Index, index: row.Index, turn: row.Turn, body: row.BodyHash, warmup: row.Unmeasured}
			if stage.Load.Concurrency == nil && row.Turn == 0 {
				s.scheduled = row.ScheduledNs
			}
			all = append(all, s)
		}
	}
	return all
}

// mustShareByWeight fails the test unless each agent sent its share of the open loops: to within one request where
// arrivals are dealt out, and within four standard deviations where they are drawn.
func mustShareByWeight(t *testing.T, r programs.Running, weights map[string]int) {
	t.Helper()
	sum := 0
	for _, weight := range weights {
		sum += weight
	}
	rows := r.Rows()
	for _, stage := range r.Results().Stages {
		if stage.Load.Rate == nil {
			continue
		}
		got := map[string]int{}
		for _, row := range rows[stage.Index] {
			got[row.Agent]++
		}
		for name, weight := range weights {
			part := float64(weight) / float64(sum)
			share, slack := float64(len(rows[stage.Index]))*part, 1.0
			if *stage.Load.Arrival == "poisson" {
				slack = 4 * math.Sqrt(share*(1-part))
			}
			if off := float64(got[name]) - share; math.Abs(off) > slack {
				t.Errorf("stage %d: agent %s of weight %d sent %d requests, its share is %.2f", stage.Index, name,
					weight, got[name], share)
			}
		}
	}
}

func TestMain(m *testing.M) { os.Exit(programs.Main(m, 4)) }
