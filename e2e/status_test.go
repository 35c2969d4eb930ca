package e2e

import (
	"io"
	"net/http"
	"regexp"
	"testing"

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
	c := &cluster{t: t, agents: map[string]*process.Process{}}
	c.coordinator = process.Start(t, programs.Coordinator, "--listen", "127.0.0.1:0", "--no-gossip", "--http-listen",
		"127.0.0.1:0", "--log-format", "json")
	c.address = c.coordinator.Await(`"coordinator serves","address":"([^"]+)"`)[1]
	coordinator := "http://" + c.coordinator.Await(`"status is served","address":"([^"]+)"`)[1]
	c.agent("a", 1, "--coordinator", c.address, "--http-listen", "127.0.0.1:0", "--pprof")
	agent := "http://" + c.agents["a"].Await(`"status is served","address":"([^"]+)"`)[1]
	c.awaitReady()
	process.Eventually(t, "the agent is healthy",
		func() bool { code, _ := get(t, agent+"/healthz"); return code == http.StatusOK })
	mustTell(t, coordinator, `spate_coordinator_agents\{health="ready"\} 1`, `spate_coordinator_run_in_progress 0`)

	r := runPlan(t, statusPlan, "--coordinator", c.address)
	process.Eventually(t, "the run shows", func() bool {
		_, body := get(t, coordinator+"/metrics")
		return regexp.MustCompile(`(?m)^spate_coordinator_run_in_progress 1$`).MatchString(body)
	})
	r.MustExit(0)
	mustTell(t, coordinator, `spate_coordinator_snapshots_total [1-9]`, `spate_coordinator_snapshots_refused_total 0`)
	mustTell(t, agent, `spate_agent_connected 1`, `spate_agent_sessions_total 1`, `spate_agent_snapshots_unacked 0`,
		`spate_agent_clock_uncertainty_seconds [0-9.e-]+`)
	if code, _ := get(t, agent+"/debug/pprof/cmdline"); code != http.StatusOK {
		t.Errorf("pprof: %d", code)
	}
	c.coordinator.Kill()
	process.Eventually(t, "the agent says that it has no coordinator",
		func() bool { code, _ := get(t, agent+"/healthz"); return code == http.StatusServiceUnavailable })
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// mustTell fails the test unless the metrics of a daemon have lines with these prefixes.
func mustTell(t *testing.T, base string, lines ...string) {
	t.Helper()
	_, body := get(t, base+"/metrics")
	for _, line := range lines {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(body) {
			t.Errorf("no %q in\n%s", line, body)
		}
	}
}
