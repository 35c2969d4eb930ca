package stream

import (
	"net/http"
	"slices"

	"github.com/spate-load/spate/workload"
)

// anthropic is Anthropic's POST /v1/messages, which vLLM and others serve too. Each event has its kind in "type". The
// first event has the prompt tokens, the last but one the output tokens.
type anthropic struct{}

var anthropicTraits = traits{
	path: "/v1/messages", model: "model", prompts: []string{"messages", "system"},
	defaults:  map[string]any{"stream": true},
	maxFields: []string{"max_tokens"}, ignoreEOS: "ignore_eos", minFields: []string{"min_tokens"},
}

func (anthropic) traits() *traits     { return &anthropicTraits }
func (anthropic) form() workload.Form { return workload.Messages }
func (anthropic) prompt() string      { return "messages" }

// anthropicVersion is the version of the API that this package implements.
const anthropicVersion = "2023-06-01"

func (anthropic) authorize(h http.Header, key string) {
	h.Set("Anthropic-Version", anthropicVersion)
	if key != "" {
		h.Set("X-Api-Key", key)
	}
}

// Members of an event or a whole message, of a block or its delta, and of a usage.
var (
	anthropicEvent = []string{"type", "delta", "usage", "message", "content_block", "error", "content", "stop_reason"}
	anthropicBlock = []string{"text", "thinking", "partial_json", "name"}
	anthropicUsage = []string{"input_tokens", "cache_read_input_tokens", "output_tokens", "cache_creation_input_tokens"}
	anthropicInner = []string{"usage"}
	anthropicDelta = []string{"stop_reason"}
)

func (anthropic) frame(data []byte, f *frame) error {
	*f = frame{}
	var v [8][]byte
	if err := members(data, anthropicEvent, v[:]); err != nil {
		return err
	}
	delta, usage, message, block, fault := v[1], v[2], v[3], v[4], v[5]
	var inner [1][]byte
	switch string(stringBytes(v[0])) {
	case "content_block_delta":
		f.contentBlock(delta)
		f.chunk = true
	case "content_block_start":
		f.contentBlock(block)
		f.chunk = f.token
	case "content_block_stop":
		f.close()
	case "message_start":
		nestedMembers(message, anthropicInner, inner[:])
		f.setAnthropicUsage(inner[0])
		f.output, f.hasOutput = 0, false // an estimate until the end
	case "message_delta":
		nestedMembers(delta, anthropicDelta, inner[:])
		f.finish = stringBytes(inner[0])
		f.close()
		f.setAnthropicUsage(usage)
	case "message_stop":
		f.end = true
	case "message":
		f.contentBlocks(v[6])
		f.finish, f.chunk = stringBytes(v[7]), true
		f.setAnthropicUsage(usage)
	default:
		if filled(fault) {
			f.fail(nil, fault)
		}
	}
	return nil
}

// contentBlock records the start of a content block, or its delta: text, thinking, a tool's name or its input.
func (f *frame) contentBlock(data []byte) {
	var v [4][]byte
	nestedMembers(data, anthropicBlock, v[:])
	f.answer = unquoted(v[0])
	for i, value := range v {
		f.addOutput(value, anthropicBlock[i] == "thinking")
	}
}

// contentBlocks records the content of a whole message. Its first text counts as the answer.
func (f *frame) contentBlocks(data []byte) {
	var answer []byte
	for _, block := range list(data) {
		f.contentBlock(block)
		if len(answer) == 0 {
			answer = f.answer
		}
	}
	f.answer = answer
}

// setAnthropicUsage records a usage. Its input_tokens do not include tokens read from the cache or written to it.
func (f *frame) setAnthropicUsage(usage []byte) {
	var v [4][]byte
	nestedMembers(usage, anthropicUsage, v[:])
	f.setUsage(v[0], v[1], v[2])
	written, _ := number(v[3])
	if f.hasInput {
		f.input += f.cached + written
	}
}

// messageRole are the members of a message that rewritePrompt reads.
var messageRole = []string{"role", "content"}

// rewritePrompt moves a system prompt from the messages, where this API does not allow it, to a separate field after
// them.
func (anthropic) rewritePrompt(dst []byte, from int) []byte {
	c := cursor{b: dst, i: from}
	c.eat('[')
	c.peek()
	begin := c.i
	first := c.skip(1)
	if len(first) == 0 || first[0] != '{' {
		return dst
	}
	var v [2][]byte
	nestedMembers(first, messageRole, v[:])
	system := v[1]
	if string(stringBytes(v[0])) != "system" || len(system) == 0 {
		return dst
	}
	if c.peek() == ',' {
		c.i++
	}
	dst = append(dst, `,"system":`...)
	dst = append(dst, system...)
	return slices.Delete(dst, begin, c.i)
}
