package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/e2e/programs"
)

// chatPlan has each kind of workload for chats, and each kind of load whose requests do not depend on the server. Its
// files are in its directory.
const chatPlan = `
name: shapes
seed: 11
targets:
  - name: chat
    simulator: {endpoints: 2, decode_step: 1ms, decode_step_per_request: 10us, cache_blocks: 10000}
workloads:
  - name: lengths
    random:
      isl_lengths: {lognormal: {mean: 60, stddev: 40, max: 300}}
      osl_lengths: {empirical: {values: [2, 5, 9]}}
      prefix: {length: 20, groups: 3, share: 0.5}
  - name: normal
    random: {isl_lengths: {normal: {mean: 40, stddev: 20, min: 3, max: 90}}, osl_lengths: {uniform: {min: 1, max: 6}}}
  - name: range
    random: {isl: 50, osl: 4, range_ratio: 0.4}
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
  - name: talks
    sharegpt: {path: DIR/sharegpt.json, order: file, osl: 3, sessions: {history: planned}}
loads:
  - {workloads: [lengths], rate: [150], arrival: gamma, burstiness: 0.5, requests: 60}
  - {workloads: [lengths], rate: [300], requests: 100, warmup: {requests: 10}}
  - workloads: [lengths]
    rate_phases: [{from: 0, to: 150, duration: 700ms}, {from: 150, to: 20, duration: 300ms}]
    arrival: constant
  - {workloads: [lengths, trace], concurrency_range: {from: 2, to: 6, step: 4}, requests_per_concurrency: 10, warmup: {requests: 5}, repeats: 2}
  - workloads: [range]
    concurrency_phases: [{from: 2, to: 6, duration: 400ms}, {from: 6, to: 4, duration: 200ms}]
  - {workloads: [normal], rate_range: {from: 80, to: 160, factor: 2}, duration: 400ms, warmup: {duration: 100ms}, cooldown: 150ms}
  - {workloads: [rows, conversations, lines], concurrency: [6], requests: 40, think_time: {mean: 3ms, distribution: exponential}}
  - {workloads: [trace], replay: {speed: 4}}
  - {workloads: [chats, talks], rate: [40], sessions: 25, warmup: {requests: 3}}
  - {workloads: [chats], concurrency: [3], sessions: 15}
`

// completionsPlan has the workloads with prompts of token IDs.
const completionsPlan = `
name: completions
seed: 12
targets:
  - name: completions
    api: completions
    simulator: {endpoints: 3, decode_step: 1ms, decode_step_per_request: 10us}
workloads:
  - name: prefixes
    random: {isl_lengths: {uniform: {min: 20, max: 60}}, osl: 3, prefix: {length: 40, groups: 2}}
  - name: ids
    jsonl: {path: DIR/ids.jsonl, order: file}
  - name: trace
    mooncake: {path: DIR/trace.jsonl, block_tokens: 16}
  - burstgpt: {path: DIR/burst.csv}
  - azure: {path: DIR/azure.csv}
loads:
  - {workloads: [prefixes, ids], rate: [150], requests: 50}
  - {workloads: [trace, burstgpt, azure], replay: {speed: 5}, requests: 45, warmup: {requests: 3}}
  - {workloads: [burstgpt], concurrency: [4], requests: 30}
`

// writeFiles writes the files that the plan names, and returns the plan with their paths.
func writeFiles(t *testing.T, plan string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]*strings.Builder{}
	line := func(name, format string, args ...any) {
		if files[name] == nil {
			files[name] = &strings.Builder{}
		}
		fmt.Fprintf(files[name], format+"\n", args...)
	}
	line("burst.csv", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type")
	line("azure.csv", "TIMESTAMP,ContextTokens,GeneratedTokens")
	var conversations []string
	for i := range 50 {
		line("rows.jsonl", `{"prompt": "row %d says something of its own", "output_length": %d}`, i, 2+i%3)
		line("rows.jsonl", `{"messages": [{"role": "system", "content": "short"}, {"role": "user", "content": "question %d"}]}`, i)
		line("ids.jsonl", `{"token_ids": [%d, %d, 7], "max_tokens": %d}`, 1000+i, 2000+i, 2+i%2)
		line("trace.jsonl", `{"timestamp": %d, "input_length": %d, "output_length": 3, "hash_ids": [1, %d, %d]}`, 60*i,
			40, 2+i%4, 100+i)
		line("burst.csv", "%d.%d,m,%d,%d,%d,Conversation log", 5+i/10, i%10, 30+i, 2+i%5, 32+i+i%5)
		line("azure.csv", "2023-11-16 18:17:%02d.%03d0000,%d,%d", 3+i/10, i%10*100, 20+i, 1+i%4)
		conversations = append(conversations,
			fmt.Sprintf(`{"id":"c%d","conversations":[{"from":"human","value":"question %d"},{"from":"gpt","value":"an answer"},`+
				`{"from":"human","value":"and %d"},{"from":"gpt","value":"yes"}]}`, i, i, i))
	}
	line("sharegpt.json", "[%s]", strings.Join(conversations, ","))
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return strings.ReplaceAll(plan, "DIR", dir)
}

// Every shape sends the same requests at the same times on one agent and on five processes without the plan's files:
// they get the rows from the coordinator. The processes are of unequal weight; four find the coordinator by gossip and
// one has its address.
func TestEveryShapeIsOneSetOfRequestsOnAnyAgents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan   string
		stages int
		open   map[uint32]bool // stages whose number of requests depends on the server: a closed loop that ends by time
	}{
		"chat":        {chatPlan, 21, map[uint32]bool{9: true}},
		"completions": {completionsPlan, 6, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := writeFiles(t, c.plan)
			one, processes := programs.RunPlan(t, plan, "--agents", "1"), runOnFive(t, plan)
			one.MustExit(0)
			processes.MustExit(0)
			mustBeAsAsked(t, "one embedded agent", one, c.stages)
			mustBeAsAsked(t, "five processes", processes, c.stages)
			mustBeSame(t, "five processes", sentBy(t, one), sentBy(t, processes), c.open)
			mustShareByWeight(t, processes, fiveWeights)
		})
	}
}

// fiveWeights are the weights of five agents, by name.
var fiveWeights = map[string]int{"a": 1, "b": 2, "c": 3, "d": 7, "e": 2}

// runOnFive starts a run on five agents that are separate processes without the plan's files.
func runOnFive(t *testing.T, plan string) programs.Running {
	t.Helper()
	c := programs.StartCluster(t)
	for name, weight := range fiveWeights {
		if name == "e" {
			c.Connect(name, weight)
		} else {
			c.Join(name, weight)
		}
	}
	if table := c.AwaitReady(); strings.Count(table, "here") != 5 {
		t.Errorf("spate agents lists\n%s", table)
	}
	return programs.RunPlan(t, plan, "--coordinator", c.Address, "--min-agents", "5")
}

// mustBeAsAsked fails the test unless the run is complete and each request had the requested lengths.
func mustBeAsAsked(t *testing.T, name string, r programs.Running, stages int) {
	t.Helper()
	result := r.Results()
	if !result.Run.Complete || len(result.Stages) != stages {
		t.Errorf("%s: run %+v of %d stages", name, result.Run, len(result.Stages))
	}
	for _, s := range result.Stages {
		if s.Requests.Completed == 0 || s.Requests.Failed > 0 || s.OSL.Missed > 0 || s.ISL.Missed > 0 {
			t.Errorf("%s: stage %d (%s): %+v (%v), %d prompts and %d outputs of another length than asked", name,
				s.Index, s.Workload,
				s.Requests, s.ErrorExamples, s.ISL.Missed, s.OSL.Missed)
		}
	}
}

// mustBeSame compares what two runs sent. For open stages it compares only requests that both sent.
func mustBeSame(t *testing.T, name string, want, got []sent, open map[uint32]bool) {
	t.Helper()
	type place struct {
		stage uint32
		index uint64
		turn  uint32
	}
	bodies := map[place]string{}
	common := map[uint32]int{}
	closed := func(all []sent, each func(sent)) (kept []sent) {
		for _, s := range all {
			if !open[s.stage] {
				kept = append(kept, s)
			} else {
				each(s)
			}
		}
		return kept
	}
	want = closed(want, func(s sent) { bodies[place{s.stage, s.index, s.turn}] = s.body })
	got = closed(got, func(s sent) {
		if body, both := bodies[place{s.stage, s.index, s.turn}]; both {
			common[s.stage]++
			if body != s.body {
				t.Errorf("%s: stage %d: request %d is another one", name, s.stage, s.index)
			}
		}
	})
	for stage := range open {
		if common[stage] < 20 {
			t.Errorf("%s: stage %d: only %d requests are in both runs", name, stage, common[stage])
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sent{})); diff != "" {
		t.Errorf("%s: other requests than one agent's:\n%s", name, diff)
	}
}

const bustingPlan = `
name: busting
seed: 3
targets:
  - {name: chat, simulator: {decode_step: 1ms, cache_blocks: 10000}}
  - {name: completions, api: completions, simulator: {decode_step: 1ms, cache_blocks: 10000}}
workloads:
  - name: plain
    random: {isl: 80, osl: 2}
  - name: busted
    random: {isl: 80, osl: 2}
    cache_busting: request
loads:
  - {rate: [200], requests: 40}
`

// With cache busting, no run sends a prompt that another run has sent, but lengths and times are the same. Without it
// the prompts are also the same.
func TestCacheBustingMakesEachRunsPromptsItsOwn(t *testing.T) {
	t.Parallel()
	first, second := programs.RunPlan(t, bustingPlan), programs.RunPlan(t, bustingPlan)
	first.MustExit(0)
	second.MustExit(0)
	mustBeAsAsked(t, "first run", first, 4)
	mustBeAsAsked(t, "second run", second, 4)
	one, two := sentBy(t, first), sentBy(t, second)
	all := slices.Concat(one, two)
	bodies := map[string]int{}
	for _, s := range all {
		bodies[fmt.Sprint(s.stage, " ", s.body)]++
	}
	workloads := map[uint32]string{}
	for _, s := range first.Results().Stages {
		workloads[s.Index] = s.Workload
	}
	for _, s := range all {
		want := map[string]int{"plain": 2, "busted": 1}[workloads[s.stage]]
		if n := bodies[fmt.Sprint(s.stage, " ", s.body)]; n != want {
			t.Fatalf("stage %d (%s): the prompt of request %d was sent %d times, want %d", s.stage, workloads[s.stage],
				s.index, n, want)
		}
	}
	for i, a := range one {
		if b := two[i]; a.index != b.index || a.scheduled != b.scheduled {
			t.Fatalf("request %d is wanted at %d ns in one run, at %d in the other", a.index, a.scheduled, b.scheduled)
		}
	}
}
