package stream

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// members parses data as a JSON object and sets values to the raw values of its members with these names. The values
// point into data; absent members become nil. It makes one pass over the text and allocates nothing. Unusual texts and
// invalid JSON are left to encoding/json, which decides. It fails if data is not an object.
func members(data []byte, names []string, values [][]byte) error {
	c := cursor{b: data}
	c.members(names, values)
	if c.end() {
		return nil
	}
	return decodeMembers(data, names, values)
}

// nestedMembers is members for the value of a member. If the value is absent or not an object, all values become nil.
func nestedMembers(data []byte, names []string, values [][]byte) {
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
				c.bad = c.bad || values[i] != nil // encoding/json decides which of two counts
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
		return errNotObject
	}
	for i, name := range names {
		values[i] = all[name]
	}
	return nil
}

// list decodes a JSON array. It returns nil for anything else.
func list(data json.RawMessage) []json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	return all
}

// unquoted returns what is between the quotes of a JSON string. It returns nil for an empty string and for anything
// else.
func unquoted(value []byte) []byte {
	if len(value) < 3 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// stringBytes decodes a JSON string. It returns an empty slice for anything else. It allocates only for escapes and
// invalid UTF-8.
func stringBytes(value []byte) []byte {
	raw := unquoted(value)
	if bytes.IndexByte(raw, '\\') >= 0 || !utf8.Valid(raw) {
		return []byte(text(value))
	}
	return raw
}

// number decodes a number of tokens. False: the value is not one.
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

// fail marks a frame as an error. The value is an object with a message, or a string. kind is the kind of error; a type
// or code in the value replaces it.
func (f *frame) fail(kind, value []byte) {
	f.failed, f.fault = true, text(value)
	if o := object(value); o != nil {
		f.fault = text(o["message"])
		kind = stringBytes(o["type"])
		if len(kind) == 0 {
			kind = stringBytes(o["code"])
		}
	}
	if len(kind) > 0 && f.fault != "" {
		f.fault = string(kind) + ": " + f.fault
	}
	if f.fault == "" {
		f.fault = string(value[:min(len(value), messageLimit)])
	}
}

// setUsage records the tokens of a prompt, those of them that came from a prefix cache, and the output tokens.
func (f *frame) setUsage(input, cached, output []byte) {
	f.input, f.hasInput = number(input)
	f.cached, f.hasCached = number(cached)
	f.output, f.hasOutput = number(output)
}
