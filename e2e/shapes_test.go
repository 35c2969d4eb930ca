package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shapesPlan has each kind of workload that needs no tokenizer, and each kind of load, in short. Its files are those of its directory.
const shapesPlan = `
name: shapes
seed: 11
targets:
  - name: chat
    simulator: {decode_step: 1ms, decode_step_per_request: 10us, cache_blocks: 10000}
workloads:
  - name: lengths
    random:
      isl_lengths: {lognormal: {mean: 60, stddev: 40, max: 300}}
      osl_lengths: {empirical: {values: [2, 5, 9], weights: [3, 2, 1]}}
      prefix: {length: 20, groups: 3, share: 0.5}
  - name: rows
    jsonl: {path: DIR/rows.jsonl, osl: 4}
  - name: conversations
    sharegpt: {path: DIR/sharegpt.json, osl: 3}
  - name: lines
    sonnet: {path: "shipped:lines.txt", isl: 90, osl: 3, prefix: 25}
  - name: trace
    mooncake: {path: DIR/trace.jsonl, block_tokens: 16}
  - name: chats
    sessions: {turn_counts: {uniform: {min: 1, max: 4}}, isl: 12, osl: 5, system: 10, play: {history: planned, think_time: {mean: 5ms}}}
loads:
  - workloads: [lengths]
    rate: [150]
    arrival: gamma
    burstiness: 0.5
    requests: 60
  - workloads: [lengths]
    rate_phases: [{from: 0, to: 150, duration: 700ms}, {from: 150, to: 20, duration: 300ms, shape: exponential}]
    arrival: constant
  - workloads: [rows, conversations, lines]
    concurrency: [6]
    requests: 40
    think_time: {mean: 3ms, distribution: exponential}
  - workloads: [trace]
    replay: {speed: 4}
  - workloads: [chats]
    rate: [40]
    sessions: 25
`

// writeShapes writes the plan's files and returns the plan.
func writeShapes(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var rows, trace strings.Builder
	var conversations []string
	for i := range 50 {
		fmt.Fprintf(&rows, `{"prompt": "row %d says something of its own", "output_length": %d}`+"\n", i, 2+i%3)
		conversations = append(conversations, fmt.Sprintf(`{"id":"c%d","conversations":[{"from":"human","value":"question %d"},{"from":"gpt","value":"an answer"}]}`, i, i))
		fmt.Fprintf(&trace, `{"timestamp": %d, "input_length": %d, "output_length": 3, "hash_ids": [1, %d, %d]}`+"\n", 60*i, 40, 2+i%4, 100+i)
	}
	for name, text := range map[string]string{
		"rows.jsonl": rows.String(), "sharegpt.json": "[" + strings.Join(conversations, ",") + "]", "trace.jsonl": trace.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return strings.ReplaceAll(shapesPlan, "DIR", dir)
}

// Every shape sends the same requests at the same times on one agent, on seven, and on five processes, which have none of the plan's
// files: their rows come from the coordinator.
func TestEveryShapeIsOneSetOfRequestsOnAnyAgents(t *testing.T) {
	t.Parallel()
	plan := writeShapes(t)
	one := runPlan(t, plan, "--agents", "1")
	one.mustExit(0)
	want := one.sent()
	seven := runPlan(t, plan, "--agents", "7")
	seven.mustExit(0)

	c := startCluster(t)
	for name, weight := range map[string]int{"a": 1, "b": 2, "c": 3, "d": 7, "e": 2} {
		c.join(name, weight)
	}
	c.awaitReady()
	processes := runPlan(t, plan, "--coordinator", c.address, "--min-agents", "5")
	processes.mustExit(0)
	for name, r := range map[string]running{"one embedded agent": one, "seven embedded agents": seven, "five processes": processes} {
		result := r.results()
		if !result.Run.Complete || len(result.Stages) != 7 {
			t.Errorf("%s: run %+v of %d stages", name, result.Run, len(result.Stages))
		}
		for _, s := range result.Stages {
			if s.Requests.Failed > 0 || s.OSL.Missed > 0 || s.ISL.Missed > 0 {
				t.Errorf("%s: stage %d (%s): %d failed (%v), %d prompts and %d outputs of another length than asked", name, s.Index, s.Workload,
					s.Requests.Failed, s.ErrorExamples, s.ISL.Missed, s.OSL.Missed)
			}
		}
		if diff := cmp.Diff(want, r.sent(), cmp.AllowUnexported(sent{})); diff != "" {
			t.Errorf("%s: other requests than one agent's:\n%s", name, diff)
		}
	}
}
