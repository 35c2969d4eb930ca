package registry

import (
	"bytes"
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
		case "x_groq":
			c.rejectRepeat(&seen, 8)
			c.nestedUsage(f)
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
		case "usage":
			c.rejectRepeat(&seen, 64)
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

// usage parses a usage object, of which a frame has one: at the top level, in a choice (Moonshot) or in x_groq. A usage
// without output tokens is ignored.
func (c *openaiParser) usage(f *api.Frame) {
	if c.Peek() != '{' {
		c.Skip(3)
		return
	}
	c.Bad = c.Bad || f.HasOutput
	c.I++
	var seen uint
	var u openaiUsage
	for n := 0; ; n++ {
		name, ok := c.Key(n)
		if !ok {
			break
		}
		switch string(name) {
		case "prompt_tokens":
			c.rejectRepeat(&seen, 1)
			u.input = countOf(c.Skip(4))
		case "completion_tokens":
			c.rejectRepeat(&seen, 2)
			u.output = countOf(c.Skip(4))
		case "prompt_tokens_details":
			c.rejectRepeat(&seen, 4)
			u.cached = c.detail("cached_tokens")
		case "completion_tokens_details":
			c.rejectRepeat(&seen, 8)
			u.reasoning = c.detail("reasoning_tokens")
		case "prompt_cache_hit_tokens":
			c.rejectRepeat(&seen, 16)
			u.hit = countOf(c.Skip(4))
		case "total_tokens":
			c.rejectRepeat(&seen, 32)
			u.total = countOf(c.Skip(4))
		default:
			c.Skip(4)
		}
	}
	u.set(f)
}

// nestedUsage parses an object with a usage.
func (c *openaiParser) nestedUsage(f *api.Frame) {
	if c.Peek() != '{' {
		c.Skip(1)
		return
	}
	c.I++
	var seen uint
	for n := 0; ; n++ {
		switch name, ok := c.Key(n); {
		case !ok:
			return
		case string(name) == "usage":
			c.rejectRepeat(&seen, 1)
			c.usage(f)
		default:
			c.Skip(2)
		}
	}
}

// openaiUsage has the counts of a usage object.
type openaiUsage struct {
	input, output, cached, reasoning count
	hit                              count // DeepSeek's cached tokens
	total                            count
}

// count is a number of tokens that a usage may have.
type count struct {
	n     uint64
	given bool
}

// countOf reads a count.
func countOf(value []byte) (c count) {
	c.n, c.given = jsonscan.Count(value)
	return c
}

// set sets a frame's counts. Without output tokens it sets none. Some servers, such as xAI's, count the tokens of
// reasoning beside those of the output; the total tells.
func (u *openaiUsage) set(f *api.Frame) {
	if !u.output.given {
		return
	}
	if !u.cached.given {
		u.cached = u.hit
	}
	if u.total.given && u.input.given && u.total.n == u.input.n+u.output.n+u.reasoning.n {
		u.output.n += u.reasoning.n
	}
	f.Output, f.HasOutput = u.output.n, true
	f.Input, f.HasInput = u.input.n, u.input.given
	f.Cached, f.HasCached = u.cached.n, u.cached.given
	f.ReasoningTokens, f.HasReasoningTokens = u.reasoning.n, u.reasoning.given
}

// detail parses one number of an object with details of a usage's tokens.
func (c *openaiParser) detail(wanted string) (number count) {
	if c.Peek() != '{' {
		c.Skip(4)
		return count{}
	}
	c.I++
	var seen uint
	for n := 0; ; n++ {
		name, ok := c.Key(n)
		if !ok {
			return number
		}
		if string(name) == wanted {
			c.rejectRepeat(&seen, 1)
			number = countOf(c.Skip(5))
		} else {
			c.Skip(5)
		}
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
	decodeUsage(jsonscan.Object(top["x_groq"])["usage"], f)
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
		decodeUsage(choice["usage"], f)
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

// decodeUsage sets the counts of a usage, unless the frame has some.
func decodeUsage(data json.RawMessage, f *api.Frame) {
	if f.HasOutput {
		return
	}
	object := jsonscan.Object(data)
	of := func(value json.RawMessage) (c count) {
		c.n, c.given = jsonscan.DecodeCount(value)
		return c
	}
	u := openaiUsage{input: of(object["prompt_tokens"]), output: of(object["completion_tokens"]),
		cached:    of(jsonscan.Object(object["prompt_tokens_details"])["cached_tokens"]),
		reasoning: of(jsonscan.Object(object["completion_tokens_details"])["reasoning_tokens"]),
		hit:       of(object["prompt_cache_hit_tokens"]), total: of(object["total_tokens"])}
	u.set(f)
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
