package plans

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestChangesKeepTheRest: a plan that is set to its own values is the same plan.
func TestChangesKeepTheRest(t *testing.T) {
	for _, name := range Shipped() {
		data, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		before := load(t, string(data))
		same := changed(t, string(data), Changes{Set: []string{"name=" + before.Name()}})
		if diff := cmp.Diff(before.Proto().String(), same.Proto().String()); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if a, b := strings.Count(string(data), "#"), strings.Count(string(same.Source()), "#"); a != b {
			t.Errorf("%s: %d of %d comments are left", name, b, a)
		}
	}
}

// changed loads a plan with changes.
func changed(t *testing.T, text string, changes Changes) *Plan {
	t.Helper()
	p, err := Load("p", []byte(text), Options{Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const plain = `name: p # kept
targets:
  - {name: a, simulator: {}}
  - {name: b, simulator: {}} # the second
  - {name: c, simulator: {}}
workloads: [{random: {isl: 1, osl: 1}}]
loads: [{rate: [1], requests: 1}]
`

func TestSimulate(t *testing.T) {
	for _, source := range []string{plain, plain + "simulation: {speed: 3} # slower\n"} {
		p := changed(t, source, Changes{Simulate: 20})
		if !strings.Contains(string(p.Source()), "simulation: {speed: 20}") {
			t.Errorf("got\n%s", p.Source())
		}
		if speed, is := p.Compression(); speed != 20 || !is {
			t.Errorf("speed %v, %v", speed, is)
		}
	}
}

func TestOnly(t *testing.T) {
	p := changed(t, plain, Changes{Only: []string{"c", "b"}})
	var names []string
	for _, s := range p.Outline() {
		names = append(names, s.GetTarget().GetName())
	}
	if !slices.Equal(names, []string{"b", "c"}) || !strings.Contains(string(p.Source()), "# kept") ||
		!strings.Contains(string(p.Source()), "# the second") {
		t.Errorf("%v\n%s", names, p.Source())
	}
	for source, want := range map[string]string{
		plain:               `p: none of the targets is named "x"; there are: a, b, c`,
		"name: p":           "p: the plan has no list of targets",
		"targets: [1, [2]]": `p: none of the targets is named "x"`,
		"targets: 7":        "p: the plan has no list of targets",
	} {
		_, err := Load("p", []byte(source), Options{Changes: Changes{Only: []string{"x"}}})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// TestWithAddsToTheChanges: an index in a later change is that of the plan with the earlier changes.
func TestWithAddsToTheChanges(t *testing.T) {
	p := changed(t, plain, Changes{Set: []string{"seed=7"}, Only: []string{"b"}})
	again, err := p.With("targets[0].model=m")
	if err != nil {
		t.Fatal(err)
	}
	got := again.Proto()
	if got.GetSeed() != 7 || len(got.GetTargets()) != 1 || got.GetTargets()[0].GetModel() != "m" || got.GetTargets()[0].GetName() != "b" {
		t.Errorf("%v", got)
	}
}

// TestPositionsAreTheAuthors: with changes, mistakes have the lines of the file that the author sees. Mistakes in what
// a change added have none.
func TestPositionsAreTheAuthors(t *testing.T) {
	const text = `# A comment.

name: p

targets:

  - name: a
    simulator: {}

workloads:
  - random: {isl: 1, osl: 0}
loads:

  - {rate: 5, requests: 1, warmup: 10q}
`
	_, err := Load("p", []byte(text), Options{Changes: Changes{Simulate: 10, Set: []string{"loads[0].rate=-1", "pause=x"}}})
	want := `p: loads[0].rate[0]: must be greater than 0 and at most 10000000, got -1
p: pause: expected a duration like 30s or 5m, got "x"
p:11:27: workloads[0].random.osl: must be at least 1 and at most 16777216, or left out, got 0
p:14:36: loads[0].warmup: expected a duration like 5s, or fields such as requests: 100, got text`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

const shortPlan = `name: s
targets:
  - {name: a, endpoints: 'h:1', model: m}
  - {name: b, endpoints: "https://h:2/v1/", model: m}
  - {name: c, endpoints: h:3/x/v1, model: m}
workloads:
  - random: {isl: 10, osl: 2}
loads:
  - {concurrency: 16, requests: 10, workloads: 10:2} # and a comment
  - concurrency: 4
    duration: 1m
    warmup: 10s
`

const longPlan = `name: s
targets:
  - {name: a, endpoints: ["http://h:1"], model: m}
  - {name: b, endpoints: ["https://h:2"], model: m}
  - {name: c, endpoints: ["http://h:3/x"], model: m}
workloads:
  - random: {isl: 10, osl: 2}
loads:
  - {concurrency: [16], requests: 10, workloads: ["10:2"]}
  - concurrency: [4]
    duration: 1m
    warmup: {duration: 10s}
`

// TestShorthand: a plan with one value in place of a list, and so on, equals the plan written out.
func TestShorthand(t *testing.T) {
	short, err := Load("p", []byte(shortPlan), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(load(t, longPlan).Outline(), short.Outline(), protocmp.Transform()); diff != "" {
		t.Errorf("(-long +short):\n%s", diff)
	}
	again := changed(t, shortPlan, Changes{Set: []string{"loads[1].concurrency=8", "seed=1"}})
	if !proto.Equal(again.Outline()[3].GetTarget(), short.Outline()[3].GetTarget()) {
		t.Errorf("a changed plan has another target: %v", again.Outline()[3].GetTarget())
	}
}

// TestShorthandPositions: positions of mistakes are those in the text, not in the text written out.
func TestShorthandPositions(t *testing.T) {
	for change, want := range map[[2]string]string{
		{"requests: 10,", "requests: x,"}:            "p:9:33: loads[0].requests: expected a whole number",
		{"concurrency: 16", "concurrency: x"}:        "p:9:19: loads[0].concurrency[0]: expected a whole number",
		{"warmup: 10s", "warmup: soon"}:              "p:12:13: loads[1].warmup: expected",
		{"requests: 10,", "requests: 0x10,"}:         "p:9:33: loads[0].requests: expected a whole number",
		{"endpoints: 'h:1'", "endpoints: h"}:         "p:3:26: targets[0].endpoints[0]: must be a base URL like http://localhost:8000, or host:port",
		{"h:3/x/v1", "h:3/v1/chat/completions"}:      "",
		{"h:3/x/v1", "'http://h/?api_key=x'"}:        "p:5:26: targets[2].endpoints[0]: must not have api_key in its query: use api_key",
		{"h:3/x/v1", "'http://h/d/x?api-version=1'"}: "",
		{"h:3/x/v1", "h:3/v1/responses"}:             "p:5:26: targets[2].endpoints[0]: ends in /responses, the path of api: responses, but the target has api: chat",
		{"h:3/x/v1", "ftp://h"}:                      "p:5:26: targets[2].endpoints[0]: must be a base URL",
		{"h:3/x/v1", "h:1/"}:                         "",
		{"h:3/x/v1", "[h:1/, 'http://h:1/v1']"}:      "p:5:33: targets[2].endpoints[1]: is listed twice",
	} {
		_, err := Load("p", []byte(strings.Replace(shortPlan, change[0], change[1], 1)), Options{})
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\ngot  %v\nwant %s", change[1], err, want)
		}
	}
}

// TestPathsBeginAtThePlan: files that a plan names are relative to its folder, whatever the working directory.
func TestPathsBeginAtThePlan(t *testing.T) {
	text := strings.Replace(longPlan, "random: {isl: 10, osl: 2}", "jsonl: {path: rows.jsonl, osl: 2}\n    name: 10:2",
		1)
	text = strings.Replace(text, "model: m}", "model: m, api_key: 'file:key', tokenizer: 'file:/abs/tokenizer.json'}",
		1)
	var asked []string
	p, err := Load("some/where/plan.yaml", []byte(text), Options{Lookup: func(reference string) (string, error) {
		asked = append(asked, reference)
		return "value", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range p.Files() {
		paths = append(paths, f.Path)
	}
	secrets, _ := p.Secrets(func(string) (string, error) { return "value", nil })
	if diff := cmp.Diff([]string{"/abs/tokenizer.json", "some/where/rows.jsonl"}, paths); diff != "" ||
		secrets["file:key"] != "value" ||
		!cmp.Equal(asked, []string{"file:some/where/key"}) {
		t.Errorf("%s asked %v, secrets %v", diff, asked, secrets)
	}
}

const realPlan = `
name: real
slo: {ttft: 2s}
pause: 10s
targets:
  - name: modelled
    endpoints: ["http://placeholder:1"]
    model: m
    api_key: env:MISSING
    headers: {Authorized: env:MISSING, X-Region: eu}
    simulator: {speed: 2, max_running: 7}
  - {name: plain, endpoints: ["http://placeholder:2"], model: n}
workloads:
  - sessions: {turns: 2, isl: 1, osl: 1, play: {think_time: {mean: 5s}}}
loads:
  - {rate: [3], duration: 60s}
  - {concurrency_phases: [{from: 1, to: 5, duration: 60s}], think_time: {mean: 3s}}
`

func TestSimulation(t *testing.T) {
	p := changed(t, realPlan, Changes{Simulate: 10})
	urls := map[string][]string{}
	for _, target := range p.Simulated() {
		urls[target.GetName()] = []string{"http://127.0.0.1:1"}
		if target.GetApiKey() != "" || len(secret.Of(target)) > 0 || len(target.GetEndpoints()) > 0 {
			t.Errorf("a simulation needs no secrets and no endpoints: %v", target)
		}
	}
	if values, err := p.Secrets(func(string) (string, error) { return "", fmt.Errorf("missing") }); err != nil ||
		len(values) > 0 {
		t.Errorf("secrets %v, %v", values, err)
	}
	stages, err := p.Stages(Resources{Endpoints: urls})
	if err != nil {
		t.Fatal(err)
	}
	if got := stages[0].GetTarget().GetSimulator(); got.GetSpeed() != 20 || got.GetMaxRunning() != 7 {
		t.Errorf("the target's own model is not used: %v", got)
	}
	if got := stages[2].GetTarget(); got.GetSimulator().GetSpeed() != 10 || got.GetModel() != "n" ||
		got.GetEndpoints()[0] != "http://127.0.0.1:1" {
		t.Errorf("the default model is not used: %v", got)
	}
	if got := stages[0].GetTarget().GetHeaders(); len(got) != 1 || got["X-Region"] != "eu" {
		t.Errorf("headers %v", got)
	}
	for i, s := range load(t, realPlan).Outline() {
		if s.GetSeed() != stages[i].GetSeed() {
			t.Errorf("stage %d: a simulation sends other requests", i)
		}
		if s.GetTarget().GetSimulator() != nil {
			t.Errorf("stage %d: simulated without a simulation", i)
		}
	}
	want := &spatev1.LoadPoint{Rate: 30, Arrival: "poisson", Split: "random", Duration: durationpb.New(6 * time.Second)}
	if diff := cmp.Diff(want, stages[0].GetLoad(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	closed := stages[2].GetLoad()
	if phase := closed.GetPhases()[0]; phase.GetTo() != 5 || phase.GetDuration().AsDuration() != 6*time.Second {
		t.Errorf("a concurrency is not a rate: %v", phase)
	}
	if think := closed.GetThinkTime().GetMean().AsDuration(); think != 300*time.Millisecond {
		t.Errorf("think time %v", think)
	}
}
