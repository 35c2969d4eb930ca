package e2e

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// mixed has parts of each kind, with adapters and limits of their own.
const mixed = `
name: mixed
seed: 3
targets:
  - name: simulated
    model: base
    simulator: {endpoints: 2, decode_step: 1ms}
workloads:
  - name: production
    mix:
      parts:
        - {weight: 0.6, workload: {name: chat, random: {isl: 40, osl: 4}}, slo: {ttft: 10s}}
        - weight: 0.3
          workload: {name: talks, sessions: {turns: 2, isl: 20, osl: 3, play: {history: planned}}}
          slo: {ttft: 1ns}
          model: adapter
        - weight: 0.1
          workload: {name: customers, random: {isl: 30, osl: 2}}
          slo: {e2e: 10s}
          models: {prefix: customer-, count: 9, zipf: 1}
loads:
  - {rate: [200], arrival: poisson, sessions: 100}
`

// The parts of a mixture are the same on any number of agents, their shares are exact, and their results are those of
// their rows.
func TestMixtureIsTheSameOnAnyAgents(t *testing.T) {
	t.Parallel()
	var first map[string]string
	for _, agents := range []string{"1", "3", "7"} {
		r := programs.RunPlan(t, mixed, "--agents", agents)
		r.MustExit(0)
		sent, arrivals, ttft := map[string]string{}, map[string]int{}, map[string][]float64{}
		for _, row := range r.Rows()[0] {
			if row.Turn == 0 {
				arrivals[*row.Part]++
			}
			model := ""
			if row.Model != nil {
				model = *row.Model
			}
			sent[fmt.Sprint(row.Index, ".", row.Turn)] = *row.Part + " " + model + " " + row.BodyHash
			ttft[*row.Part] = append(ttft[*row.Part], float64(*row.FirstTokenNs-row.StartNs)/1e6)
		}
		if arrivals["chat"] != 60 || arrivals["talks"] != 30 || arrivals["customers"] != 10 || len(sent) != 130 {
			t.Errorf("%s agents: %v of %d requests", agents, arrivals, len(sent))
		}
		if first == nil {
			first = sent
		} else if diff := cmp.Diff(first, sent); diff != "" {
			t.Errorf("%s agents send other requests than one (-one +%[1]s):\n%s", agents, diff)
		}
		stage := r.Results().Stages[0]
		for i, good := range []uint64{60, 0, 10} {
			p := stage.Parts[i]
			sum := 0.0
			for _, ms := range ttft[p.Name] {
				sum += ms
			}
			n := len(ttft[p.Name])
			if p.Requests.Completed != uint64(n) || math.Abs(p.TTFT.Mean-sum/float64(n)) > 1e-6 ||
				p.Goodput.Requests != good {
				t.Errorf("%s agents, part %s: %d requests, mean TTFT %v, %d good, want %d, %v, %d", agents, p.Name,
					p.Requests.Completed, p.TTFT.Mean, p.Goodput.Requests, n, sum/float64(n), good)
			}
		}
		if g := stage.Goodput; g.Requests != 70 || g.TTFTMs != nil {
			t.Errorf("%s agents: goodput of the whole %+v", agents, g)
		}
	}
}

const texts = `
name: texts
targets:
  - {name: embed, simulator: {}, api: embeddings}
  - {name: rank, simulator: {}, api: rerank}
  - {name: chat, simulator: {}}
workloads:
  - name: mixed
    mix:
      parts:
        - {weight: 1, workload: {name: lists, jsonl: {path: texts.jsonl}}}
        - {weight: 1, workload: {name: lines, file: {path: lines.txt, texts: 3}}}
        - {weight: 1, workload: {name: made, random: {isl: 10, osl: 1, texts: 4}}}
  - {name: questions, jsonl: {path: questions.jsonl}}
  - {name: talk, jsonl: {path: talk.jsonl}}
loads:
  - {concurrency: [3], requests: 30, targets: [embed], workloads: [mixed]}
  - {concurrency: [3], requests: 30, targets: [rank], workloads: [questions]}
  - {concurrency: [3], requests: 3, targets: [chat], workloads: [talk]}
`

// Requests of embeddings and rerank take their texts from rows: each request and the results count them. Rows need to
// fit only the targets that a load runs them with.
func TestTextsFromRows(t *testing.T) {
	t.Parallel()
	r := programs.Run(t, programs.PlanIn(t, texts, map[string]string{
		"texts.jsonl":     `{"texts": ["a b", "c"]}` + "\n" + `{"texts": ["d"]}` + "\n",
		"lines.txt":       "one\ntwo words\nthree\nfour\n",
		"questions.jsonl": `{"query": "why", "documents": ["a b", "c", "d e f", "g", "h"]}` + "\n",
		"talk.jsonl":      `{"messages": [{"role": "user", "content": "hello"}]}` + "\n",
	}))
	r.MustExit(0)
	seen, sum := map[string]int{}, make([]float64, 3)
	for i, rows := range r.Rows() {
		for _, row := range rows {
			part := ""
			if row.Part != nil {
				part = *row.Part
			}
			if row.Texts != nil {
				seen[fmt.Sprint(part, " ", *row.Texts)]++
				sum[i] += float64(*row.Texts)
			}
		}
	}
	want := map[string]int{"lists 2": 5, "lists 1": 5, "lines 3": 10, "made 4": 10, " 5": 30}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("texts by part (-want +got):\n%s", diff)
	}
	for i, s := range r.Results().Stages[:2] {
		if want := sum[i] / *s.DurationS; s.TextThroughput == nil || math.Abs(*s.TextThroughput/want-1) > 1e-9 {
			t.Errorf("%s: %v texts/s, want %v", s.Target, s.TextThroughput, want)
		}
	}
}

const replayed = `
name: replayed
seed: 3
targets: [{name: simulated, simulator: {decode_step: 1ms}}]
workloads:
  - name: both
    mix:
      parts:
        - {weight: 1, workload: {name: even, mooncake: {path: even.jsonl}}}
        - {weight: 1, workload: {name: odd, mooncake: {path: odd.jsonl}}}
loads: [{replay: {speed: 2}}]
`

// A replayed mixture sends each trace at its own times, whatever the number of agents.
func TestReplayOfAMixture(t *testing.T) {
	t.Parallel()
	files := map[string]string{"long.yaml": strings.Replace(replayed, "speed: 2}", "}, requests: 31", 1)}
	for i := range 30 {
		name := "even.jsonl"
		if i%3 == 1 {
			name = "odd.jsonl"
		}
		files[name] += fmt.Sprintf("{\"timestamp\": %d, \"input_length\": %d, \"output_length\": 2}\n", 20*i, 10+i)
	}
	plan := programs.PlanIn(t, replayed, files)
	// Times of a trace count from its first row: odd begins 20 ms later.
	want := map[string]bool{}
	for i := range 30 {
		if i%3 == 1 {
			want[fmt.Sprintf("odd %d at %d us", 10+i, 10_000*(i-1))] = true
		} else {
			want[fmt.Sprintf("even %d at %d us", 10+i, 10_000*i)] = true
		}
	}
	for _, agents := range []string{"1", "3"} {
		r := programs.Run(t, plan, "--agents", agents)
		r.MustExit(0)
		got := map[string]bool{}
		for _, row := range r.Rows()[0] {
			got[fmt.Sprintf("%s %d at %d us", *row.Part, row.ISLAsked, row.ScheduledNs/1000)] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s agents (-want +got):\n%s", agents, diff)
		}
	}
	long := filepath.Join(filepath.Dir(plan), "long.yaml")
	for _, verb := range []string{"plan validate", "run"} {
		p := process.Start(t, programs.Built.Spate, append(strings.Fields(verb), long)...)
		said := "long.yaml:11:32: loads[0].requests: the trace of workload \"both\" has 30 rows"
		if code := p.Exit(); code != 2 || !strings.Contains(p.Stderr.String(), said) {
			t.Errorf("%s exits with %d, want 2 and %s: %s", verb, code, said, p.Stderr.String())
		}
	}
}

// asking has parts that ask for calls of a tool, for images and for nothing, and thresholds for each.
const asking = `
name: asking
targets: [{name: simulated, simulator: {decode_step: 1ms}}]
workloads:
  - name: production
    mix:
      parts:
        - weight: 0.2
          workload:
            name: agents
            random: {isl: 20, osl: 24}
            tools: {definitions: [{type: function, function: {name: weather}}], choice: required}
        - {weight: 0.3, workload: {name: photos, random: {isl: 30, osl: 4, images: {count: 2, width: 64, height: 64}}}}
        - {weight: 0.5, workload: {name: chat, random: {isl: 40, osl: 4}}}
loads: [{concurrency: [4], requests: 60}]
thresholds:
  - {that: tools.valid_share = 1, part: agents}
  - {that: requests.completed = 18, part: photos, workload: production}
  - {that: images.count = 36, part: photos}
  - {that: e2e_ms.p99 < 0.001, part: chat}
`

// Thresholds for parts pass and fail by the parts' own numbers, which are those of the rows.
func TestThresholdsOfParts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := programs.RunPlan(t, asking, "--agents", "2", "--junit", filepath.Join(dir, "new", "junit.xml"))
	r.MustExit(5)
	calls, tokens := map[string]uint64{}, map[string]uint64{}
	for _, row := range r.Rows()[0] {
		if row.ValidCalls != nil {
			calls[*row.Part] += *row.ValidCalls
		}
		tokens[*row.Part] += *row.InputTokens
	}
	parts := r.Results().Stages[0].Parts
	agents, photos, chat := parts[0], parts[1], parts[2]
	if len(calls) != 1 || agents.Tools == nil || agents.Tools.ValidCalls != calls["agents"] || calls["agents"] < 12 {
		t.Errorf("tools of agents are %+v, and the rows have valid calls %v", agents.Tools, calls)
	}
	// The text of each of the 18 requests has 30 tokens.
	if each := float64(tokens["photos"]-18*30) / 36; photos.Images == nil || photos.Images.TokensEach != each || each <= 0 {
		t.Errorf("images of photos are %+v, and the rows have %v tokens for each", photos.Images, each)
	}
	if chat.Tools != nil || chat.Images != nil || photos.Tools != nil {
		t.Errorf("parts have what they did not ask for: %+v, %+v", chat, photos)
	}
	var outcomes []string
	for _, o := range r.Results().Thresholds {
		outcomes = append(outcomes, fmt.Sprint(*o.Part, " ", o.Passed))
	}
	if diff := cmp.Diff([]string{"agents true", "photos true", "photos true", "chat false"}, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	for where, text := range map[string]string{
		"report.md": r.Text("report.md"), "report.html": r.Text("report.html"), "stdout": r.Stdout.String(),
		"JUnit": programs.Text(t, dir, filepath.Join("new", "junit.xml")),
	} {
		if !strings.Contains(strings.ReplaceAll(text, "&lt;", "<"), "e2e_ms.p99 < 0.001 (part chat)") {
			t.Errorf("%s does not name the threshold that failed:\n%s", where, text)
		}
	}
}
