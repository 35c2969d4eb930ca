package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
)

// openaiParser parses a frame in place.
type openaiParser struct{ jsonscan.Cursor }

// parseOpenAI parses one frame, or a whole answer, of the chat or the completions API. It makes one pass over the text
// and allocates nothing. Errors, unusual texts and invalid JSON are left to encoding/json, which decides.
func parseOpenAI(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	c := openaiParser{jsonscan.Cursor{B: e.Data}}
	c.frame(f)
	if c.End() {
		return nil
	}
	*f = api.Frame{}
	return decodeFrame(e.Data, f)
}

// rejectRepeat sets bad if a name occurs twice in an object: encoding/json decides which of the two counts.
func (c *openaiParser) rejectRepeat(seen *uint, bit uint) {
	c.Bad = c.Bad || *seen&bit != 0
	*seen |= bit
}

// frame parses the whole object.
func (c *openaiParser) frame(f *api.Frame) {
	c.Eat('{')
	var seen uint
	for n := 0; ; n++ {
		name, ok := c.Key(n)
		if !ok {
			return
		}
		switch string(name) {
		case "choices":
			c.rejectRepeat(&seen, 1)
			c.choices(f)
		case "usage":
			c.rejectRepeat(&seen, 2)
			c.usage(f)
		case "error":
			value := c.Skip(1)
			c.Bad = c.Bad || string(value) != "null"
		case "model":
			f.Model = c.Skip(1)
		case "nvext":
			c.rejectRepeat(&seen, 4)
			f.Timing = c.Skip(1)
		case "object":
			value := c.Skip(1)
			c.Bad = c.Bad || string(value) == `"error"` || bytes.IndexByte(value, '\\') >= 0
		default:
			c.Skip(1)
		}
	}
}

// choices parses the array of choices.
func (c *openaiParser) choices(f *api.Frame) {
	if c.Peek() != '[' {
		c.Skip(1)
		return
	}
	c.I++
	for n := 0; c.More(n, ']'); n++ {
		f.Chunk = true
		c.choice(f)
	}
}

// choice parses one element of choices.
func (c *openaiParser) choice(f *api.Frame) {
	if c.Peek() != '{' {
		c.Skip(2)
		return
	}
	c.I++
	var seen uint
	content, first := choiceContent{}, true
	for n := 0; ; n++ {
		name, ok := c.Key(n)
		if !ok {
			break
		}
		switch string(name) {
		case "delta":
			c.rejectRepeat(&seen, 1)
			content.delta = c.delta(f, &content.deltaCalls)
		case "message":
			c.rejectRepeat(&seen, 2)
			content.message = c.delta(f, &content.messageCalls)
		case "text":
			c.rejectRepeat(&seen, 4)
			content.text = c.Skip(3)
			f.AddOutput(content.text, false)
		case "finish_reason":
			c.rejectRepeat(&seen, 8)
			c.finish(f)
		case "index":
			c.rejectRepeat(&seen, 16)
			number, given := jsonscan.Count(c.Skip(3))
			first = !given || number == 0
		case "token_ids":
			c.rejectRepeat(&seen, 32)
			f.Token = jsonscan.Filled(c.Skip(3)) || f.Token
		default:
			c.Skip(3)
		}
	}
	if first {
		setAnswer(f, &content)
	}
}

// choiceContent holds the places where a choice can have its content and its tool calls, as JSON values. A valid choice
// has only one of them for each.
type choiceContent struct{ delta, message, text, deltaCalls, messageCalls []byte }

// setAnswer records the content of the first choice. If several choices have index 0, the first one with content
// counts.
func setAnswer(f *api.Frame, s *choiceContent) {
	for _, content := range [...][]byte{s.delta, s.message, s.text} {
		if len(f.Answer) == 0 {
			f.Answer = jsonscan.Unquoted(content)
		}
	}
	switch {
	case len(f.Calls) > 0:
	case len(s.deltaCalls) > 0:
		f.Calls = s.deltaCalls
	case len(s.messageCalls) > 0:
		f.Calls = s.messageCalls
	}
}

// delta parses a delta, or a whole message, and returns its content. It sets calls to its tool calls, if it has some.
func (c *openaiParser) delta(f *api.Frame, calls *[]byte) (content []byte) {
	if c.Peek() != '{' {
		c.Skip(3)
		return nil
	}
	c.I++
	var seen uint
	for n := 0; ; n++ {
		name, ok := c.Key(n)
		if !ok {
			return content
		}
		value := c.Skip(4)
		if bit := tokenField(name); bit != 0 {
			c.rejectRepeat(&seen, bit)
			setDeltaField(f, bit, value)
			switch {
			case bit == contentBit:
				content = value
			case bit == callsBit && jsonscan.Filled(value):
				*calls = value
			}
		}
	}
}

// setDeltaField records a field of a delta.
func setDeltaField(f *api.Frame, bit uint, value []byte) {
	if bit == roleBit {
		f.Role = f.Role || jsonscan.Filled(value)
		return
	}
	f.AddOutput(value, bit&reasoningBits != 0)
}

// Bits of a delta's fields.
const (
	contentBit    = 1
	reasoningBits = 2 | 4
	callsBit      = 8
	roleBit       = 64
)

// tokenField returns a distinct bit for each field of a delta that describes the output, and 0 for other fields.
func tokenField(name []byte) uint {
	switch string(name) {
	case "content":
		return contentBit
	case "reasoning_content":
		return 2
	case "reasoning":
		return 4
	case "tool_calls":
		return callsBit
	case "function_call":
		return 16
	case "refusal":
		return 32
	case "role":
		return roleBit
	}
	return 0
}

// finish parses a finish reason. An empty string means none.
func (c *openaiParser) finish(f *api.Frame) {
	if c.Peek() != '"' {
		c.Skip(3)
		return
	}
	raw, escaped := c.Text()
	c.Bad = c.Bad || escaped || !utf8.Valid(raw)
	if len(raw) > 0 {
		f.Finish = raw
	}
}

// usage parses the usage object. A usage without output tokens is ignored.
func (c *openaiParser) usage(f *api.Frame) {
	if c.Peek() != '{' {
		c.Skip(1)
		return
	}
	c.I++
	var seen uint
	f.HasCached, f.HasReasoningTokens = false, false
	for n := 0; ; n++ {
		name, ok := c.Key(n)
		if !ok {
			break
		}
		switch string(name) {
		case "prompt_tokens":
			c.rejectRepeat(&seen, 1)
			f.Input, f.HasInput = jsonscan.Count(c.Skip(2))
		case "completion_tokens":
			c.rejectRepeat(&seen, 2)
			f.Output, f.HasOutput = jsonscan.Count(c.Skip(2))
		case "prompt_tokens_details":
			c.rejectRepeat(&seen, 4)
			f.Cached, f.HasCached = c.detail("cached_tokens")
		case "completion_tokens_details":
			c.rejectRepeat(&seen, 8)
			f.ReasoningTokens, f.HasReasoningTokens = c.detail("reasoning_tokens")
		default:
			c.Skip(2)
		}
	}
	onlyWithOutput(f)
}

// detail parses one number of an object with details of a usage's tokens.
func (c *openaiParser) detail(wanted string) (number uint64, given bool) {
	if c.Peek() != '{' {
		c.Skip(2)
		return 0, false
	}
	c.I++
	var seen uint
	for n := 0; ; n++ {
		name, ok := c.Key(n)
		if !ok {
			return number, given
		}
		if string(name) == wanted {
			c.rejectRepeat(&seen, 1)
			number, given = jsonscan.Count(c.Skip(3))
		} else {
			c.Skip(3)
		}
	}
}

// onlyWithOutput clears the numbers that the usage does not have, and all of them if it has no output tokens.
func onlyWithOutput(f *api.Frame) {
	if !f.HasOutput || !f.HasInput {
		f.Input, f.HasInput = 0, false
	}
	if !f.HasOutput || !f.HasCached {
		f.Cached, f.HasCached = 0, false
	}
	if !f.HasOutput || !f.HasReasoningTokens {
		f.ReasoningTokens, f.HasReasoningTokens = 0, false
	}
}

// decodeFrame parses a frame with encoding/json. Values that are not of the API's type are treated as absent.
func decodeFrame(data []byte, f *api.Frame) error {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return err
	}
	if top == nil {
		return jsonscan.ErrNotObject
	}
	decodeUsage(top["usage"], f)
	decodeChoices(top["choices"], f)
	f.Timing, f.Model = top["nvext"], top["model"]
	decodeFault(top, f)
	return nil
}

func decodeChoices(data json.RawMessage, f *api.Frame) {
	var choices []json.RawMessage
	if json.Unmarshal(data, &choices) != nil {
		return
	}
	for _, c := range choices {
		f.Chunk = true
		choice := jsonscan.Object(c)
		f.AddOutput(choice["text"], false)
		f.Token = f.Token || jsonscan.Filled(choice["token_ids"])
		for _, part := range []string{"delta", "message"} {
			for name, value := range jsonscan.Object(choice[part]) {
				if bit := tokenField([]byte(name)); bit != 0 {
					setDeltaField(f, bit, value)
				}
			}
		}
		if number, given := jsonscan.DecodeCount(choice["index"]); !given || number == 0 {
			delta, message := jsonscan.Object(choice["delta"]), jsonscan.Object(choice["message"])
			setAnswer(f, &choiceContent{delta["content"], message["content"], choice["text"],
				filledValue(delta["tool_calls"]), filledValue(message["tool_calls"])})
		}
		if reason := jsonscan.Text(choice["finish_reason"]); reason != "" {
			f.Finish = []byte(reason)
		}
	}
}

// filledValue returns a value, or nil if it is empty.
func filledValue(value json.RawMessage) []byte {
	if !jsonscan.Filled(value) {
		return nil
	}
	return value
}

func decodeUsage(data json.RawMessage, f *api.Frame) {
	usage := jsonscan.Object(data)
	f.Output, f.HasOutput = jsonscan.DecodeCount(usage["completion_tokens"])
	f.Input, f.HasInput = jsonscan.DecodeCount(usage["prompt_tokens"])
	f.Cached, f.HasCached = jsonscan.DecodeCount(jsonscan.Object(usage["prompt_tokens_details"])["cached_tokens"])
	f.ReasoningTokens, f.HasReasoningTokens = jsonscan.DecodeCount(
		jsonscan.Object(usage["completion_tokens_details"])["reasoning_tokens"])
	onlyWithOutput(f)
}

// decodeFault finds the error: an object with a message, or a string. Older vLLM sends the error's fields at the top
// level.
func decodeFault(top map[string]json.RawMessage, f *api.Frame) {
	fault := top["error"]
	if jsonscan.Text(top["object"]) == "error" {
		f.Failed, f.Fault = true, jsonscan.Text(top["message"])
	}
	if !jsonscan.Filled(fault) {
		return
	}
	f.Failed, f.Fault = true, jsonscan.Text(fault)
	if o := jsonscan.Object(fault); o != nil {
		f.Fault = jsonscan.Text(o["message"])
	}
	if f.Fault == "" {
		f.Fault = fmt.Sprintf("%.200s", fault)
	}
}
