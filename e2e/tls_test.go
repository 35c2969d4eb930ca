package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
	own, other := makeCerts(t), makeCerts(t)
	c := &cluster{t: t, agents: map[string]*process.Process{}}
	c.coordinator = process.Start(t, programs.Coordinator, append(own("coordinator", "main"), "--listen", "127.0.0.1:0",
		"--no-gossip", "--log-format", "json")...)
	c.address = c.coordinator.Await(`"coordinator serves","address":"([^"]+)"`)[1]
	c.agent("mine", 1, append(own("agent", "a"), "--coordinator", c.address)...)
	stranger := process.Start(t, programs.Agent, append(other("agent", "a"), "--name", "stranger", "--coordinator",
		c.address)...)
	plain := process.Start(t, programs.Agent, "--name", "plain", "--coordinator", c.address)
	stranger.Await("not connected")
	plain.Await("not connected")
	c.coordinator.Await(`"connection refused"`)

	client := own("client", "anna")
	r := runPlan(t, tlsPlan, append(client, "--coordinator", c.address)...)
	r.MustExit(0)
	if result := r.results(); !result.Run.Complete || len(result.Run.Agents) != 1 ||
		result.Run.Agents[0].Name != "mine" {
		t.Errorf("%+v", result.Run)
	}
	for what, flags := range map[string][]string{"no certificate": nil, "another cluster's": other("client", "eve")} {
		said, err := exec.Command(programs.Spate, append([]string{"agents", "--coordinator", c.address},
			flags...)...).CombinedOutput()
		if err == nil || strings.Contains(string(said), "mine") {
			t.Errorf("%s: %v\n%s", what, err, said)
		}
	}
}

// makeCerts makes an authority. It returns a function that makes a certificate of a role once and returns its flags.
func makeCerts(t *testing.T) func(role, name string) []string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	spate := func(args ...string) string {
		said, err := exec.Command(programs.Spate, append([]string{"certs", "--dir", dir}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("spate certs: %v\n%s", err, said)
		}
		return string(said)
	}
	spate("init")
	made := map[string][]string{}
	return func(role, name string) []string {
		name = role + "-" + name
		if made[name] == nil {
			made[name] = strings.Fields(spate(role, name))
		}
		return made[name]
	}
}
