package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"
)

// Members parses data as a JSON object and sets values to the raw values of its members with these names. The values
// point into data; absent members become nil. It makes one pass over the text and allocates nothing. Unusual texts and
// invalid JSON are left to encoding/json, which decides. It fails if data is not an object.
func Members(data []byte, names []string, values [][]byte) error {
	c := Cursor{B: data}
	c.Members(names, values)
	if c.End() {
		return nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	if all == nil {
		return ErrNotObject
	}
	for i, name := range names {
		values[i] = all[name]
	}
	return nil
}

// NestedMembers is Members for the value of a member. If the value is absent or not an object, all values become nil.
func NestedMembers(data []byte, names []string, values [][]byte) {
	if len(data) == 0 || data[0] != '{' || Members(data, names, values) != nil {
		clear(values)
	}
}

// Members consumes an object, and sets values as the function Members does. Unusual names, and names that occur twice,
// set Bad.
func (c *Cursor) Members(names []string, values [][]byte) {
	clear(values)
	c.Eat('{')
	for n := 0; ; n++ {
		name, ok := c.Key(n)
		if !ok {
			return
		}
		value := c.Skip(1)
		for i := range names {
			if names[i] == string(name) {
				c.Bad = c.Bad || values[i] != nil // encoding/json decides which of two counts
				values[i] = value
			}
		}
	}
}

// Each calls visit for each element of a JSON array, in place. It calls nothing for anything else.
func Each(data []byte, visit func(element []byte)) {
	if len(data) == 0 || data[0] != '[' {
		return
	}
	c := Cursor{B: data, I: 1}
	n := 0
	for ; c.More(n, ']'); n++ {
		c.Peek()
		element := c.Skip(1)
		if c.Bad {
			break
		}
		visit(element)
	}
	if c.Bad { // too deep, for example
		for _, element := range List(data)[n:] {
			visit(element)
		}
	}
}

// List decodes a JSON array. It returns nil for anything else.
func List(data json.RawMessage) []json.RawMessage { return decoded[[]json.RawMessage](data) }

// Unquoted returns what is between the quotes of a JSON string. It returns nil for an empty string and for anything
// else.
func Unquoted(value []byte) []byte {
	if len(value) < 3 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// StringBytes decodes a JSON string. It returns an empty slice for anything else. It allocates only for escapes and
// invalid UTF-8.
func StringBytes(value []byte) []byte {
	raw := Unquoted(value)
	if bytes.IndexByte(raw, '\\') >= 0 || !utf8.Valid(raw) {
		return []byte(Text(value))
	}
	return raw
}

// Count decodes a number of tokens. False: the value is not one.
func Count(value []byte) (n uint64, given bool) {
	if len(value) == 0 || !isDigit(value[0]) && value[0] != '-' {
		return 0, false
	}
	for _, b := range value {
		if !isDigit(b) || n > 1e17 {
			return DecodeCount(value)
		}
		n = n*10 + uint64(b-'0')
	}
	return n, true
}

// ErrNotObject means that a JSON text is not an object.
var ErrNotObject = errors.New("not a JSON object")

// Filled reports whether a value is a string, array or object that is not empty.
func Filled(value []byte) bool {
	if len(value) < 3 {
		return false
	}
	switch value[0] {
	case '"':
		return true
	case '[', '{':
		c := Cursor{B: value, I: 1}
		c.Peek()
		return c.I < len(value)-1
	}
	return false
}

// Object decodes a JSON object. It returns nil for anything else.
func Object(data json.RawMessage) map[string]json.RawMessage {
	return decoded[map[string]json.RawMessage](data)
}

// Text decodes a JSON string. It returns "" for anything else.
func Text(data json.RawMessage) string { return decoded[string](data) }

// decoded decodes JSON. It returns a zero value for anything but a T.
func decoded[T any](data json.RawMessage) (v T) {
	if json.Unmarshal(data, &v) != nil {
		return *new(T) // v may have a part of it
	}
	return v
}

// DecodeCount decodes a number of tokens. Some servers write 12.0. A number too large for its type becomes the largest
// uint64, so that it is not mistaken for a missing one.
func DecodeCount(data json.RawMessage) (uint64, bool) {
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
