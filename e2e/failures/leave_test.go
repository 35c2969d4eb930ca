package failures

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

// An agent that SIGTERM asks to end hands its part over: every request is sent once, the run is complete, and the agent
// exits with 0 before the run ends. This is so under each policy, in open and closed loops.
func TestAnAgentThatLeavesLosesNothing(t *testing.T) {
	for policy, load := range map[string]string{
		"fail":     "rate: [20]\n    arrival: constant\n    duration: 20s",
		"degrade":  "concurrency: [6]\n    requests: 400",
		"reassign": "rate: [20]\n    arrival: constant\n    duration: 20s",
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			c := programs.StartLasting(t, nil, shortLeases...)
			c.StartAgents("north", "south", "west")
			server := programs.Simulate(t, 1, "--decode-step", "8ms")
			r := programs.RunPlan(t, fmt.Sprintf(`
name: leave
on_agent_loss: %s
targets:
  - {name: here, endpoints: [%q], model: m}
workloads:
  - random: {isl: 30, osl: 30}
loads:
  - %s
`, policy, server.URLs[0], load), append(c.Client(), "--min-agents", "3")...)
			server.AwaitAnswers(40)
			south := c.Agents["south"]
			south.Signal(syscall.SIGTERM)
			south.MustExit(0)
			r.Await(`agent south is leaving: its 33\.3 % of the load is taken over by north, west in second \d+`)
			select {
			case <-r.Ended():
				t.Error("the agent left only when the run ended")
			default:
			}
			r.MustExit(0)
			result := r.Results()
			if !result.Run.Complete || len(result.Stages) != 1 || len(result.Stages[0].Agents) != 3 ||
				result.Stages[0].Agents[1].LeftS == nil {
				t.Errorf("%+v", result.Run)
			}
			by := r.SentBy()
			for i := range uint64(400) {
				if len(by[i]) != 1 {
					t.Errorf("request %d was sent by %q", i, by[i])
				}
			}
			if n := result.Stages[0].Requests; n.Completed != 400 || n.NeverSent == nil || *n.NeverSent != 0 {
				t.Errorf("requests %+v", n)
			}
		})
	}
}
