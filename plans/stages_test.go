package plans

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// load loads a plan that must not have mistakes.
func load(t interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}, text string) *Plan {
	t.Helper()
	p, err := Load("plan.yaml", []byte(text), Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := editorSays(t, text); err != nil {
		t.Fatalf("the schema for editors says %v\n%s", err, text)
	}
	return p
}

const smallest = `
name: small
targets:
  - {name: real, endpoints: ["http://h:8000/"], model: m}
  - {name: sim, simulator: {}}
workloads:
  - random: {isl: 30, osl: 15}
loads:
  - {concurrency: [8], requests_per_concurrency: 10, warmup: {requests: 3}}
  - {rate: [0.5], duration: 90s}
`

func TestStagesFillEveryDefault(t *testing.T) {
	stages, err := load(t, smallest).Stages(Resources{Endpoints: map[string][]string{"sim": {"http://127.0.0.1:4",
		"http://127.0.0.1:5"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := &spatev1.Stage{}
	err = prototext.Unmarshal([]byte(`
		index: 1
		target {
			name: "sim" endpoints: "http://127.0.0.1:4" endpoints: "http://127.0.0.1:5" api: "chat" model: "simulated"
			simulator {
				endpoints: 1 prefill_tokens_per_second: 50000 decode_step {nanos: 5000000}
				decode_step_per_request {nanos: 50000} max_running: 256
				replicas: 1 cache_block_tokens: 16 tokens_per_frame: 1 speed: 1
			}
			tokenizer: "auto" exact_output: "auto" running_usage: "auto" connect_timeout {seconds: 5} request_timeout {seconds: 600}
		}
		workload { name: "30:15" random { isl: 30 osl: 15 } cache_busting: "none" }
		load { concurrency: 8 requests: 80 warmup_requests: 3 }
		drain_timeout {seconds: 60}
		on_agent_loss: "fail"
		fail_fast: true
	`), want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, stages[1], protocmp.Transform(), protocmp.IgnoreFields(want, "seed")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := stages[0].GetTarget().GetEndpoints()[0]; got != "http://h:8000" {
		t.Errorf("endpoint %q keeps its slash", got)
	}
	if l := stages[2].GetLoad(); l.GetArrival() != "poisson" || l.GetDuration().AsDuration() != 90*time.Second {
		t.Errorf("open loop: %v", l)
	}
}

func TestStagesKeepWhatIsGiven(t *testing.T) {
	p := load(t, `
name: given
targets:
  - name: sim
    api: completions
    model: mine
    connect_timeout: 1s
    request_timeout: 2s
    tokenizer: server
    running_usage: never
    prompts: text
    exact_output: never
    simulator:
      endpoints: 3
      prefill_tokens_per_second: 1
      decode_step: 0s
      decode_step_per_request: 0s
      max_running: 4
      replicas: 3
      cache_block_tokens: 5
      cache_blocks: 6
      tokens_per_frame: 7
      speed: 8
workloads:
  - name: named
    cache_busting: request
    random: {isl: 30, osl: 15}
loads:
  - {rate: [2], arrival: constant, requests: 9}
drain_timeout: 0s
`)
	stages, err := p.Stages(Resources{Endpoints: map[string][]string{"sim": {"http://a"}}})
	if err != nil {
		t.Fatal(err)
	}
	written := p.Proto()
	target := written.GetTargets()[0]
	target.Endpoints = []string{"http://a"}
	got := stages[0]
	for _, pair := range [][2]proto.Message{
		{target, got.GetTarget()}, {written.GetWorkloads()[0], got.GetWorkload()},
		{durationpb.New(0), got.GetDrainTimeout()},
		{&spatev1.LoadPoint{Rate: 2, Arrival: "constant", Split: "in_turn", Requests: 9}, got.GetLoad()},
	} {
		if diff := cmp.Diff(pair[0], pair[1], protocmp.Transform()); diff != "" {
			t.Errorf("(-written +stage):\n%s", diff)
		}
	}
}

func TestStagesNeedSimulators(t *testing.T) {
	_, err := load(t, smallest).Stages(Resources{})
	const want = `plan.yaml:5:28: targets[1].simulator: no simulator was started for target "sim": run the plan with ` +
		"`spate run`, or give endpoints"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestSimulated(t *testing.T) {
	got := load(t, smallest).Simulated()
	if len(got) != 1 || got[0].GetName() != "sim" || got[0].GetSimulator().GetMaxRunning() != 256 ||
		len(got[0].GetEndpoints()) != 0 {
		t.Errorf("got %v", got)
	}
}

// TestExpansion compares the stages of random plans, in both orders, with four nested loops over what was written.
func TestExpansion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		targets := rapid.IntRange(1, 4).Draw(t, "targets")
		workloads := rapid.IntRange(1, 4).Draw(t, "workloads")
		sweeps := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "sweeps")
		var text, want strings.Builder
		order := rapid.SampledFrom([]string{"turns", "target"}).Draw(t, "order")
		fmt.Fprintf(&text, "name: random\norder: %s\ntargets:\n", order)
		for i := range targets {
			fmt.Fprintf(&text, "- {name: t%d, endpoints: [\"http://h%d\"], model: m}\n", i, i)
		}
		text.WriteString("workloads:\n")
		for i := range workloads {
			fmt.Fprintf(&text, "- random: {isl: %d, osl: 7}\n", i+1)
		}
		text.WriteString("loads:\n")
		for i, n := range sweeps {
			field := []string{"concurrency", "rate"}[i%2]
			fmt.Fprintf(&text, "- {duration: 1s, %s: [", field)
			for v := range n {
				fmt.Fprintf(&text, "%d, ", i*10+v+1)
			}
			text.WriteString("]}\n")
		}
		line := func(i, j, k, v int) {
			words := []string{"concurrency %d", "%d req/s poisson"}[k%2]
			fmt.Fprintf(&want, "t%d %d:7 "+words+"\n", i, j+1, k*10+v+1)
		}
		forward := true
		for first := range targets {
			for j := range workloads {
				for k, n := range sweeps {
					for v := range n {
						for i := range targets {
							switch {
							case order == "target" && i == first, order == "turns" && first == 0 && forward:
								line(i, j, k, v)
							case order == "turns" && first == 0:
								line(targets-1-i, j, k, v)
							}
						}
						forward = !forward
					}
				}
			}
		}
		stages, err := load(t, text.String()).Stages(Resources{})
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for i, s := range stages {
			if s.GetIndex() != uint32(i) {
				t.Errorf("stage %d has index %d", i, s.GetIndex())
			}
			fmt.Fprintf(&got, "%s %s %s\n", s.GetTarget().GetName(), s.GetWorkload().GetName(), loadpoint.Words(s.GetLoad()))
		}
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func BenchmarkStages(b *testing.B) {
	values := strings.Trim(strings.Repeat("%d,", 1000), ",")
	var args []any
	for i := range 1000 {
		args = append(args, i+1)
	}
	text := "name: b\ntargets: [{name: t, endpoints: [\"http://h\"], model: m}]\nworkloads:\n"
	for i := range 10 {
		text += fmt.Sprintf("- random: {isl: %d, osl: 1}\n", i+1)
	}
	p := load(b, text+"loads: [{duration: 1s, concurrency: ["+fmt.Sprintf(values, args...)+"]}]")
	b.ReportAllocs()
	for b.Loop() {
		if stages, err := p.Stages(Resources{}); err != nil || len(stages) != 10_000 {
			b.Fatal(len(stages), err)
		}
	}
}

// TestLoadsOfSomeWorkloads: a load that names workloads makes stages only of those, in the plan's order.
func TestLoadsOfSomeWorkloads(t *testing.T) {
	var got []string
	for _, s := range load(t, `
name: some
targets: [{name: t, simulator: {}}]
workloads:
  - random: {isl: 1, osl: 1}
  - random: {isl: 2, osl: 1}
  - random: {isl: 3, osl: 1}
loads:
  - {rate: [4], requests: 1, workloads: ["2:1"]}
  - {rate: [4, 5], requests: 1, workloads: ["1:1", "3:1"]}
  - {rate: [6], requests: 1}
`).Outline() {
		if s.GetIndex() != uint32(len(got)) {
			t.Errorf("stage %d has the index %d", len(got), s.GetIndex())
		}
		got = append(got, s.GetWorkload().GetName()+" "+loadpoint.Words(s.GetLoad()))
	}
	want := []string{
		"1:1 4 req/s poisson", "1:1 5 req/s poisson", "1:1 6 req/s poisson", "2:1 4 req/s poisson",
		"2:1 6 req/s poisson",
		"3:1 4 req/s poisson", "3:1 5 req/s poisson", "3:1 6 req/s poisson",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestLoadsOfSomeTargets: a load that names targets makes stages only of those. If targets are left out, loads that are
// for none of the others go, with the workloads that only they used and the thresholds of these.
func TestLoadsOfSomeTargets(t *testing.T) {
	const text = `
name: some
targets: [{name: chat, simulator: {}}, {name: texts, simulator: {}, api: embeddings}]
workloads:
  - {name: talk, sessions: {turns: 2, isl: 1, osl: 1, play: {}}}
  - {name: single, random: {isl: 1, osl: 1}}
loads:
  - {rate: [1], sessions: 1, workloads: talk, targets: chat}
  - {rate: [2], requests: 1, workloads: [single], targets: [texts, chat]}
  - {rate: [3], requests: 1, workloads: [single]}
  - {rate: [4], requests: 1, workloads: [single], targets: [texts]}
thresholds: [{that: requests.failed = 0, workload: talk}]
`
	stages := func(p *Plan) (got []string) {
		for _, s := range p.Outline() {
			got = append(got, fmt.Sprintf("%s %s %g", s.GetTarget().GetName(), s.GetWorkload().GetName(), s.GetLoad().GetRate()))
		}
		return got
	}
	chat := []string{"chat talk 1", "chat single 2", "chat single 3"}
	texts := []string{"texts single 2", "texts single 3", "texts single 4"}
	both := []string{"chat talk 1", "chat single 2", "texts single 2", "texts single 3", "chat single 3", "texts single 4"}
	if diff := cmp.Diff(both, stages(load(t, text))); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string][]string{"chat": chat, "texts": texts} {
		only := changed(t, text, Changes{Only: []string{name}})
		if diff := cmp.Diff(want, stages(load(t, string(only.Source())))); diff != "" {
			t.Errorf("only %s:\n%s", name, diff)
		}
	}
}

// TestOrder: targets take turns within each workload and load, over its repeats and from load to load. Each comes first
// as often as the other, a load for one of them does not count as a turn, and a template is one block.
func TestOrder(t *testing.T) {
	const text = `
name: turns
targets: [{name: A, simulator: {}}, {name: B, simulator: {}}, {name: C, simulator: {}}]
workloads: [{random: {isl: 1, osl: 1}}]
loads:
  - {concurrency: [1, 2], requests: 1, repeats: 3, targets: [A, B]}
  - {concurrency: [3], requests: 1, targets: [C]}
  - {concurrency: [4, 5], requests: 1}
  - {search: {concurrency: {from: 6, to: 9}, keep: {error_share: 0}}, requests: 1}
`
	for order, want := range map[string]string{
		"":                "A1 B1 B1 A1 A1 B1 B2 A2 A2 B2 B2 A2 C3 A4 B4 C4 C5 B5 A5 A0 B0 C0",
		"order: turns\n":  "A1 B1 B1 A1 A1 B1 B2 A2 A2 B2 B2 A2 C3 A4 B4 C4 C5 B5 A5 A0 B0 C0",
		"order: target\n": "A1 A1 A1 A2 A2 A2 A4 A5 A0 B1 B1 B1 B2 B2 B2 B4 B5 B0 C3 C4 C5 C0",
	} {
		p := load(t, order+text)
		var got []string
		for _, s := range p.Outline() {
			got = append(got, fmt.Sprint(s.GetTarget().GetName(), s.GetLoad().GetConcurrency()))
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", order, diff)
		}
	}
}
