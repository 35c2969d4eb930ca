package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

const tlsPlan = `
name: tls
targets: [{name: t, simulator: {decode_step: 1ms}}]
workloads: [{random: {isl: 10, osl: 3}}]
loads: [{concurrency: [4], requests: 40}]
`

// With certificates a run works as without. Programs without one, with another cluster's, or with the wrong role are
// refused.
func TestOnlyTheClusterTakesPart(t *testing.T) {
	t.Parallel()
	own, other := programs.MakeCerts(t), programs.MakeCerts(t)
	c := programs.StartLasting(t, own)
	c.Agent("mine", 1, append(own("agent", "a"), "--coordinator", c.Address)...)
	stranger := process.Start(t, programs.Built.Agent, append(other("agent", "a"), "--name", "stranger", "--coordinator",
		c.Address)...)
	plain := process.Start(t, programs.Built.Agent, "--name", "plain", "--coordinator", c.Address)
	stranger.Await("not connected")
	plain.Await("not connected")
	c.Coordinator.Await(`"refused"`)

	client := own("client", "anna")
	r := programs.RunPlan(t, tlsPlan, append(client, "--coordinator", c.Address)...)
	r.MustExit(0)
	if result := r.Results(); !result.Run.Complete || len(result.Run.Agents) != 1 ||
		result.Run.Agents[0].Name != "mine" {
		t.Errorf("%+v", result.Run)
	}
	for what, flags := range map[string][]string{"no certificate": nil, "another cluster's": other("client", "eve")} {
		said, err := exec.Command(programs.Built.Spate, append([]string{"agents", "--coordinator", c.Address},
			flags...)...).CombinedOutput()
		if err == nil || strings.Contains(string(said), "mine") {
			t.Errorf("%s: %v\n%s", what, err, said)
		}
	}
}
