package stream

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// members takes the JSON object that data is and sets values to the texts of its members with these names, which lie in
// data; those that are absent become nil. It walks over the text once and allocates nothing; what is odd or no JSON at
// all goes to encoding/json, which has the last word. The error says that data is no object.
func members(data []byte, names []string, values [][]byte) error {
	c := cursor{b: data}
	c.members(names, values)
	if c.end() {
		return nil
	}
	return decodeMembers(data, names, values)
}

// part is members of a member: what is absent or no object has none.
func part(data []byte, names []string, values [][]byte) {
	if len(data) == 0 || data[0] != '{' || members(data, names, values) != nil {
		clear(values)
	}
}

func (c *cursor) members(names []string, values [][]byte) {
	clear(values)
	c.eat('{')
	for n := 0; ; n++ {
		name, ok := c.key(n)
		if !ok {
			return
		}
		value := c.skip(1)
		for i := range names {
			if names[i] == string(name) {
				c.bad = c.bad || values[i] != nil // which of two counts is for encoding/json to say
				values[i] = value
			}
		}
	}
}

func decodeMembers(data []byte, names []string, values [][]byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	if all == nil {
		return errNoObject
	}
	for i, name := range names {
		values[i] = all[name]
	}
	return nil
}

// list decodes a JSON array; of anything else it returns nil.
func list(data json.RawMessage) []json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	return all
}

// within is what stands between the quotes of a JSON string. Of anything else, and of an empty string, it is nil.
func within(value []byte) []byte {
	if len(value) < 3 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// word is what a JSON string means. Of anything else it is empty. It allocates only for escapes and for what is no
// UTF-8.
func word(value []byte) []byte {
	raw := within(value)
	if bytes.IndexByte(raw, '\\') >= 0 || !utf8.Valid(raw) {
		return []byte(text(value))
	}
	return raw
}

// number is a number of tokens, if the value is one.
func number(value []byte) (n uint64, given bool) {
	if len(value) == 0 || !isDigit(value[0]) && value[0] != '-' {
		return 0, false
	}
	for _, b := range value {
		if !isDigit(b) || n > 1e17 {
			return decodeCount(value)
		}
		n = n*10 + uint64(b-'0')
	}
	return n, true
}

// fail takes down that a frame is an error. The value is an object with a message, or a bare text; kind is a word for
// what it is.
func (f *frame) fail(kind, value []byte) {
	f.failed, f.fault = true, text(value)
	if o := object(value); o != nil {
		f.fault = text(o["message"])
		kind = word(o["type"])
		if len(kind) == 0 {
			kind = word(o["code"])
		}
	}
	if len(kind) > 0 && f.fault != "" {
		f.fault = string(kind) + ": " + f.fault
	}
	if f.fault == "" {
		f.fault = string(value[:min(len(value), messageLimit)])
	}
}

// told takes down the tokens of a prompt, of them those that came from a prefix cache, and those of the output.
func (f *frame) told(input, cached, output []byte) {
	f.input, f.inputTold = number(input)
	f.cached, f.cacheTold = number(cached)
	f.output, f.usage = number(output)
}
