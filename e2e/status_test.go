package e2e

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

const statusPlan = `
name: status
targets: [{name: t, simulator: {decode_step: 1ms}}]
workloads: [{random: {isl: 10, osl: 3}}]
loads: [{concurrency: [4], duration: 1500ms}]
`

// A coordinator and its agent report their state to Prometheus, and their health endpoint tells the truth.
func TestDaemonsTellHowTheyDo(t *testing.T) {
	t.Parallel()
	c := programs.StartLasting(t, nil, "--http-listen", "127.0.0.1:0")
	coordinator := "http://" + c.Coordinator.Await(`"status is served","address":"([^"]+)"`)[1]
	c.Agent("a", 1, "--coordinator", c.Address, "--http-listen", "127.0.0.1:0", "--pprof")
	agent := "http://" + c.Agents["a"].Await(`"status is served","address":"([^"]+)"`)[1]
	c.AwaitReady()
	process.Eventually(t, "the agent is healthy",
		func() bool { code, _ := programs.Get(t, agent+"/healthz"); return code == http.StatusOK })
	mustTell(t, coordinator, `spate_coordinator_agents\{health="ready"\} 1`, `spate_coordinator_runs_in_progress 0`)

	r := programs.RunPlan(t, statusPlan, "--coordinator", c.Address)
	process.Eventually(t, "the run shows", func() bool {
		_, body := programs.Get(t, coordinator+"/metrics")
		return regexp.MustCompile(`(?m)^spate_coordinator_runs_in_progress 1$`).MatchString(body)
	})
	r.MustExit(0)
	mustTell(t, coordinator, `spate_coordinator_snapshots_total [1-9]`, `spate_coordinator_snapshots_refused_total 0`)
	mustTell(t, agent, `spate_agent_connected 1`, `spate_agent_sessions_total 1`, `spate_agent_snapshots_unacked 0`,
		`spate_agent_clock_uncertainty_seconds [0-9.e-]+`)
	if code, _ := programs.Get(t, agent+"/debug/pprof/cmdline"); code != http.StatusOK {
		t.Errorf("pprof: %d", code)
	}
	c.Coordinator.Kill()
	process.Eventually(t, "the agent says that it has no coordinator",
		func() bool {
			code, _ := programs.Get(t, agent+"/healthz")
			return code == http.StatusServiceUnavailable
		})
}

// mustTell fails the test unless the metrics of a daemon have lines with these prefixes.
func mustTell(t *testing.T, base string, lines ...string) {
	t.Helper()
	_, body := programs.Get(t, base+"/metrics")
	for _, line := range lines {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(body) {
			t.Errorf("no %q in\n%s", line, body)
		}
	}
}
