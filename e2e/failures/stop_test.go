package failures

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
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
	server := programs.Simulate(t, 1, "--decode-step", "5ms")
	r := programs.RunPlan(t, fmt.Sprintf(longPlan, server.URLs[0], 10))
	server.AwaitAnswers(40)
	r.Signal(syscall.SIGINT)
	r.MustExit(4)
	result, rows := r.Results(), r.Rows()[0]
	mustBeStopped(t, r, result)
	stage := result.Stages[0]
	q := stage.Requests
	if q.Completed < 40 || q.Failed != 0 || q.Cancelled != 0 || q.Started != q.Completed || len(stage.Errors) != 0 {
		t.Errorf("requests %+v, errors %v: none but completed ones were expected", q, stage.Errors)
	}
	if uint64(len(rows)) != q.Started || stage.E2E.Count != q.Completed {
		t.Errorf("%d rows, %d of E2E, requests %+v", len(rows), stage.E2E.Count, q)
	}
	if served := len(server.Records()); served != len(rows) {
		t.Errorf("the server had %d requests, %d are recorded", served, len(rows))
	}
}

var sixRunning = regexp.MustCompile(`(?m)^vllm:num_requests_running\{.*\} 6$`)

// The second interrupt cancels requests in flight, however long they would have lasted.
func TestSecondInterruptEndsTheRunAtOnce(t *testing.T) {
	t.Parallel()
	server := programs.Simulate(t, 1, "--decode-step", "100ms")
	r := programs.RunPlan(t, fmt.Sprintf(longPlan, server.URLs[0], 5000))
	r.Await(`2 stages on`)
	process.Eventually(t, "six requests run", func() bool { return sixRunning.MatchString(server.Metrics()) })
	r.Signal(syscall.SIGINT)
	r.Await(`stopping: waiting for requests in flight`)
	begin := time.Now()
	r.Signal(syscall.SIGINT)
	r.MustExit(4)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	result := r.Results()
	mustBeStopped(t, r, result)
	stage := result.Stages[0]
	if q := stage.Requests; q.Started != 6 || q.Cancelled != 6 || q.Completed+q.Failed != 0 || stage.TTFT != nil {
		t.Errorf("requests %+v, TTFT %+v: six cancelled ones were expected", q, stage.TTFT)
	}
}

// mustBeStopped fails the test unless the result is marked as partial because a person stopped the run.
func mustBeStopped(t *testing.T, r programs.Running, result results.Result) {
	t.Helper()
	if result.Run.Complete || *result.Run.Outcome != "stopped" || len(result.Run.Missing) == 0 ||
		len(result.Stages) != 1 {
		t.Errorf("run %+v, %d stages", result.Run, len(result.Stages))
	}
	if result.Stages[0].Complete || len(result.Stages[0].Missing) == 0 {
		t.Errorf("stage 0: complete %v, missing %q", result.Stages[0].Complete, result.Stages[0].Missing)
	}
	if !strings.Contains(strings.ToUpper(r.Text("report.md")), "PARTIAL") ||
		!strings.Contains(r.Text("vllm.txt"), "(PARTIAL)") {
		t.Error("report.md or vllm.txt is not marked as partial")
	}
}
