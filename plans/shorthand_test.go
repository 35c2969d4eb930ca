package plans

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

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
		{"requests: 10,", "requests: x,"}:       "p:9:33: loads[0].requests: expected a whole number",
		{"concurrency: 16", "concurrency: x"}:   "p:9:19: loads[0].concurrency[0]: expected a whole number",
		{"warmup: 10s", "warmup: soon"}:         "p:12:13: loads[1].warmup: expected",
		{"requests: 10,", "requests: 0x10,"}:    "p:9:33: loads[0].requests: expected a whole number",
		{"endpoints: 'h:1'", "endpoints: h"}:    "p:3:26: targets[0].endpoints[0]: must be a base URL like http://localhost:8000, or host:port",
		{"h:3/x/v1", "h:3/v1/chat/completions"}: "p:5:26: targets[2].endpoints[0]: must end before /v1/chat/completions",
		{"h:3/x/v1", "ftp://h"}:                 "p:5:26: targets[2].endpoints[0]: must be a base URL",
		{"h:3/x/v1", "h:1/"}:                    "",
		{"h:3/x/v1", "[h:1/, 'http://h:1/v1']"}: "p:5:33: targets[2].endpoints[1]: is listed twice",
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
