package openai

import (
	"bytes"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/workload"
)

// Responses is POST /v1/responses. Each event has its kind in "type". The last one repeats the whole answer.
var Responses = api.API{
	Name: "responses", Path: "/v1/responses", Model: "model",
	Prompts:   []api.Prompt{{Form: workload.Messages, Field: "input"}},
	Defaults:  map[string]any{"stream": true, "store": false},
	MaxFields: []string{"max_output_tokens"}, IgnoreEOS: "ignore_eos", ExactServers: []string{"vllm"}, Trials: true,
	Parse: parseResponses, Tools: responsesTools, Forms: responsesForms, Demand: responsesDemand,
}

// Members of an event, of a response, of its usage and of an output item.
var (
	responsesEvent    = []string{"type", "delta", "response", "item", "error", "object"}
	responsesAnswer   = []string{"status", "incomplete_details", "usage", "error", "output", "model"}
	responsesUsage    = []string{"input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details"}
	responsesDetails  = []string{"cached_tokens"}
	responsesThought  = []string{"reasoning_tokens"}
	responsesReason   = []string{"reason"}
	responsesToolName = []string{"type", "name"}
)

func parseResponses(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	var v [6][]byte
	if err := jsonscan.Members(e.Data, responsesEvent, v[:]); err != nil {
		return err
	}
	kind, delta, response, item, fault := jsonscan.StringBytes(v[0]), v[1], v[2], v[3], v[4]
	switch string(kind) {
	case "response.output_text.delta":
		f.Chunk, f.Answer = true, jsonscan.Unquoted(delta)
		f.AddOutput(delta, false)
	case "response.output_item.added":
		var v [2][]byte
		jsonscan.NestedMembers(item, responsesToolName, v[:])
		f.AddOutput(v[1], false)
		if string(jsonscan.StringBytes(v[0])) == "function_call" {
			f.Calls = e.Data
		}
	case "response.function_call_arguments.delta":
		f.AddOutput(delta, false)
		f.Calls = e.Data
	case "response.completed", "response.incomplete", "response.failed":
		f.End = true
		f.EndPart()
		setResponse(f, response, string(kind) == "response.failed")
	case "error":
		if !jsonscan.Filled(fault) {
			fault = e.Data
		}
		f.Fail(nil, fault)
	default:
		otherEvent(f, kind, e.Data, delta, fault, string(jsonscan.StringBytes(v[5])) == "response")
	}
	return nil
}

// otherEvent handles an event of another type, or a whole answer. Deltas of text, reasoning, refusals and arguments are
// all output. vLLM's benchmark client timestamps only those of text and of reasoning.
func otherEvent(f *api.Frame, kind, data, delta, fault []byte, whole bool) {
	switch {
	case whole:
		setResponse(f, data, false)
		f.Chunk = true
		var v [6][]byte
		jsonscan.NestedMembers(data, responsesAnswer, v[:])
		addOutputs(f, v[4])
		f.Calls = v[4]
	case jsonscan.Filled(fault):
		f.Fail(nil, fault)
	case bytes.HasSuffix(kind, []byte(".delta")):
		f.Chunk = string(kind) == "response.reasoning_text.delta"
		f.AddOutput(delta, bytes.Contains(kind, []byte("reasoning")))
	case bytes.HasSuffix(kind, []byte(".done")):
		f.EndPart()
	}
}

// setResponse handles a response that has ended: its finish reason and usage, or its error. The finish reason of an
// incomplete response is the reason why it is incomplete.
func setResponse(f *api.Frame, data []byte, failed bool) {
	var v [6][]byte
	jsonscan.NestedMembers(data, responsesAnswer, v[:])
	f.Model = v[5]
	status, details, usage, fault := jsonscan.StringBytes(v[0]), v[1], v[2], v[3]
	if failed {
		status = []byte("failed")
	}
	switch {
	case api.EndingOf(string(status)) == api.EndingAborted:
		f.Abort(status, fault)
		return
	case jsonscan.Filled(fault):
		f.Fail(nil, fault)
		return
	}
	f.Finish = status
	var reason [1][]byte
	jsonscan.NestedMembers(details, responsesReason, reason[:])
	if why := jsonscan.StringBytes(reason[0]); len(why) > 0 {
		f.Finish = why
	}
	var u [4][]byte
	jsonscan.NestedMembers(usage, responsesUsage, u[:])
	var cached, thought [1][]byte
	jsonscan.NestedMembers(u[2], responsesDetails, cached[:])
	jsonscan.NestedMembers(u[3], responsesThought, thought[:])
	f.SetUsage(u[0], cached[0], u[1])
	f.ReasoningTokens, f.HasReasoningTokens = jsonscan.Count(thought[0])
}

// addOutputs records the output of a whole answer: messages, reasoning and tool calls. Its first text counts as the
// answer.
func addOutputs(f *api.Frame, data []byte) {
	for _, item := range jsonscan.List(data) {
		item := jsonscan.Object(item)
		f.AddOutput(item["arguments"], false)
		for _, part := range jsonscan.List(item["content"]) {
			part := jsonscan.Object(part)
			f.AddOutput(part["text"], jsonscan.Text(item["type"]) == "reasoning")
			f.AddOutput(part["refusal"], false)
			if len(f.Answer) == 0 && jsonscan.Text(part["type"]) == "output_text" {
				f.Answer = jsonscan.Unquoted(part["text"])
			}
		}
	}
}
