package e2e

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-load/spate/e2e/programs"
)

const realPlan = `
name: real
seed: 9
slo: {ttft: 2s}
pause: 2s
targets:
  - name: first
    endpoints: [%q]
    model: m
    api_key: env:NOBODY_HAS_SET_THIS
    simulator: {endpoints: 2, prefill_tokens_per_second: 10000, decode_step: 20ms, decode_step_per_request: 100us}
  - {name: second, endpoints: [%q], model: m}
workloads:
  - random: {isl: 100, osl: 10}
loads:
  - {rate: [5], arrival: constant, duration: 20s, warmup: {duration: 5s}}
  - {concurrency: [4], requests: 40, think_time: {mean: 400ms}}
`

// listening starts a server that accepts connections and counts them.
func listening(t *testing.T) (url string, connections *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = &atomic.Int64{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String(), connections
}

// A simulation of a plan never connects to its endpoints, needs none of its keys, and compresses all times by the
// factor that it prints.
func TestSimulationOfAPlanForRealEndpoints(t *testing.T) {
	t.Parallel()
	const k = 20
	url, connections := listening(t)
	r := programs.RunPlan(t, fmt.Sprintf(realPlan, url, programs.ClosedPort(t)), "--simulate=20")
	r.MustExit(0)
	if n := connections.Load(); n != 0 {
		t.Errorf("the plan's endpoint was connected to %d times", n)
	}
	result, rows := r.Results(), r.Rows()
	if result.Run.TimeCompression == nil || *result.Run.TimeCompression != k || !result.Run.Complete ||
		len(result.Stages) != 4 {
		t.Fatalf("run %+v, %d stages", result.Run, len(result.Stages))
	}
	for _, stage := range result.Stages {
		if q := stage.Requests; q.Failed > 0 || q.Completed != map[bool]uint64{true: 100,
			false: 40}[stage.Load.Rate != nil] || *stage.Goodput.TTFTMs != 2000/k {
			t.Errorf("stage %d: %+v, SLO of %v ms", stage.Index, q, *stage.Goodput.TTFTMs)
		}
		for _, endpoint := range stage.Endpoints {
			if strings.Contains(r.Text("results.json"), url) || !strings.HasPrefix(endpoint.URL, "http://127.0.0.1:") {
				t.Errorf("stage %d: endpoint %s", stage.Index, endpoint.URL)
			}
		}
		if stage.Target == "first" && len(stage.Endpoints) != 2 {
			t.Errorf("stage %d: %d endpoints, its model has 2", stage.Index, len(stage.Endpoints))
		}
	}
	all := rows[0]
	for i := 1; i < len(all); i++ {
		if gap := time.Duration(all[i].ScheduledNs - all[i-1].ScheduledNs); gap != time.Second/5/k {
			t.Fatalf("request %d comes %v after the one before", i, gap)
		}
	}
	if len(all) != 125 || all[24].Unmeasured == all[25].Unmeasured {
		t.Errorf("%d requests, the first 25 were to be warm-up", len(all))
	}
	// A simulated engine is faster by the factor: 100 tokens of prefill and 9 steps, compressed.
	if least := (0.01 + 9*0.02) / k * 1e3; result.Stages[0].E2E.Min < least || result.Stages[0].E2E.P50 > 10*least {
		t.Errorf("E2E %+v ms, the model takes %v at least", *result.Stages[0].E2E, least)
	}
	for name, text := range map[string]string{"standard output": r.Stdout.String(), "report.md": r.Text("report.md")} {
		if !strings.Contains(text, "time compressed 20 times") {
			t.Errorf("%s does not say that it was a simulation", name)
		}
	}
	if said := r.Stderr.String(); !strings.Contains(said, "5 req/s constant") || strings.Contains(said, "100 req/s") {
		t.Errorf("the progress is not in the plan's loads: %s", said)
	}
}

// The same plan runs against real endpoints that --set gives.
func TestEndpointsAreSetOnTheCommandLine(t *testing.T) {
	t.Parallel()
	server := programs.Simulate(t, 2, "--decode-step", "1ms")
	url, connections := listening(t)
	r := programs.RunPlan(t, fmt.Sprintf(realPlan, url, programs.ClosedPort(t)), "--set", "targets.first.endpoints="+
		strings.Join(server.URLs, ","),
		"--set", "targets.second.endpoints="+server.URLs[0], "--set", "targets[0].api_key=file:/dev/null")
	if code := r.Exit(); code != 2 || !strings.Contains(r.Stderr.String(), "api_key") || len(server.Records()) > 0 {
		t.Errorf("an empty key: exit %d, %d requests", code, len(server.Records()))
	}
	r = programs.RunPlan(t, strings.ReplaceAll(fmt.Sprintf(realPlan, url, programs.ClosedPort(t)), "    api_key: env:NOBODY_HAS_SET_THIS\n",
		""),
		"--set", "targets.first.endpoints="+strings.Join(server.URLs, ","), "--set", "targets.second.endpoints="+
			server.URLs[0],
		"--set", "loads[0].duration=1s", "--set", "loads[0].warmup.duration=400ms", "--set", "loads[0].rate=40",
		"--set", "loads[1].think_time.mean=20ms", "--set", "pause=0s", "--set", "seed=77")
	r.MustExit(0)
	result := r.Results()
	if result.Run.TimeCompression != nil || *result.Run.Seed != 77 || connections.Load() != 0 {
		t.Errorf("run %+v, %d connections to what was replaced", result.Run, connections.Load())
	}
	sent := 0
	for _, stage := range r.Rows() {
		sent += len(stage)
	}
	if served := len(server.Records()); served != sent || sent != 2*(40+16+40) {
		t.Errorf("%d requests were served, %d are recorded", served, sent)
	}
	if plan := r.Text("plan.yaml"); !strings.Contains(plan, server.URLs[0]) || !strings.Contains(plan, "77") {
		t.Errorf("plan.yaml is not the plan that was run:\n%s", plan)
	}
}
