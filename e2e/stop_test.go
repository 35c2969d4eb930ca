package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/process"
)

// longPlan would take an hour.
const longPlan = `
name: long
targets:
  - {name: server, endpoints: [%q], model: m}
workloads:
  - random: {isl: 10, osl: %d}
loads:
  - concurrency: [6]
    duration: 30m
  - concurrency: [12]
    duration: 30m
`

// The first interrupt lets requests in flight finish. What was measured is kept and marked as partial.
func TestInterruptKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	server := simulate(t, 1, "--decode-step", "5ms")
	r := runPlan(t, fmt.Sprintf(longPlan, server.urls[0], 10))
	awaitAnswers(t, server, 40)
	r.Signal(syscall.SIGINT)
	r.MustExit(4)
	result, rows := r.results(), r.rows()[0]
	mustBeStopped(t, r, result)
	stage := result.Stages[0]
	q := stage.Requests
	if q.Completed < 40 || q.Failed != 0 || q.Cancelled != 0 || q.Started != q.Completed || len(stage.Errors) != 0 {
		t.Errorf("requests %+v, errors %v: none but completed ones were expected", q, stage.Errors)
	}
	if uint64(len(rows)) != q.Started || stage.E2E.Count != q.Completed {
		t.Errorf("%d rows, %d of E2E, requests %+v", len(rows), stage.E2E.Count, q)
	}
	if served := len(server.records()); served != len(rows) {
		t.Errorf("the server had %d requests, %d are recorded", served, len(rows))
	}
}

var sixRunning = regexp.MustCompile(`(?m)^vllm:num_requests_running\{.*\} 6$`)

// The second interrupt cancels requests in flight, however long they would have lasted.
func TestSecondInterruptEndsTheRunAtOnce(t *testing.T) {
	t.Parallel()
	server := simulate(t, 1, "--decode-step", "100ms")
	r := runPlan(t, fmt.Sprintf(longPlan, server.urls[0], 5000))
	r.Await(`2 stages on`)
	process.Eventually(t, "six requests run", func() bool { return sixRunning.MatchString(metrics(t, server)) })
	r.Signal(syscall.SIGINT)
	r.Await(`stopping: waiting for requests in flight`)
	begin := time.Now()
	r.Signal(syscall.SIGINT)
	r.MustExit(4)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	result := r.results()
	mustBeStopped(t, r, result)
	stage := result.Stages[0]
	if q := stage.Requests; q.Started != 6 || q.Cancelled != 6 || q.Completed+q.Failed != 0 || stage.TTFT != nil {
		t.Errorf("requests %+v, TTFT %+v: six cancelled ones were expected", q, stage.TTFT)
	}
}

// A killed agent loses what it had not delivered. The run fails and says whose part is missing.
func TestKilledAgentIsNamed(t *testing.T) {
	t.Parallel()
	server := simulate(t, 1, "--decode-step", "5ms")
	c := startCluster(t)
	for _, name := range []string{"north", "south", "west"} {
		c.join(name, 1)
	}
	c.awaitReady()
	r := runPlan(t, fmt.Sprintf(longPlan, server.urls[0], 10), "--coordinator", c.address, "--min-agents", "3")
	// After two seconds the first window of each agent is there, and an agent's last one will not be.
	awaitAnswers(t, server, 250)
	c.agents["south"].Signal(syscall.SIGKILL)
	r.MustExit(3)
	result := r.results()
	if result.Run.Complete || *result.Run.Outcome != "failed" || !strings.Contains(*result.Run.Reason, "south") {
		t.Errorf("run %+v", result.Run)
	}
	stage := result.Stages[0]
	missing := strings.Join(stage.Missing, "\n")
	if stage.Complete || !strings.Contains(missing, "south") || strings.Contains(missing, "north") ||
		strings.Contains(missing, "west") {
		t.Errorf("missing: %q", stage.Missing)
	}
	for _, a := range stage.Agents {
		if lost := a.Name == "south"; (a.Failure != nil) != lost || (a.NeverSent == nil) != lost {
			t.Errorf("agent %s: failure %v, never sent %v", a.Name, a.Failure, a.NeverSent)
		}
		if a.Name == "south" && a.Requests.Completed == 0 {
			t.Error("what the lost agent had handed over is not kept")
		}
		if a.Name != "south" && (a.Requests.Completed == 0 || a.Requests.Completed != a.Requests.Started) {
			t.Errorf("agent %s: %+v", a.Name, a.Requests)
		}
	}
	for _, text := range []string{r.Stderr.String(), r.text("report.md")} {
		if !strings.Contains(text, "south") {
			t.Errorf("the lost agent is not named in\n%s", text)
		}
	}
	if q := stage.Requests; uint64(len(r.rows()[0])) != q.Completed+q.Failed+q.Cancelled || q.NeverSent != nil {
		t.Errorf("%d rows of %+v", len(r.rows()[0]), q)
	}
}

// When an agent is killed in the middle of a replay, its rows are missing, and no others. No other agent sends them,
// and the run says whose rows are missing.
func TestReplayThatLosesAnAgent(t *testing.T) {
	t.Parallel()
	server := simulate(t, 1, "--decode-step", "2ms")
	c := startCluster(t)
	weights := map[string]int{"north": 1, "south": 1, "west": 2}
	for name, weight := range weights {
		c.join(name, weight)
	}
	c.awaitReady()
	r := runPlan(t, fmt.Sprintf(`
name: replay
targets:
  - {name: server, endpoints: [%q], model: m}
workloads:
  - mooncake: {path: "shipped:mooncake-1000.jsonl"}
loads:
  - replay: {speed: 2}
`, server.urls[0]), "--coordinator", c.address, "--min-agents", "3")
	awaitAnswers(t, server, 40)
	c.agents["south"].Signal(syscall.SIGKILL)
	r.MustExit(3)
	result, rows, trace := r.results(), r.rows()[0], shippedTrace(t)
	if result.Run.Complete || *result.Run.Outcome != "failed" || !strings.Contains(*result.Run.Reason, "south") {
		t.Errorf("run %+v", result.Run)
	}
	last := map[string]uint64{}
	owner := map[uint64]string{}
	for _, q := range rows {
		if want := trace[q.Index]; q.ScheduledNs != (want.Timestamp-trace[0].Timestamp)*1e6/2 || !q.Cancelled &&
			*q.InputTokens != want.InputLength {
			t.Errorf("request %d at %d ns is not that of the trace", q.Index, q.ScheduledNs)
		}
		if cycle := q.Index % 4; owner[cycle] != "" && owner[cycle] != q.Agent {
			t.Errorf("request %d is of agent %s, and others of its place of %s", q.Index, q.Agent, owner[cycle])
		} else {
			owner[cycle] = q.Agent
		}
		last[q.Agent] = max(last[q.Agent], q.Index)
	}
	if last["south"] == 0 || last["north"] <= last["south"] || last["west"] <= last["south"] ||
		max(last["north"], last["west"]) > 900 {
		t.Errorf("last requests %v", last)
	}
	if missing := strings.Join(result.Stages[0].Missing, "\n"); !strings.Contains(missing, "south") ||
		strings.Contains(missing, "west") {
		t.Errorf("missing: %q", missing)
	}
}

// awaitAnswers waits until the simulator has served that many requests.
func awaitAnswers(t *testing.T, s simulation, n int) {
	t.Helper()
	process.Eventually(t, fmt.Sprintf("%d requests are served", n), func() bool {
		data, err := os.ReadFile(s.truth)
		return err == nil && strings.Count(string(data), "\n") >= n
	})
}

// mustBeStopped fails the test unless the result is marked as partial because a person stopped the run.
func mustBeStopped(t *testing.T, r running, result results.Result) {
	t.Helper()
	if result.Run.Complete || *result.Run.Outcome != "stopped" || len(result.Run.Missing) == 0 ||
		len(result.Stages) != 1 {
		t.Errorf("run %+v, %d stages", result.Run, len(result.Stages))
	}
	if result.Stages[0].Complete || len(result.Stages[0].Missing) == 0 {
		t.Errorf("stage 0: complete %v, missing %q", result.Stages[0].Complete, result.Stages[0].Missing)
	}
	if !strings.Contains(strings.ToUpper(r.text("report.md")), "PARTIAL") ||
		!strings.Contains(r.text("vllm.txt"), "(PARTIAL)") {
		t.Error("report.md or vllm.txt is not marked as partial")
	}
}
