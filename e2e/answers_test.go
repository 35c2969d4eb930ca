package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/e2e/programs"
)

// What the requests ask for, with OpenAI's chat API.
const (
	askTools = `{tool_choice: required, tools: [{type: function, function: {name: weather,
      parameters: {type: object, properties: {city: {type: string}, days: {type: integer, minimum: 2}}}}}]}`
	askForm = `{response_format: {type: json_schema, json_schema: {name: x, schema: {type: object, required: [city],
      properties: {city: {type: string}, tags: {type: array, items: {enum: [a]}}}}}}}`
)

const answersPlan = `
name: answers
seed: 3
targets:
  - {name: chat, simulator: {decode_step: 1ms}, body: TOOLS}
  - {name: whole, simulator: {decode_step: 1ms}, stream: false, body: TOOLS}
  - {name: thinks, simulator: {decode_step: 1ms, reasoning_tokens: 5}, body: TOOLS}
  - {name: deaf, simulator: {decode_step: 1ms, tools: ignored}, body: TOOLS}
  - {name: anthropic, api: anthropic, simulator: {decode_step: 1ms}, body: {tool_choice: {type: tool, name: weather},
      tools: [{name: weather, input_schema: {type: object, properties: {city: {type: string}}}}]}}
  - {name: responses, api: responses, simulator: {decode_step: 1ms, reasoning_tokens: 5}, body: {tool_choice: required,
      tools: [{type: function, name: weather, parameters: {type: object, properties: {city: {type: string}}}}]}}
  - {name: responses-whole, api: responses, simulator: {decode_step: 1ms}, stream: false, body: {tool_choice: {type: function, name: weather},
      tools: [{type: function, name: weather, parameters: {type: object, properties: {city: {type: string}}}}]}}
  - {name: schema, simulator: {decode_step: 1ms}, body: FORM}
  - {name: words, simulator: {decode_step: 1ms, tools: ignored}, body: FORM}
  - {name: guided, api: completions, prompts: text, simulator: {decode_step: 1ms}, body: {structured_outputs: {json: {type: integer}}}}
  - {name: plain, simulator: {decode_step: 1ms}}
workloads:
  - {name: long, random: {isl: 20, osl: 24}}
  - {name: cut, random: {isl: 20, osl: 6}}
loads: [{concurrency: [2], requests: 10}]
`

// Calls and answers in a form are counted and checked for each API, streamed or not; an output that its length cuts is
// not valid.
func TestToolCallsAndAnswersInAForm(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, strings.NewReplacer("TOOLS", askTools, "FORM", askForm).Replace(answersPlan))
	r.MustExit(0)
	share := func(v float64) *float64 { return &v }
	calls := func(n, valid uint64) *results.ToolCalls {
		c := &results.ToolCalls{Requests: 10, WithCalls: n, Calls: n, ValidCalls: valid}
		if n > 0 {
			c.ValidShare = share(float64(valid) / float64(n))
		}
		return c
	}
	answers := func(valid uint64) *results.CheckedAnswers {
		return &results.CheckedAnswers{Checked: 10, Valid: valid, ValidShare: share(float64(valid) / 10)}
	}
	type outcome struct {
		Tools   *results.ToolCalls
		Answers *results.CheckedAnswers
	}
	want := map[string]outcome{
		"chat, long": {Tools: calls(10, 10)}, "chat, cut": {Tools: calls(10, 0)},
		"whole, long": {Tools: calls(10, 10)}, "whole, cut": {Tools: calls(10, 0)},
		"thinks, long": {Tools: calls(10, 10)}, "thinks, cut": {Tools: calls(10, 0)},
		"deaf, long": {Tools: calls(0, 0)}, "deaf, cut": {Tools: calls(0, 0)},
		"anthropic, long": {Tools: calls(10, 10)}, "anthropic, cut": {Tools: calls(10, 10)},
		"responses, long": {Tools: calls(10, 10)}, "responses, cut": {Tools: calls(10, 0)},
		"responses-whole, long": {Tools: calls(10, 10)}, "responses-whole, cut": {Tools: calls(10, 10)},
		"schema, long": {Answers: answers(10)}, "schema, cut": {Answers: answers(0)},
		"words, long": {Answers: answers(0)}, "words, cut": {Answers: answers(0)},
		"guided, long": {Answers: answers(10)}, "guided, cut": {Answers: answers(10)},
		"plain, long": {}, "plain, cut": {},
	}
	rows := r.Rows()
	for _, s := range r.Results().Stages {
		name := s.Target + ", " + s.Workload
		if diff := cmp.Diff(want[name], outcome{s.Tools, s.Answers}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		var calls, valid, validAnswers uint64
		for _, q := range rows[s.Index] {
			if q.ToolCalls != nil {
				calls, valid = calls+*q.ToolCalls, valid+*q.ValidCalls
			}
			if q.ValidAnswer != nil && *q.ValidAnswer {
				validAnswers++
			}
		}
		if o := want[name]; o.Tools != nil && (calls != o.Tools.Calls || valid != o.Tools.ValidCalls) ||
			o.Answers != nil && validAnswers != o.Answers.Valid {
			t.Errorf("%s: the rows have %d calls, %d valid, and %d valid answers", name, calls, valid, validAnswers)
		}
		if s.Stream && s.TTFT == nil {
			t.Errorf("%s: no TTFT", name)
		}
	}
	if report := r.Text("report.md"); !strings.Contains(report, "Tool calls and answers in a form") {
		t.Error("the report does not have the calls")
	}
}

const asksPlan = `
name: asks
targets:
  - {name: chat, simulator: {decode_step: 1ms}}
  - {name: anthropic, api: anthropic, simulator: {decode_step: 1ms}}
  - {name: completions, api: completions, simulator: {decode_step: 1ms}}
  - {name: responses, api: responses, simulator: {decode_step: 1ms}}
workloads:
  - {name: tools, random: {isl: 20, osl: 24}, tools: {path: tools.json, choice: weather}}
  - {name: form, random: {isl: 20, osl: 24}, answer: {path: schema.json}}
loads:
  - {concurrency: [2], requests: 10, targets: [chat, anthropic, responses], workloads: [tools]}
  - {concurrency: [2], requests: 10, targets: [chat, completions, responses], workloads: [form]}
`

const (
	toolsFile  = `[{"name": "time"}, {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]`
	schemaFile = `{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": 3}}}`
)

// One workload with tools or a schema from a file does for targets of several APIs.
func TestToolsAndSchemasFromFiles(t *testing.T) {
	t.Parallel()
	r := programs.Run(t, programs.PlanIn(t, asksPlan, map[string]string{"tools.json": toolsFile, "schema.json": schemaFile}))
	r.MustExit(0)
	for _, s := range r.Results().Stages {
		switch tools := s.Workload == "tools"; {
		case tools && (s.Tools == nil || s.Tools.ValidCalls != 10 || s.Answers != nil):
			t.Errorf("%s: %+v, %+v", s.Target, s.Tools, s.Answers)
		case !tools && (s.Answers == nil || s.Answers.Valid != 10 || s.Tools != nil):
			t.Errorf("%s: %+v, %+v", s.Target, s.Tools, s.Answers)
		}
	}
}

const partsPlan = `
name: parts
targets:
  - {name: chat, simulator: {decode_step: 1ms}}
  - {name: anthropic, api: anthropic, simulator: {decode_step: 1ms}}
workloads:
  - name: mixed
    mix:
      parts:
        - {weight: 1, workload: {name: tools, random: {isl: 20, osl: 24}, tools: {path: tools.json, choice: weather}}}
        - {weight: 1, workload: {name: form, random: {isl: 20, osl: 24}, answer: {path: schema.json}}}
        - {weight: 2, workload: {name: plain, random: {isl: 20, osl: 24}}}
loads: [{concurrency: [2], requests: 40}]
`

// The parts of a mixture ask for tools and forms of their own; other parts ask for nothing.
func TestPartsAskForToolsAndForms(t *testing.T) {
	t.Parallel()
	r := programs.Run(t, programs.PlanIn(t, partsPlan, map[string]string{"tools.json": toolsFile, "schema.json": schemaFile}))
	r.MustExit(0)
	rows := r.Rows()
	for _, s := range r.Results().Stages {
		asked := map[string]int{}
		for _, q := range rows[s.Index] {
			if q.ValidCalls != nil {
				asked[*q.Part+" calls"] += int(*q.ValidCalls)
			}
			if q.ValidAnswer != nil && *q.ValidAnswer {
				asked[*q.Part+" answers"]++
			}
		}
		if diff := cmp.Diff(map[string]int{"tools calls": 10, "form answers": 10}, asked); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.Target, diff)
		}
		if s.Tools.Requests != 10 || s.Tools.ValidCalls != 10 || s.Answers.Checked != 10 || s.Answers.Valid != 10 {
			t.Errorf("%s: %+v, %+v", s.Target, s.Tools, s.Answers)
		}
		tools, form, plain := s.Parts[0], s.Parts[1], s.Parts[2]
		if diff := cmp.Diff(s.Tools, tools.Tools); diff != "" || tools.Answers != nil {
			t.Errorf("%s: part tools has %+v and calls that are not the stage's:\n%s", s.Target, tools.Answers, diff)
		}
		if diff := cmp.Diff(s.Answers, form.Answers); diff != "" || form.Tools != nil {
			t.Errorf("%s: part form has %+v and answers that are not the stage's:\n%s", s.Target, form.Tools, diff)
		}
		if plain.Tools != nil || plain.Answers != nil || plain.Images != nil {
			t.Errorf("%s: part plain asked for nothing, and has %+v", s.Target, plain)
		}
	}
	for _, row := range []string{
		"part tools | 10 | 10 | 10 | 100.00 | n/a | n/a |", "part form | n/a | n/a | n/a | n/a | 10 | 100.00 |",
	} {
		if report := r.Text("report.md"); strings.Count(report, row) != 2 {
			t.Errorf("the report has not a row %q for each target:\n%s", row, report)
		}
	}
}

// A file that cannot be used is named, with the position of its path.
func TestFilesOfToolsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for says, files := range map[string]map[string]string{
		"plan.yaml:9:61: workloads[0].tools.path: ": {"schema.json": schemaFile},
		"tools.json is not a list of tools":         {"tools.json": "{}", "schema.json": schemaFile},
		"schema.json is not JSON":                   {"tools.json": toolsFile, "schema.json": "{"},
		"is not a JSON Schema that answers can be":  {"tools.json": toolsFile, "schema.json": `{"type": "thing"}`},
		"definitions[0]: has no name":               {"tools.json": `[{}]`, "schema.json": schemaFile},
	} {
		r := programs.Run(t, programs.PlanIn(t, asksPlan, files))
		if code := r.Exit(); code != 2 || !strings.Contains(r.Stderr.String(), says) {
			t.Errorf("exit %d, want 2 and %s: %s", code, says, r.Stderr.String())
		}
	}
}

const canariesPlan = `
name: canaries
canaries: {share: 0.2}
targets:
  - {name: chat, simulator: {endpoints: 2, decode_step: 1ms, wrong_share: 1, wrong_above: 22, wrong_endpoint: 2}}
  - {name: anthropic, api: anthropic, stream: false, simulator: {decode_step: 1ms, wrong_share: 1, wrong_above: 22}}
  - {name: completions, api: completions, simulator: {decode_step: 1ms, wrong_share: 1, wrong_above: 22}}
  - {name: responses, api: responses, simulator: {decode_step: 1ms, wrong_share: 1, wrong_above: 22}}
  - {name: sglang, api: sglang, prompts: text, simulator: {decode_step: 1ms, wrong_share: 1, wrong_above: 22}}
  - {name: noisy, simulator: {decode_step: 1ms, wrong_share: 0.5}}
  - {name: sound, simulator: {decode_step: 1ms}}
  - {name: embeddings, api: embeddings, simulator: {}}
workloads: [{random: {isl: 20, osl: 24}}]
loads: [{concurrency: 80, requests: 800}]
`

// Answers that are wrong under load are found with each API, and the endpoint is named. A server whose quiet answers
// differ is not judged.
func TestWrongAnswersUnderLoad(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, canariesPlan)
	r.MustExit(0)
	for _, s := range r.Results().Stages {
		var found trust.Check
		for _, c := range s.Trust.Checks {
			if c.Name == "answers" {
				found = c
			}
		}
		wrong := trust.Invalid
		switch s.Target {
		case "noisy", "embeddings":
			wrong = ""
		case "sound":
			wrong = trust.Valid
		}
		if found.Verdict != wrong || (s.Canaries == nil) != (s.Target == "embeddings") || s.Requests.Completed != 800 {
			t.Errorf("%s: %+v, canaries %+v, requests %+v", s.Target, found, s.Canaries, s.Requests)
		}
		_, host, _ := strings.Cut(s.Endpoints[min(1, len(s.Endpoints)-1)].URL, "://")
		if wrong == trust.Invalid && !strings.Contains(found.Words, " at "+host+" ") {
			t.Errorf("%s does not name %s", found.Words, host)
		}
	}
}
