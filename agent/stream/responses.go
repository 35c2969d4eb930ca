package stream

import (
	"bytes"

	"github.com/spate-load/spate/workload"
)

// responses is OpenAI's POST /v1/responses. Each event has its kind in "type". The last one repeats the whole answer.
type responses struct{}

var responsesTraits = traits{
	path: "/v1/responses", model: "model", prompts: []string{"input"},
	defaults:  map[string]any{"stream": true, "store": false},
	maxFields: []string{"max_output_tokens"}, ignoreEOS: "ignore_eos",
}

func (responses) traits() *traits     { return &responsesTraits }
func (responses) form() workload.Form { return workload.Messages }
func (responses) prompt() string      { return "input" }

// Members of an event, of a response, of its usage and of an output item.
var (
	responsesEvent    = []string{"type", "delta", "response", "item", "error", "object"}
	responsesAnswer   = []string{"status", "incomplete_details", "usage", "error", "output"}
	responsesUsage    = []string{"input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details"}
	responsesDetails  = []string{"cached_tokens"}
	responsesThought  = []string{"reasoning_tokens"}
	responsesReason   = []string{"reason"}
	responsesToolName = []string{"name"}
)

func (responses) frame(data []byte, f *frame) error {
	*f = frame{}
	var v [6][]byte
	if err := members(data, responsesEvent, v[:]); err != nil {
		return err
	}
	kind, delta, response, item, fault := stringBytes(v[0]), v[1], v[2], v[3], v[4]
	switch string(kind) {
	case "response.output_text.delta":
		f.chunk, f.answer = true, unquoted(delta)
		f.addOutput(delta, false)
	case "response.output_item.added":
		var name [1][]byte
		nestedMembers(item, responsesToolName, name[:])
		f.addOutput(name[0], false)
	case "response.completed", "response.incomplete", "response.failed":
		f.end = true
		f.close()
		f.response(response, string(kind) == "response.failed")
	case "error":
		if !filled(fault) {
			fault = data
		}
		f.fail(nil, fault)
	default:
		f.other(kind, data, delta, fault, string(stringBytes(v[5])) == "response")
	}
	return nil
}

// other handles an event of another type, or a whole answer. Deltas of text, reasoning, refusals and arguments are all
// output. vLLM's benchmark client timestamps only those of text and of reasoning.
func (f *frame) other(kind, data, delta, fault []byte, whole bool) {
	switch {
	case whole:
		f.response(data, false)
		f.chunk = true
		var v [5][]byte
		nestedMembers(data, responsesAnswer, v[:])
		f.outputs(v[4])
	case filled(fault):
		f.fail(nil, fault)
	case bytes.HasSuffix(kind, []byte(".delta")):
		f.chunk = string(kind) == "response.reasoning_text.delta"
		f.addOutput(delta, bytes.Contains(kind, []byte("reasoning")))
	case bytes.HasSuffix(kind, []byte(".done")):
		f.close()
	}
}

// response handles a response that has ended: its finish reason and usage, or its error. The finish reason of an
// incomplete response is the reason why it is incomplete.
func (f *frame) response(data []byte, failed bool) {
	var v [5][]byte
	nestedMembers(data, responsesAnswer, v[:])
	status, details, usage, fault := stringBytes(v[0]), v[1], v[2], v[3]
	if failed || string(status) == "failed" || filled(fault) {
		f.fail(nil, fault)
		return
	}
	f.finish = status
	var reason [1][]byte
	nestedMembers(details, responsesReason, reason[:])
	if why := stringBytes(reason[0]); len(why) > 0 {
		f.finish = why
	}
	var u [4][]byte
	nestedMembers(usage, responsesUsage, u[:])
	var cached, thought [1][]byte
	nestedMembers(u[2], responsesDetails, cached[:])
	nestedMembers(u[3], responsesThought, thought[:])
	f.setUsage(u[0], cached[0], u[1])
	f.reasoningTokens, f.hasReasoningTokens = number(thought[0])
}

// outputs records the output of a whole answer: messages, reasoning and tool calls. Its first text counts as the
// answer.
func (f *frame) outputs(data []byte) {
	for _, item := range list(data) {
		item := object(item)
		f.addOutput(item["arguments"], false)
		for _, part := range list(item["content"]) {
			part := object(part)
			f.addOutput(part["text"], text(item["type"]) == "reasoning")
			f.addOutput(part["refusal"], false)
			if len(f.answer) == 0 && text(part["type"]) == "output_text" {
				f.answer = unquoted(part["text"])
			}
		}
	}
}
