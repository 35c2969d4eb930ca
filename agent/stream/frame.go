package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// frame is what one event's data contains.
type frame struct {
	token     bool // it carries a token: it has text or token ids
	chunk     bool // it is part of the output; vLLM's benchmark client timestamps such frames
	emptyText bool // it has an empty field for text
	role      bool // it names the role of the message
	closes    bool // it ends the output, or a part of it
	oneToken  bool // it holds exactly one token
	reasoning bool // some of its text is reasoning
	hasAnswer bool // some of it is the answer: text, a tool call or a refusal
	end       bool // it marks the end of the stream
	failed    bool // it reports an error

	finish []byte // finish reason, if any; points into the event's data

	// Token counts of the usage, each 0 unless its flag below is set: output, prompt, prompt tokens from a prefix
	// cache, output tokens that were reasoning.
	output, input, cached, reasoningTokens             uint64
	hasOutput, hasInput, hasCached, hasReasoningTokens bool

	text   int    // bytes of text of any kind, as encoded in JSON
	answer []byte // content of the first choice, as between the JSON quotes; points into the event's data
	span   span   // which part of the answer that is
	timing []byte // JSON object with the server's own timings, if any; points into the event's data
	fault  string // the error's message
}

// trimAnswer removes from a frame the part of the answer that earlier frames had.
func (f *frame) trimAnswer(g *growth) {
	f.answer = g.added(f.answer, f.span)
	f.token = len(f.answer) > 0
	f.hasAnswer, f.text = f.token, len(f.answer)
}

// close marks a frame as the end of a part of the output, in an API that sends no frame for a last token without text.
func (f *frame) close() { f.closes, f.emptyText = true, true }

// addOutput records a JSON value with generated output.
func (f *frame) addOutput(value []byte, reasoning bool) {
	if !filled(value) {
		f.emptyText = f.emptyText || len(value) == 2 && value[0] == '"'
		return
	}
	f.token = true
	f.text += len(value) - 2
	f.reasoning = f.reasoning || reasoning
	f.hasAnswer = f.hasAnswer || !reasoning
}

// openAIFrame parses one frame, or a whole answer, of the chat or the completions API. It makes one pass over the text
// and allocates nothing. Errors, unusual texts and invalid JSON are left to encoding/json, which decides.
func openAIFrame(data []byte, f *frame) error {
	*f = frame{}
	c := cursor{b: data}
	c.frame(f)
	if c.end() {
		return nil
	}
	*f = frame{}
	return decodeFrame(data, f)
}

// rejectRepeat sets bad if a name occurs twice in an object: encoding/json decides which of the two counts.
func (c *cursor) rejectRepeat(seen *uint, bit uint) {
	c.bad = c.bad || *seen&bit != 0
	*seen |= bit
}

// frame parses the whole object.
func (c *cursor) frame(f *frame) {
	c.eat('{')
	var seen uint
	for n := 0; ; n++ {
		name, ok := c.key(n)
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
			value := c.skip(1)
			c.bad = c.bad || string(value) != "null"
		case "nvext":
			c.rejectRepeat(&seen, 4)
			f.timing = c.skip(1)
		case "object":
			value := c.skip(1)
			c.bad = c.bad || string(value) == `"error"` || bytes.IndexByte(value, '\\') >= 0
		default:
			c.skip(1)
		}
	}
}

// choices parses the array of choices.
func (c *cursor) choices(f *frame) {
	if c.peek() != '[' {
		c.skip(1)
		return
	}
	c.i++
	for n := 0; c.more(n, ']'); n++ {
		f.chunk = true
		c.choice(f)
	}
}

// choice parses one element of choices.
func (c *cursor) choice(f *frame) {
	if c.peek() != '{' {
		c.skip(2)
		return
	}
	c.i++
	var seen uint
	content, first := choiceContent{}, true
	for n := 0; ; n++ {
		name, ok := c.key(n)
		if !ok {
			break
		}
		switch string(name) {
		case "delta":
			c.rejectRepeat(&seen, 1)
			content.delta = c.delta(f)
		case "message":
			c.rejectRepeat(&seen, 2)
			content.message = c.delta(f)
		case "text":
			c.rejectRepeat(&seen, 4)
			content.text = c.skip(3)
			f.addOutput(content.text, false)
		case "finish_reason":
			c.rejectRepeat(&seen, 8)
			c.finish(f)
		case "index":
			c.rejectRepeat(&seen, 16)
			number, given := c.count()
			first = !given || number == 0
		case "token_ids":
			c.rejectRepeat(&seen, 32)
			f.token = filled(c.skip(3)) || f.token
		default:
			c.skip(3)
		}
	}
	if first {
		f.setAnswer(content)
	}
}

// choiceContent holds the places where a choice can have its content, as JSON values. A valid choice has only one of
// them.
type choiceContent struct{ delta, message, text []byte }

// setAnswer records the content of the first choice. If several choices have index 0, the first one with content
// counts.
func (f *frame) setAnswer(s choiceContent) {
	for _, content := range [...][]byte{s.delta, s.message, s.text} {
		if len(f.answer) == 0 && len(content) > 2 && content[0] == '"' {
			f.answer = content[1 : len(content)-1]
		}
	}
}

// delta parses a delta, or a whole message, and returns its content.
func (c *cursor) delta(f *frame) (content []byte) {
	if c.peek() != '{' {
		c.skip(3)
		return nil
	}
	c.i++
	var seen uint
	for n := 0; ; n++ {
		name, ok := c.key(n)
		if !ok {
			return content
		}
		value := c.skip(4)
		if bit := tokenField(name); bit != 0 {
			c.rejectRepeat(&seen, bit)
			f.setDeltaField(bit, value)
			if bit == contentBit {
				content = value
			}
		}
	}
}

// setDeltaField records a field of a delta.
func (f *frame) setDeltaField(bit uint, value []byte) {
	if bit == roleBit {
		f.role = f.role || filled(value)
		return
	}
	f.addOutput(value, bit&reasoningBits != 0)
}

// Bits of a delta's fields.
const (
	contentBit    = 1
	reasoningBits = 2 | 4
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
		return 8
	case "function_call":
		return 16
	case "refusal":
		return 32
	case "role":
		return roleBit
	}
	return 0
}

// filled reports whether a value is a string, array or object that is not empty.
func filled(value []byte) bool {
	if len(value) < 3 {
		return false
	}
	switch value[0] {
	case '"':
		return true
	case '[', '{':
		c := cursor{b: value, i: 1}
		c.peek()
		return c.i < len(value)-1
	}
	return false
}

// finish parses a finish reason. An empty string means none.
func (c *cursor) finish(f *frame) {
	if c.peek() != '"' {
		c.skip(3)
		return
	}
	raw, escaped := c.text()
	c.bad = c.bad || escaped || !utf8.Valid(raw)
	if len(raw) > 0 {
		f.finish = raw
	}
}

// usage parses the usage object. A usage without output tokens is ignored.
func (c *cursor) usage(f *frame) {
	if c.peek() != '{' {
		c.skip(1)
		return
	}
	c.i++
	var seen uint
	f.hasCached, f.hasReasoningTokens = false, false
	for n := 0; ; n++ {
		name, ok := c.key(n)
		if !ok {
			break
		}
		switch string(name) {
		case "prompt_tokens":
			c.rejectRepeat(&seen, 1)
			f.input, f.hasInput = c.count()
		case "completion_tokens":
			c.rejectRepeat(&seen, 2)
			f.output, f.hasOutput = c.count()
		case "prompt_tokens_details":
			c.rejectRepeat(&seen, 4)
			f.cached, f.hasCached = c.detail("cached_tokens")
		case "completion_tokens_details":
			c.rejectRepeat(&seen, 8)
			f.reasoningTokens, f.hasReasoningTokens = c.detail("reasoning_tokens")
		default:
			c.skip(2)
		}
	}
	f.onlyWithOutput()
}

// detail parses one number of an object with details of a usage's tokens.
func (c *cursor) detail(wanted string) (number uint64, given bool) {
	if c.peek() != '{' {
		c.skip(2)
		return 0, false
	}
	c.i++
	var seen uint
	for n := 0; ; n++ {
		name, ok := c.key(n)
		if !ok {
			return number, given
		}
		if string(name) == wanted {
			c.rejectRepeat(&seen, 1)
			number, given = c.count()
		} else {
			c.skip(3)
		}
	}
}

// onlyWithOutput clears the numbers that the usage does not have, and all of them if it has no output tokens.
func (f *frame) onlyWithOutput() {
	if !f.hasOutput || !f.hasInput {
		f.input, f.hasInput = 0, false
	}
	if !f.hasOutput || !f.hasCached {
		f.cached, f.hasCached = 0, false
	}
	if !f.hasOutput || !f.hasReasoningTokens {
		f.reasoningTokens, f.hasReasoningTokens = 0, false
	}
}

// count parses a number of tokens; null is none. Anything else goes to encoding/json.
func (c *cursor) count() (uint64, bool) {
	value := c.skip(2)
	if string(value) == "null" {
		return 0, false
	}
	var n uint64
	for _, b := range value {
		c.bad = c.bad || !isDigit(b) || n > 1e17
		n = n*10 + uint64(b-'0')
	}
	return n, !c.bad
}

var errNotObject = errors.New("not a JSON object")

// decodeFrame parses a frame with encoding/json. Values that are not of the API's type are treated as absent.
func decodeFrame(data []byte, f *frame) error {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return err
	}
	if top == nil {
		return errNotObject
	}
	decodeUsage(top["usage"], f)
	decodeChoices(top["choices"], f)
	f.timing = top["nvext"]
	decodeFault(top, f)
	return nil
}

// object decodes a JSON object. It returns nil for anything else.
func object(data json.RawMessage) map[string]json.RawMessage {
	var o map[string]json.RawMessage
	if json.Unmarshal(data, &o) != nil {
		return nil
	}
	return o
}

// text decodes a JSON string. It returns "" for anything else.
func text(data json.RawMessage) string {
	var s string
	if json.Unmarshal(data, &s) != nil {
		return ""
	}
	return s
}

func decodeChoices(data json.RawMessage, f *frame) {
	var choices []json.RawMessage
	if json.Unmarshal(data, &choices) != nil {
		return
	}
	for _, c := range choices {
		f.chunk = true
		choice := object(c)
		f.addOutput(choice["text"], false)
		f.token = f.token || filled(choice["token_ids"])
		for _, part := range []string{"delta", "message"} {
			for name, value := range object(choice[part]) {
				if bit := tokenField([]byte(name)); bit != 0 {
					f.setDeltaField(bit, value)
				}
			}
		}
		if number, given := decodeCount(choice["index"]); !given || number == 0 {
			f.setAnswer(choiceContent{
				object(choice["delta"])["content"], object(choice["message"])["content"], choice["text"]})
		}
		if reason := text(choice["finish_reason"]); reason != "" {
			f.finish = []byte(reason)
		}
	}
}

func decodeUsage(data json.RawMessage, f *frame) {
	usage := object(data)
	f.output, f.hasOutput = decodeCount(usage["completion_tokens"])
	f.input, f.hasInput = decodeCount(usage["prompt_tokens"])
	f.cached, f.hasCached = decodeCount(object(usage["prompt_tokens_details"])["cached_tokens"])
	f.reasoningTokens, f.hasReasoningTokens = decodeCount(
		object(usage["completion_tokens_details"])["reasoning_tokens"])
	f.onlyWithOutput()
}

// decodeCount decodes a number of tokens. Some servers write 12.0. A number too large for its type becomes the largest
// uint64, so that it is not mistaken for a missing one.
func decodeCount(data json.RawMessage) (uint64, bool) {
	n, err := strconv.ParseUint(string(data), 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return n, true
	}
	v, err := strconv.ParseFloat(string(data), 64)
	switch {
	case errors.Is(err, strconv.ErrRange) && v > 0, err == nil && v > 1<<53:
		return math.MaxUint64, true
	case err != nil || v < 0 || v != float64(uint64(v)):
		return 0, false
	}
	return uint64(v), true
}

// decodeFault finds the error: an object with a message, or a string. Older vLLM sends the error's fields at the top
// level.
func decodeFault(top map[string]json.RawMessage, f *frame) {
	fault := top["error"]
	if text(top["object"]) == "error" {
		f.failed, f.fault = true, text(top["message"])
	}
	if !filled(fault) {
		return
	}
	f.failed, f.fault = true, text(fault)
	if o := object(fault); o != nil {
		f.fault = text(o["message"])
	}
	if f.fault == "" {
		f.fault = fmt.Sprintf("%.200s", fault)
	}
}
