// Package jsonscan reads JSON texts in place: it decodes nothing and allocates nothing, and leaves what is unusual or
// invalid to encoding/json, which decides.
package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Cursor scans one JSON text without decoding it. At the first thing that is invalid or that it does not support, it
// sets Bad for good: from then on it returns only empty values, and the caller uses encoding/json instead.
type Cursor struct {
	B   []byte
	I   int
	Bad bool
}

// maxDepth is how far values may nest before the text is left to encoding/json.
const maxDepth = 64

// Peek skips white space and returns the byte that follows, or 0.
func (c *Cursor) Peek() byte {
	if c.I < len(c.B) && c.B[c.I] > ' ' {
		return c.B[c.I]
	}
	return c.peekFar()
}

// peekFar implements Peek where there may be white space.
func (c *Cursor) peekFar() byte {
	for ; c.I < len(c.B); c.I++ {
		switch b := c.B[c.I]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

// Eat consumes the byte b, which must be next.
func (c *Cursor) Eat(b byte) {
	if c.Peek() != b {
		c.Bad = true
		return
	}
	c.I++
}

// End reports whether the text was exactly one valid value.
func (c *Cursor) End() bool {
	c.Peek()
	return !c.Bad && c.I == len(c.B)
}

// Key moves to the value of an object's next member, the n-th from 0, and returns the name as written. It returns false
// at the end of the object. Names with escapes are left to encoding/json.
func (c *Cursor) Key(n int) (name []byte, ok bool) {
	if !c.More(n, '}') {
		return nil, false
	}
	name, escaped := c.Text()
	c.Eat(':')
	c.Bad = c.Bad || escaped
	return name, !c.Bad
}

// More moves to the n-th member of an object or element of an array and returns true, or moves past the closing bracket
// and returns false.
func (c *Cursor) More(n int, closing byte) bool {
	if c.Bad {
		return false
	}
	if c.Peek() == closing {
		c.I++
		return false
	}
	if n > 0 {
		c.Eat(',')
	}
	return !c.Bad
}

// Text consumes a string and returns what is between its quotes.
func (c *Cursor) Text() (raw []byte, escaped bool) {
	c.Eat('"')
	if c.Bad {
		return nil, false
	}
	for from := c.I; ; {
		c.I = plain(c.B, c.I)
		if c.I >= len(c.B) || c.B[c.I] < ' ' {
			c.Bad = true
			return nil, false
		}
		if c.B[c.I] == '"' {
			c.I++
			return c.B[from : c.I-1], escaped
		}
		escaped = true
		c.escape()
	}
}

// plain returns the index of the first byte from i on that is not a plain character of a string: a quote, a backslash
// or a control character.
func plain(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		if at := firstSpecial(binary.LittleEndian.Uint64(b[i:])); at < 8 {
			return i + at
		}
	}
	for i < len(b) && !special[b[i]] {
		i++
	}
	return i
}

// firstSpecial returns the index, lowest byte first, of the first of eight bytes at which plain stops. 8: none of them.
//
// A byte below 0x80 is less than n if its highest bit is set after subtracting n. A byte equal to b is 0 after xor with
// B, and so less than 1. Borrows reach only bytes above the first one found.
func firstSpecial(eight uint64) int {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	quote, escape := eight^ones*'"', eight^ones*'\\'
	found := ((eight - ones*' ') &^ eight) | ((quote - ones) &^ quote) | ((escape - ones) &^ escape)
	return bits.TrailingZeros64(found&highest) / 8
}

// special marks the bytes at which plain stops.
var special = func() (t [256]bool) {
	for i := range ' ' {
		t[i] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// escape consumes a backslash and the rest of its escape.
func (c *Cursor) escape() {
	c.I++
	if c.I >= len(c.B) {
		c.Bad = true
		return
	}
	switch c.B[c.I] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.I++
	case 'u':
		c.I++
		c.hex()
	default:
		c.Bad = true
	}
}

// hex consumes four hexadecimal digits.
func (c *Cursor) hex() {
	for range 4 {
		if c.I >= len(c.B) || !isHex(c.B[c.I]) {
			c.Bad = true
			return
		}
		c.I++
	}
}

func isHex(b byte) bool { return isDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'f' }

// isDigit reports whether a byte is a decimal digit.
func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// Skip consumes a value of any kind, at this nesting depth, and returns its text.
func (c *Cursor) Skip(depth int) []byte {
	first := c.Peek()
	from := c.I
	switch {
	case c.Bad || depth > maxDepth:
		c.Bad = true
	case first == '"':
		c.Text()
	case first == '{':
		c.I++
		for n := 0; c.More(n, '}'); n++ {
			c.Text()
			c.Eat(':')
			c.Skip(depth + 1)
		}
	case first == '[':
		c.I++
		for n := 0; c.More(n, ']'); n++ {
			c.Skip(depth + 1)
		}
	case first == '-' || isDigit(first):
		c.number()
	default:
		c.literal(first)
	}
	if c.Bad {
		return nil
	}
	return c.B[from:c.I]
}

// literal consumes true, false or null.
func (c *Cursor) literal(first byte) {
	word := "null"
	switch first {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	}
	if len(c.B)-c.I < len(word) || string(c.B[c.I:c.I+len(word)]) != word {
		c.Bad = true
		return
	}
	c.I += len(word)
}

// number consumes a number.
func (c *Cursor) number() {
	if c.nextIs('-') {
		c.I++
	}
	if c.nextIs('0') {
		c.I++
	} else {
		c.digits()
	}
	if c.nextIs('.') {
		c.I++
		c.digits()
	}
	if c.nextIs('e') || c.nextIs('E') {
		c.I++
		if c.nextIs('+') || c.nextIs('-') {
			c.I++
		}
		c.digits()
	}
}

// nextIs reports whether the next byte is b. It does not skip white space.
func (c *Cursor) nextIs(b byte) bool { return c.I < len(c.B) && c.B[c.I] == b }

// digits consumes one digit or more.
func (c *Cursor) digits() {
	from := c.I
	for c.I < len(c.B) && isDigit(c.B[c.I]) {
		c.I++
	}
	c.Bad = c.Bad || c.I == from
}

// Repair makes the joined text of several JSON strings valid as the text of one JSON string. Each string was valid
// JSON, so escapes are complete and quotes are escaped. What can still be broken is what the strings split and never
// completed: UTF-8 characters and pairs of escaped surrogates, both of which servers refuse in requests. Repair changes
// text in place and allocates only for invalid UTF-8.
func Repair(text []byte) []byte {
	repairSurrogates(text)
	if utf8.Valid(text) {
		return text
	}
	return []byte(string([]rune(string(text)))) // one U+FFFD for each bad byte, as encoding/json does
}

// repairSurrogates replaces escaped surrogates without their other half by \ufffd.
func repairSurrogates(text []byte) {
	const length = len(`\ud83d`)
	for i := 0; ; {
		n := bytes.IndexByte(text[i:], '\\')
		if n < 0 {
			return
		}
		i += n
		unit, ok := escapedUnit(text[i:])
		if !ok {
			i += len(`\n`)
			continue
		}
		if utf16.IsSurrogate(unit) {
			if second, _ := escapedUnit(text[i+length:]); utf16.DecodeRune(unit, second) == utf8.RuneError {
				copy(text[i:], `\ufffd`)
			} else {
				i += length
			}
		}
		i += length
	}
}

// escapedUnit returns the UTF-16 code unit of the escape that text starts with. False: text starts with no such escape.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < len(`\u0000`) || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}
