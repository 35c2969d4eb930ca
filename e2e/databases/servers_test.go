package databases

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/servertest"
)

// serversPlan scrapes server metrics, one of which does not exist.
const serversPlan = `
name: servers
seed: 10
targets:
  - name: server
    endpoints: [%q, %q]
    model: m
    server_metrics: {%s}
workloads:
  - random: {isl: 60, osl: 30}
loads:
  - concurrency: [8]
    duration: 4s
`

// Server metrics are in results.json, in the report and in InfluxDB, live and exported. They agree with what clients
// measured.
func TestServerMetrics(t *testing.T) {
	t.Parallel()
	servers, db := programs.Simulate(t, 2, "--decode-step", "5ms"), servertest.StartInflux(t, servertest.InfluxOptions{})
	r := programs.RunPlan(t, fmt.Sprintf(serversPlan, servers.URLs[0], servers.URLs[1], ""),
		append(db.Flags(), "--agents", "2")...)
	r.MustExit(0)
	stage := r.Results().Stages[0]
	if a := stage.ServerAccount; a == nil || !a.Comparable || a.Requests.Counted != stage.Requests.Completed ||
		a.Server != "vllm" {
		t.Errorf("the servers' account of %d requests: %+v", stage.Requests.Completed, a)
	}
	running, generated := 0.0, 0.0
	for i, server := range stage.Servers {
		if server.URL != servers.URLs[i]+"/metrics" || server.Asked < 3 || server.Failed != 0 ||
			server.ValuesLeftOut != 0 {
			t.Errorf("server %d: %+v", i, server)
		}
		for _, m := range server.Metrics {
			switch m.Name {
			case "vllm:num_requests_running":
				running += *m.Max
			case "vllm:generation_tokens_total":
				generated += *m.Increase
			}
		}
	}
	if len(stage.Servers) != 2 || running == 0 || running > 16 || generated != float64(*stage.OutputTokens) {
		t.Errorf("%d servers with up to %v requests running; %v tokens of %d", len(stage.Servers), running, generated,
			stage.OutputTokens)
	}
	if report := r.Text("report.md"); !strings.Contains(report, "## Servers") ||
		!strings.Contains(report, "## Client minus server") || !strings.Contains(report, "vllm:num_requests_running") {
		t.Errorf("report.md:\n%s", report)
	}
	live := all(t, db)
	if len(without(live, "spate_server ")) == len(live) || len(without(live, " scope=endpoint ")) == len(live) {
		t.Error("InfluxDB has nothing of servers, or of endpoints")
	}
	compareEndpoints(t, db, stage.Requests.Completed)
	export(t, r.Dir, db, 0)
	mustEqual(t, "all but what came to date", without(all(t, db), "_to_date "), without(live, "_to_date "))
}

// If a plan says nothing about server metrics, they are read at the ends of a stage. The servers counted exactly the
// requests that were sent, for any number of agents.
func TestServersAreReadByDefault(t *testing.T) {
	t.Parallel()
	servers := programs.Simulate(t, 1, "--decode-step", "2ms")
	plan := strings.Replace(fmt.Sprintf(serversPlan, servers.URLs[0], "x", ""), `, "x"`, "", 1)
	plan = strings.Replace(strings.Replace(plan, "    server_metrics: {}\n", "", 1), "duration: 4s", "requests: 200", 1)
	r := programs.RunPlan(t, plan, "--agents", "3")
	r.MustExit(0)
	stage := r.Results().Stages[0]
	a := stage.ServerAccount
	if a == nil || a.Requests.Measured != 200 || a.Requests.Counted != 200 || a.Note != "" {
		t.Fatalf("the server's account: %+v", a)
	}
	server := stage.Servers[0]
	for _, m := range server.Metrics {
		if m.Kind == "gauge" || m.Name == "vllm:generation_tokens_total" && *m.Increase != float64(*stage.OutputTokens) {
			t.Errorf("%+v", m)
		}
	}
	if server.Asked > 6 || *server.FromS > 0 || *server.ToS < *stage.DurationS {
		t.Errorf("asked %d times, from %v to %v of %v s", server.Asked, *server.FromS, *server.ToS, *stage.DurationS)
	}
}

// compareEndpoints checks that endpoints add up to the total, in windows and in the result.
func compareEndpoints(t *testing.T, db *servertest.Influx, completed uint64) {
	t.Helper()
	for _, measurement := range []string{"spate_window", "spate_stage"} {
		sum, endpoints := int64(0),
			db.Query("SELECT sum(completed) FROM "+measurement+" WHERE scope = 'endpoint' GROUP BY endpoint")
		for _, series := range endpoints {
			sum += integer(t, series.Values[0][1])
		}
		if len(endpoints) != 2 || sum != int64(completed) {
			t.Errorf("%s: %d endpoints with %d completed requests, results.json has %d", measurement, len(endpoints),
				sum, completed)
		}
	}
}

// Servers that cannot be read lose only their own numbers, and the output says so.
func TestServersWithoutMetrics(t *testing.T) {
	t.Parallel()
	servers := programs.Simulate(t, 2)
	urls := fmt.Sprintf("urls: [%q, %q]", programs.ClosedPort(t)+"/metrics", servers.URLs[0]+"/v1/models")
	r := programs.RunPlan(t, fmt.Sprintf(serversPlan, servers.URLs[0], servers.URLs[1], urls), "--agents", "1")
	r.MustExit(0)
	if !r.Results().Run.Complete {
		t.Error("the result is not complete")
	}
	for i, server := range r.Results().Stages[0].Servers {
		if server.Asked < 3 || server.Failed != server.Asked || len(server.Metrics) != 0 {
			t.Errorf("server %d: %+v", i, server)
		}
	}
	if said := strings.Count(r.Stderr.String(), "metrics cannot be read"); said != 2 {
		t.Errorf("it says so %d times", said)
	}
}
