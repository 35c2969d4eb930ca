package failures

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/e2e/programs"
)

// An endpoint without a listener is reported at once, before there is a run.
func TestDeadEndpointFailsTheRunSoon(t *testing.T) {
	t.Parallel()
	dead := programs.ClosedPort(t)
	begin := time.Now()
	r := programs.RunPlan(t, fmt.Sprintf(`
name: dead
targets:
  - {name: gone, endpoints: [%q], model: m, connect_timeout: 2s}
workloads:
  - random: {isl: 10, osl: 2}
loads:
  - concurrency: [1, 2, 4]
    duration: 60s
`, dead))
	r.MustExit(2)
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("it took %v, longer than its first stage would have taken", took)
	}
	mustSayDead(t, r, dead, "refused")
}

// mustSayDead requires that a run of a dead endpoint said so in one line, and made no run directory.
func mustSayDead(t *testing.T, r programs.Running, endpoint, why string) {
	t.Helper()
	said := r.Stderr.String()
	if strings.Count(said, "\n") != 1 || !strings.Contains(said, endpoint) || !strings.Contains(said, why) {
		t.Errorf("not one line that says of %s that it %s:\n%s", endpoint, why, said)
	}
	if _, err := os.Stat(r.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", r.Dir, err)
	}
}

// A dead target does not keep the run from measuring the others.
func TestDeadTargetLeavesTheOthers(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, fmt.Sprintf(`
name: one-dead
targets:
  - {name: gone, endpoints: [%q], model: m, connect_timeout: 2s}
  - {name: well, endpoints: [%q], model: m}
workloads:
  - random: {isl: 10, osl: 2}
loads:
  - concurrency: [2, 4]
    requests: 50
`, programs.ClosedPort(t), programs.Simulate(t, 1).URLs[0]))
	r.MustExit(3)
	well := 0
	for _, stage := range r.Results().Stages {
		if stage.Target == "well" {
			well++
			if !stage.Complete || stage.Requests.Completed != 50 || stage.TTFT.Count != 50 {
				t.Errorf("stage %d: complete %v, %+v", stage.Index, stage.Complete, stage.Requests)
			}
		} else if stage.Complete || stage.TTFT != nil {
			t.Errorf("stage %d of the dead target: complete %v, TTFT %+v", stage.Index, stage.Complete, stage.TTFT)
		}
	}
	if well != 2 {
		t.Errorf("%d stages of the target that is there", well)
	}
}

// classOf maps faults of the simulator to their error classes.
var classOf = map[string]string{
	"500": "http_500", "429": "http_429", "cut": "cut_stream", "error-frame": "stream_error",
	"garbage-frame": "bad_frame",
}

// Faults of the server are counted by class, exactly as often as they happened, and do not affect latencies.
func TestServerFaultsAreCountedByClass(t *testing.T) {
	t.Parallel()
	server := programs.Simulate(t, 2, "--seed", "3", "--decode-step", "2ms", "--fault", "500=0.2", "--fault", "cut=0.1",
		"--fault", "error-frame=0.1",
		"--fault", "garbage-frame=0.05", "--fault", "429=0.1")
	r := programs.RunPlan(t, fmt.Sprintf(`
name: faults
targets:
  - {name: bad, endpoints: [%q, %q], model: m}
workloads:
  - random: {isl: 10, osl: 6}
loads:
  - concurrency: [8]
    requests: 400
`, server.URLs[0], server.URLs[1]))
	r.MustExit(0)
	want := map[string]uint64{}
	for _, record := range server.Records() {
		if record.Fault != "" {
			want[classOf[record.Fault]]++
		}
	}
	stage := r.Results().Stages[0]
	if !stage.Complete || !maps.Equal(stage.Errors, want) || len(want) != 5 {
		t.Errorf("complete %v, errors %v; the server made %v", stage.Complete, stage.Errors, want)
	}
	var failed uint64
	for _, n := range stage.Errors {
		failed += n
	}
	q := stage.Requests
	if q.Failed != failed || q.Completed+q.Failed != q.Started || q.Started != 400 || q.Cancelled != 0 {
		t.Errorf("requests %+v, %d errors", q, failed)
	}
	if stage.TTFT.Count != q.Completed || stage.E2E.Count != q.Completed || stage.ITL.Count != 5*q.Completed ||
		stage.FailureTime.Count != failed {
		t.Errorf("%d of TTFT, %d of E2E, %d of ITL, %d of the time to failure: %+v", stage.TTFT.Count, stage.E2E.Count,
			stage.ITL.Count,
			stage.FailureTime.Count, q)
	}
	for class := range want {
		if stage.ErrorExamples[class] == "" {
			t.Errorf("no example of %s", class)
		}
	}
}
