package failures

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

// TestSessionsOfALostAgent: the sessions that a lost agent had begun end with it, because only it has their answers.
// Those that it had not begun are taken over, and no session is sent by two agents.
func TestSessionsOfALostAgent(t *testing.T) {
	t.Parallel()
	server := programs.Simulate(t, 1, "--decode-step", "2ms")
	c := programs.StartCluster(t)
	for _, name := range []string{"north", "south", "west"} {
		c.Join(name, 1)
	}
	c.AwaitReady()
	r := programs.RunPlan(t, fmt.Sprintf(`
name: lost
on_agent_loss: reassign
targets:
  - {name: server, endpoints: [%q], model: m}
workloads:
  - sessions: {turns: 8, isl: 20, osl: 10, play: {think_time: {mean: 400ms}}}
loads:
  - {rate: [12], arrival: constant, duration: 25s}
`, server.URLs[0]), "--coordinator", c.Address, "--min-agents", "3")
	server.AwaitAnswers(150)
	c.Agents["south"].Signal(syscall.SIGKILL)
	r.MustExit(3)
	stage, rows := r.Results().Stages[0], r.Rows()[0]
	cut, whole, last := 0, 0, map[string]uint64{}
	bySession := map[uint64][]programs.Row{}
	for _, q := range rows {
		bySession[q.Index] = append(bySession[q.Index], q)
	}
	for index, turns := range bySession {
		for _, q := range turns {
			if q.Agent != turns[0].Agent {
				t.Errorf("session %d was sent by %s and %s", index, turns[0].Agent, q.Agent)
			}
		}
		switch {
		case len(turns) == 8:
			whole++
		case turns[0].Agent == "south":
			cut++
		default:
			t.Errorf("session %d of %s has %d turns", index, turns[0].Agent, len(turns))
		}
		last[turns[0].Agent] = max(last[turns[0].Agent], index)
	}
	if cut == 0 || last["north"] < last["south"]+100 || last["west"] < last["south"]+100 {
		t.Errorf("%d sessions were cut off, %d were whole; last sessions %v", cut, whole, last)
	}
	if got := stage.Sessions.Completed; int(got) > whole || stage.Complete ||
		!strings.Contains(strings.Join(stage.Missing, "\n"), "the sessions that it had begun have no further turns") {
		t.Errorf("%d sessions completed of %d, missing %q", got, whole, stage.Missing)
	}
	t.Logf("%d sessions were cut off, %d were whole, %d completed; missing %q", cut, whole, stage.Sessions.Completed,
		stage.Missing)
}
