package registry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
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

// once consumes a value that an object has once.
func (c *openaiParser) once(depth int, value *[]byte) []byte {
	c.Bad = c.Bad || *value != nil
	*value = c.Skip(depth)
	return *value
}

// frame parses the whole object.
func (c *openaiParser) frame(f *api.Frame) {
	c.Eat('{')
	var seen uint
	var groq []byte
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
			c.usage(f)
		case "x_groq":
			c.Bad = c.Bad || f.HasOutput
			setNestedUsage(f, groqUsage(c.once(1, &groq)))
		case "error":
			value := c.Skip(1)
			c.Bad = c.Bad || string(value) != "null"
		case "model":
			f.Model = c.Skip(1)
		case "nvext":
			c.once(1, &f.Timing)
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
			f.AddOutput(c.once(3, &content.text), false)
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
		case "usage":
			c.usage(f)
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
	var details []byte
	for n := 0; ; n++ {
		name, ok := c.Key(n)
		if !ok {
			addDetails(f, details)
			return content
		}
		value := c.Skip(4)
		if bit := tokenField(name); bit != 0 {
			c.rejectRepeat(&seen, bit)
			setDeltaField(f, bit, value)
			switch {
			case bit == contentBit:
				content = value
			case bit == detailsBit:
				details = value
			case bit == callsBit && jsonscan.Filled(value):
				*calls = value
			}
		}
	}
}

// setDeltaField records a field of a delta.
func setDeltaField(f *api.Frame, bit uint, value []byte) {
	switch bit {
	case roleBit:
		f.Role = f.Role || jsonscan.Filled(value)
	case detailsBit: // see addDetails
	default:
		f.AddOutput(value, bit&reasoningBits != 0 || bit == contentBit && isThinking(value))
	}
}

// addDetails records OpenRouter's reasoning_details, which servers send alone or beside reasoning with the same text.
func addDetails(f *api.Frame, details []byte) {
	if !f.Reasoning && jsonscan.Filled(details) {
		f.AddOutput(details, true)
	}
}

// isThinking reports whether a content is a list of parts one of which is a thought, as Mistral sends it.
func isThinking(content []byte) bool {
	if len(content) == 0 || content[0] != '[' {
		return false
	}
	var parts []map[string]json.RawMessage // behind the check, because it is allocated
	if json.Unmarshal(content, &parts) != nil {
		return false
	}
	return slices.ContainsFunc(parts, func(p map[string]json.RawMessage) bool { return jsonscan.Text(p["type"]) == "thinking" })
}

// Bits of a delta's fields.
const (
	contentBit    = 1
	reasoningBits = 2 | 4
	callsBit      = 8
	roleBit       = 64
	detailsBit    = 128
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
	case "reasoning_details":
		return detailsBit
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

// Members of a usage, of the details of its tokens, and of Groq's x_groq. prompt_cache_hit_tokens is DeepSeek's.
var (
	openaiUsage = []string{"prompt_tokens", "completion_tokens", "total_tokens", "prompt_cache_hit_tokens",
		"prompt_tokens_details", "completion_tokens_details"}
	openaiNested = []string{"usage"}
)

// usage parses a usage, of which a frame has one: at the top level, in a choice (Moonshot) or in x_groq.
func (c *openaiParser) usage(f *api.Frame) {
	if c.Peek() != '{' {
		c.Skip(3)
		return
	}
	c.Bad = c.Bad || f.HasOutput
	var v [6][]byte
	c.Members(openaiUsage, v[:])
	setUsage(f, &v)
}

// groqUsage returns the usage in the value of x_groq.
func groqUsage(groq []byte) []byte {
	var usage [1][]byte
	jsonscan.NestedMembers(groq, openaiNested, usage[:])
	return usage[0]
}

// setNestedUsage records a usage that is a value.
func setNestedUsage(f *api.Frame, usage []byte) {
	var v [6][]byte
	jsonscan.NestedMembers(usage, openaiUsage, v[:])
	setUsage(f, &v)
}

// setUsage records the members of a usage that has output tokens, unless the frame has a usage. Some servers, such as
// xAI's, count the tokens of reasoning beside those of the output; the total tells.
func setUsage(f *api.Frame, v *[6][]byte) {
	if _, given := jsonscan.Count(v[1]); !given || f.HasOutput {
		return
	}
	var cached, thought [1][]byte
	jsonscan.NestedMembers(v[4], cachedTokens, cached[:])
	jsonscan.NestedMembers(v[5], reasoningTokens, thought[:])
	f.SetUsage(v[0], cached[0], v[1])
	if !f.HasCached {
		f.Cached, f.HasCached = jsonscan.Count(v[3])
	}
	f.ReasoningTokens, f.HasReasoningTokens = jsonscan.Count(thought[0])
	if total, given := jsonscan.Count(v[2]); given && f.HasInput && total == f.Input+f.Output+f.ReasoningTokens {
		f.Output += f.ReasoningTokens
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
	setNestedUsage(f, top["usage"])
	decodeChoices(top["choices"], f)
	setNestedUsage(f, groqUsage(top["x_groq"]))
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
		setNestedUsage(f, choice["usage"])
		f.AddOutput(choice["text"], false)
		f.Token = f.Token || jsonscan.Filled(choice["token_ids"])
		for _, part := range []string{"delta", "message"} {
			delta := jsonscan.Object(choice[part])
			for name, value := range delta {
				if bit := tokenField([]byte(name)); bit != 0 {
					setDeltaField(f, bit, value)
				}
			}
			addDetails(f, delta["reasoning_details"])
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
	f.Fault = cmp.Or(f.Fault, fmt.Sprintf("%.200s", fault))
}
