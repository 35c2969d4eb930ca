package stream

import (
	"encoding/binary"
	"math/bits"
)

// cursor scans one JSON text without decoding it. At the first thing that is invalid or that it does not support, it
// sets bad for good: from then on it returns only empty values, and the caller uses encoding/json instead.
type cursor struct {
	b   []byte
	i   int
	bad bool
}

// maxDepth is how far values may nest before the text is left to encoding/json.
const maxDepth = 64

// peek skips white space and returns the byte that follows, or 0.
func (c *cursor) peek() byte {
	if c.i < len(c.b) && c.b[c.i] > ' ' {
		return c.b[c.i]
	}
	return c.peekFar()
}

// peekFar implements peek where there may be white space.
func (c *cursor) peekFar() byte {
	for ; c.i < len(c.b); c.i++ {
		switch b := c.b[c.i]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

// eat consumes the byte b, which must be next.
func (c *cursor) eat(b byte) {
	if c.peek() != b {
		c.bad = true
		return
	}
	c.i++
}

// end reports whether the text was exactly one valid value.
func (c *cursor) end() bool {
	c.peek()
	return !c.bad && c.i == len(c.b)
}

// key moves to the value of an object's next member, the n-th from 0, and returns the name as written. It returns false
// at the end of the object. Names with escapes are left to encoding/json.
func (c *cursor) key(n int) (name []byte, ok bool) {
	if !c.more(n, '}') {
		return nil, false
	}
	name, escaped := c.text()
	c.eat(':')
	c.bad = c.bad || escaped
	return name, !c.bad
}

// more moves to the n-th member of an object or element of an array and returns true, or moves past the closing bracket
// and returns false.
func (c *cursor) more(n int, closing byte) bool {
	if c.bad {
		return false
	}
	if c.peek() == closing {
		c.i++
		return false
	}
	if n > 0 {
		c.eat(',')
	}
	return !c.bad
}

// text consumes a string and returns what is between its quotes.
func (c *cursor) text() (raw []byte, escaped bool) {
	c.eat('"')
	if c.bad {
		return nil, false
	}
	for from := c.i; ; {
		c.i = plain(c.b, c.i)
		if c.i >= len(c.b) || c.b[c.i] < ' ' {
			c.bad = true
			return nil, false
		}
		if c.b[c.i] == '"' {
			c.i++
			return c.b[from : c.i-1], escaped
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
// b, and so less than 1. Borrows reach only bytes above the first one found.
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
func (c *cursor) escape() {
	c.i++
	if c.i >= len(c.b) {
		c.bad = true
		return
	}
	switch c.b[c.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.i++
	case 'u':
		c.i++
		c.hex()
	default:
		c.bad = true
	}
}

// hex consumes four hexadecimal digits.
func (c *cursor) hex() {
	for range 4 {
		if c.i >= len(c.b) || !isHex(c.b[c.i]) {
			c.bad = true
			return
		}
		c.i++
	}
}

func isHex(b byte) bool {
	return isDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'f'
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// skip consumes a value of any kind, at this nesting depth, and returns its text.
func (c *cursor) skip(depth int) []byte {
	first := c.peek()
	from := c.i
	switch {
	case c.bad || depth > maxDepth:
		c.bad = true
	case first == '"':
		c.text()
	case first == '{':
		c.i++
		for n := 0; c.more(n, '}'); n++ {
			c.text()
			c.eat(':')
			c.skip(depth + 1)
		}
	case first == '[':
		c.i++
		for n := 0; c.more(n, ']'); n++ {
			c.skip(depth + 1)
		}
	case first == '-' || isDigit(first):
		c.number()
	default:
		c.literal(first)
	}
	if c.bad {
		return nil
	}
	return c.b[from:c.i]
}

// literal consumes true, false or null.
func (c *cursor) literal(first byte) {
	word := "null"
	switch first {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	}
	if len(c.b)-c.i < len(word) || string(c.b[c.i:c.i+len(word)]) != word {
		c.bad = true
		return
	}
	c.i += len(word)
}

// number consumes a number.
func (c *cursor) number() {
	if c.nextIs('-') {
		c.i++
	}
	if c.nextIs('0') {
		c.i++
	} else {
		c.digits()
	}
	if c.nextIs('.') {
		c.i++
		c.digits()
	}
	if c.nextIs('e') || c.nextIs('E') {
		c.i++
		if c.nextIs('+') || c.nextIs('-') {
			c.i++
		}
		c.digits()
	}
}

// nextIs reports whether the next byte is b. It does not skip white space.
func (c *cursor) nextIs(b byte) bool { return c.i < len(c.b) && c.b[c.i] == b }

// digits consumes one digit or more.
func (c *cursor) digits() {
	from := c.i
	for c.i < len(c.b) && isDigit(c.b[c.i]) {
		c.i++
	}
	c.bad = c.bad || c.i == from
}
