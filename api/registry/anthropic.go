package registry

import (
	"context"
	"slices"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/workload"
)

// Anthropic is its API for messages: POST /v1/messages, which vLLM and others serve too. Each event has its kind in
// "type". The first event has the prompt tokens, the last but one the output tokens.
var Anthropic = api.API{
	Name: "anthropic", Provider: "anthropic", Version: "/v1", Path: "/messages",
	Headers:   map[string]string{"Anthropic-Version": "2023-06-01"},
	KeyHeader: "X-Api-Key", Model: "model", Prompts: []api.Prompt{{Form: workload.Messages, Field: "messages"}},
	OtherPrompts: []string{"system"}, Rewrite: moveSystem, Defaults: map[string]any{"stream": true},
	MaxFields: []string{"max_tokens"}, IgnoreEOS: "ignore_eos", MinFields: []string{"min_tokens"}, Trials: true,
	Parse: parseAnthropic, Count: countAnthropic, Tools: anthropicTools, Forms: []api.Form{
		{Kind: api.FormSchema, Path: "output_config.format.schema"}, {Kind: api.FormSchema, Path: "output_format.schema"},
	}, Demand: func(schema any) map[string]any {
		return map[string]any{"output_config": map[string]any{"format": map[string]any{
			"type": "json_schema", "schema": schema,
		}}}
	},
}

// anthropicTools are Anthropic's: a block for each call, whose start has the name. Answers in one piece have a list of
// blocks.
var anthropicTools = &api.Tools{Names: "tools.#.name", NoArguments: true, Calls: callPaths{
	index: "index", name: "content_block.name", arguments: "delta.partial_json",
	all: `#(type=="tool_use")#`, allName: "name", allArguments: "input",
}.read, Define: func(all []api.Tool, choice string) map[string]any {
	var list []any
	for _, t := range all {
		tool := t.As("name", "description", "input_schema")
		if t.Parameters == nil {
			tool["input_schema"] = map[string]any{"type": "object"} // the API requires one
		}
		if t.Strict {
			tool["strict"] = true
		}
		list = append(list, tool)
	}
	fields := map[string]any{"tools": list}
	switch choice {
	case "":
	case api.ChoiceAuto, api.ChoiceNone:
		fields["tool_choice"] = map[string]any{"type": choice}
	case api.ChoiceRequired:
		fields["tool_choice"] = map[string]any{"type": "any"}
	default:
		fields["tool_choice"] = map[string]any{"type": "tool", "name": choice}
	}
	return fields
}}

// Members of an event or a whole message, of a block or its delta, and of a usage.
var (
	anthropicEvent   = []string{"type", "delta", "usage", "message", "content_block", "error", "content", "stop_reason", "model"}
	anthropicBlock   = []string{"text", "thinking", "partial_json", "name", "input", "type"}
	anthropicUsage   = []string{"input_tokens", "cache_read_input_tokens", "output_tokens", "cache_creation_input_tokens"}
	anthropicMessage = []string{"usage", "model"}
	anthropicDelta   = []string{"stop_reason"}
)

func parseAnthropic(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	var v [9][]byte
	if err := jsonscan.Members(e.Data, anthropicEvent, v[:]); err != nil {
		return err
	}
	delta, usage, message, block, fault := v[1], v[2], v[3], v[4], v[5]
	var inner [1][]byte
	switch string(jsonscan.StringBytes(v[0])) {
	case "content_block_delta":
		addAnthropicBlock(f, delta, e.Data)
		f.Chunk = true
	case "content_block_start":
		addAnthropicBlock(f, block, e.Data)
		f.Chunk = f.Token
	case "content_block_stop":
		f.EndPart()
	case "message_start":
		var start [2][]byte
		jsonscan.NestedMembers(message, anthropicMessage, start[:])
		setTokens(f, start[0], anthropicUsage)
		f.Model = start[1]
		f.Output, f.HasOutput = 0, false // an estimate until the end
	case "message_delta":
		jsonscan.NestedMembers(delta, anthropicDelta, inner[:])
		f.Finish = jsonscan.StringBytes(inner[0])
		f.EndPart()
		setTokens(f, usage, anthropicUsage)
	case "message_stop":
		f.End = true
	case "message":
		jsonscan.Each(v[6], func(block []byte) { addAnthropicBlock(f, block, v[6]) })
		f.Finish, f.Model, f.Chunk = jsonscan.StringBytes(v[7]), v[8], true
		setTokens(f, usage, anthropicUsage)
	default:
		if jsonscan.Filled(fault) {
			f.Fail(nil, fault)
		}
	}
	return nil
}

// addAnthropicBlock records a content block, its start or its delta: text, thinking, a tool's name or its input. The
// first text is the answer. For a tool call, or a piece of its input, calls is what Tools.Calls reads.
func addAnthropicBlock(f *api.Frame, data, calls []byte) {
	var v [6][]byte
	jsonscan.NestedMembers(data, anthropicBlock, v[:])
	if len(f.Answer) == 0 {
		f.Answer = jsonscan.Unquoted(v[0])
	}
	for i, value := range v[:5] {
		f.AddOutput(value, anthropicBlock[i] == "thinking")
	}
	if kind := string(jsonscan.StringBytes(v[5])); kind == "tool_use" || kind == "input_json_delta" {
		f.Calls = calls
	}
}

// setTokens records a usage. Its input tokens do not include tokens read from the cache or written to it.
func setTokens(f *api.Frame, usage []byte, members []string) {
	var v [4][]byte
	jsonscan.NestedMembers(usage, members, v[:])
	f.SetUsage(v[0], v[1], v[2])
	f.AddCacheTokens(v[3])
}

// anthropicRole are the members of a message that moveSystem reads.
var anthropicRole = []string{"role", "content"}

// moveSystem moves a system prompt from the messages, where this API does not allow it, to a separate field after
// them.
func moveSystem(dst []byte, from int) []byte {
	c := jsonscan.Cursor{B: dst, I: from}
	c.Eat('[')
	c.Peek()
	begin := c.I
	first := c.Skip(1)
	if len(first) == 0 || first[0] != '{' {
		return dst
	}
	var v [2][]byte
	jsonscan.NestedMembers(first, anthropicRole, v[:])
	system := v[1]
	if string(jsonscan.StringBytes(v[0])) != "system" || len(system) == 0 {
		return dst
	}
	if c.Peek() == ',' {
		c.I++
	}
	dst = append(dst, `,"system":`...)
	dst = append(dst, system...)
	return slices.Delete(dst, begin, c.I)
}

// countAnthropic asks POST /v1/messages/count_tokens. It always counts a chat: the API cannot count a text alone.
func countAnthropic(ctx context.Context, s api.Server, text string, _ bool) (api.Tokens, error) {
	fields := map[string]any{"model": s.Model(), "messages": api.ChatOf(text)}
	for _, name := range []string{"tools", "tool_choice", "thinking"} {
		if value, ok := s.Field(name); ok {
			fields[name] = value
		}
	}
	return api.CountBy(ctx, s, "/v1/messages/count_tokens", fields, "input_tokens")
}
