package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// frame is what one event's data says.
type frame struct {
	token  bool   // it carries token text that is not empty
	finish []byte // finish reason, if any; lies in the event's data
	usage  bool   // it carries the output tokens so far
	output uint64
	input  uint64 // prompt tokens, if inputTold
	// inputTold says that the usage has input.
	inputTold bool
	cached    uint64 // prompt tokens that came from a prefix cache, if cacheTold
	// cacheTold says that the usage has cached.
	cacheTold bool
	answer    []byte // text of the first choice's content, as it stands between the quotes; lies in the event's data
	span      span   // how much of the answer that is
	end       bool   // it says that the stream has ended
	fault     string // message of an error object, if it is one
	failed    bool
}

// openAIFrame reads one frame, or a whole answer, of the chat or the completions API. It walks over the text once and
// allocates nothing; texts that are an error, odd or no JSON at all go to encoding/json, which has the last word.
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

// once goes bad when a name comes twice in an object: which of them counts is for encoding/json to say.
func (c *cursor) once(seen *uint, bit uint) {
	c.bad = c.bad || *seen&bit != 0
	*seen |= bit
}

// frame takes the whole object.
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
			c.once(&seen, 1)
			c.choices(f)
		case "usage":
			c.once(&seen, 2)
			c.usage(f)
		case "error":
			value := c.skip(1)
			c.bad = c.bad || string(value) != "null"
		case "object":
			value := c.skip(1)
			c.bad = c.bad || string(value) == `"error"` || bytes.IndexByte(value, '\\') >= 0
		default:
			c.skip(1)
		}
	}
}

// choices takes the array of choices.
func (c *cursor) choices(f *frame) {
	if c.peek() != '[' {
		c.skip(1)
		return
	}
	c.i++
	for n := 0; c.more(n, ']'); n++ {
		c.choice(f)
	}
}

// choice takes one of them.
func (c *cursor) choice(f *frame) {
	if c.peek() != '{' {
		c.skip(2)
		return
	}
	c.i++
	var seen uint
	said, first := said{}, true
	for n := 0; ; n++ {
		name, ok := c.key(n)
		if !ok {
			break
		}
		switch string(name) {
		case "delta":
			c.once(&seen, 1)
			said.delta = c.delta(f)
		case "message":
			c.once(&seen, 2)
			said.message = c.delta(f)
		case "text":
			c.once(&seen, 4)
			said.text = c.skip(3)
			f.token = filled(said.text) || f.token
		case "finish_reason":
			c.once(&seen, 8)
			c.finish(f)
		case "index":
			c.once(&seen, 16)
			number, given := c.count()
			first = !given || number == 0
		default:
			c.skip(3)
		}
	}
	if first {
		f.answered(said)
	}
}

// said is where a choice can have its content, each a JSON value. A sound one has only one of them.
type said struct{ delta, message, text []byte }

// answered takes in the content of the first choice. Of several choices that call themselves the first, the first one that says something
// counts.
func (f *frame) answered(s said) {
	for _, content := range [...][]byte{s.delta, s.message, s.text} {
		if len(f.answer) == 0 && len(content) > 2 && content[0] == '"' {
			f.answer = content[1 : len(content)-1]
		}
	}
}

// delta takes what a frame adds to a message, or the whole message, and returns the content.
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
			c.once(&seen, bit)
			f.token = filled(value) || f.token
			if bit == contentBit {
				content = value
			}
		}
	}
}

// contentBit is the bit of a delta's content.
const contentBit = 1

// tokenField returns a bit of its own for each field of a delta that holds what the model made, or 0.
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
	}
	return 0
}

// filled says whether a value holds something: a string, array or object that is not empty.
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

// finish takes a finish reason. An empty one is none.
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

// usage takes the usage object. Without output tokens it says nothing.
func (c *cursor) usage(f *frame) {
	if c.peek() != '{' {
		c.skip(1)
		return
	}
	c.i++
	var seen uint
	f.cacheTold = false
	for n := 0; ; n++ {
		name, ok := c.key(n)
		if !ok {
			break
		}
		switch string(name) {
		case "prompt_tokens":
			c.once(&seen, 1)
			f.input, f.inputTold = c.count()
		case "completion_tokens":
			c.once(&seen, 2)
			f.output, f.usage = c.count()
		case "prompt_tokens_details":
			c.once(&seen, 4)
			c.details(f)
		default:
			c.skip(2)
		}
	}
	f.onlyWithOutput()
}

// details takes what the usage says of the prompt's tokens.
func (c *cursor) details(f *frame) {
	if c.peek() != '{' {
		c.skip(2)
		return
	}
	c.i++
	var seen uint
	for n := 0; ; n++ {
		name, ok := c.key(n)
		if !ok {
			return
		}
		if string(name) == "cached_tokens" {
			c.once(&seen, 1)
			f.cached, f.cacheTold = c.count()
		} else {
			c.skip(3)
		}
	}
}

// onlyWithOutput leaves out the prompt's tokens of a usage that says nothing.
func (f *frame) onlyWithOutput() {
	if !f.usage || !f.inputTold {
		f.input, f.inputTold = 0, false
	}
	if !f.usage || !f.cacheTold {
		f.cached, f.cacheTold = 0, false
	}
}

// count takes a number of tokens; null is none. Whatever else goes to encoding/json.
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

var errNoObject = errors.New("no JSON object")

// decodeFrame reads a frame with encoding/json. What is not of the type that the API says is taken as absent.
func decodeFrame(data []byte, f *frame) error {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return err
	}
	if top == nil {
		return errNoObject
	}
	decodeUsage(top["usage"], f)
	decodeChoices(top["choices"], f)
	decodeFault(top, f)
	return nil
}

// object decodes a JSON object; of anything else it returns nil.
func object(data json.RawMessage) map[string]json.RawMessage {
	var o map[string]json.RawMessage
	if json.Unmarshal(data, &o) != nil {
		return nil
	}
	return o
}

// text decodes a JSON string; of anything else it returns "".
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
		choice := object(c)
		f.token = f.token || filled(choice["text"])
		for _, part := range []string{"delta", "message"} {
			for name, value := range object(choice[part]) {
				f.token = f.token || tokenField([]byte(name)) != 0 && filled(value)
			}
		}
		if number, given := decodeCount(choice["index"]); !given || number == 0 {
			f.answered(said{object(choice["delta"])["content"], object(choice["message"])["content"], choice["text"]})
		}
		if reason := text(choice["finish_reason"]); reason != "" {
			f.finish = []byte(reason)
		}
	}
}

func decodeUsage(data json.RawMessage, f *frame) {
	usage := object(data)
	f.output, f.usage = decodeCount(usage["completion_tokens"])
	f.input, f.inputTold = decodeCount(usage["prompt_tokens"])
	f.cached, f.cacheTold = decodeCount(object(usage["prompt_tokens_details"])["cached_tokens"])
	f.onlyWithOutput()
}

// decodeCount reads a number of tokens; some servers write it as 12.0.
func decodeCount(data json.RawMessage) (uint64, bool) {
	if n, err := strconv.ParseUint(string(data), 10, 64); err == nil {
		return n, true
	}
	v, err := strconv.ParseFloat(string(data), 64)
	if err != nil || v < 0 || v > 1<<53 || v != float64(uint64(v)) {
		return 0, false
	}
	return uint64(v), true
}

// decodeFault finds the error: an object with a message, or a bare text. Older vLLM sends the error's fields at the top.
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
