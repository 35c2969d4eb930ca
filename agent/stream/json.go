package stream

import (
	"encoding/binary"
	"math/bits"
)

// cursor walks over one JSON text without decoding it. At the first thing it does not understand, or that is no JSON,
// it goes bad and stays so: everything it returns then is empty, and the caller has encoding/json look at the text
// instead.
type cursor struct {
	b   []byte
	i   int
	bad bool
}

// deepest is how far values may nest before the text is left to encoding/json.
const deepest = 64

// peek skips white space and returns the byte that follows, or 0.
func (c *cursor) peek() byte {
	if c.i < len(c.b) && c.b[c.i] > ' ' {
		return c.b[c.i]
	}
	return c.peekFar()
}

// peekFar is peek where there is white space.
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

// eat takes the byte b, which must be next.
func (c *cursor) eat(b byte) {
	if c.peek() != b {
		c.bad = true
		return
	}
	c.i++
}

// end says whether the text was one sound value.
func (c *cursor) end() bool {
	c.peek()
	return !c.bad && c.i == len(c.b)
}

// key moves to the value of an object's next member, the n-th from 0, and returns the name as it is written. It is
// false at the end of the object. Names with escapes are left to encoding/json.
func (c *cursor) key(n int) (name []byte, ok bool) {
	if !c.more(n, '}') {
		return nil, false
	}
	name, escaped := c.text()
	c.eat(':')
	c.bad = c.bad || escaped
	return name, !c.bad
}

// more moves to the n-th member of an object or element of an array, or behind the closing bracket.
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

// text takes a string and returns what stands between its quotes.
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

// plain returns the index of the first byte from i on that ends a run of plain characters in a string: a quote, a
// backslash or a control character.
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

// firstSpecial returns which of eight bytes, the lowest first, is the first that plain stops at. 8: none of them is.
//
// A byte less than n, of those below 0x80, is one whose highest bit is set after n is taken off it; a byte equal to b
// is 0 after xor with b, and less than 1. Borrows reach only bytes above the first one found.
func firstSpecial(eight uint64) int {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	quote, escape := eight^ones*'"', eight^ones*'\\'
	found := ((eight - ones*' ') &^ eight) | ((quote - ones) &^ quote) | ((escape - ones) &^ escape)
	return bits.TrailingZeros64(found&highest) / 8
}

// special are the bytes that plain stops at.
var special = func() (t [256]bool) {
	for i := range ' ' {
		t[i] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// escape takes a backslash and what it belongs to.
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

// hex takes four hexadecimal digits.
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

// skip takes a value of any kind, at this depth, and returns its text.
func (c *cursor) skip(depth int) []byte {
	first := c.peek()
	from := c.i
	switch {
	case c.bad || depth > deepest:
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
		c.word(first)
	}
	if c.bad {
		return nil
	}
	return c.b[from:c.i]
}

// word takes true, false or null.
func (c *cursor) word(first byte) {
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

// number takes a number.
func (c *cursor) number() {
	if c.at('-') {
		c.i++
	}
	if c.at('0') {
		c.i++
	} else {
		c.digits()
	}
	if c.at('.') {
		c.i++
		c.digits()
	}
	if c.at('e') || c.at('E') {
		c.i++
		if c.at('+') || c.at('-') {
			c.i++
		}
		c.digits()
	}
}

// at says whether the very next byte is b.
func (c *cursor) at(b byte) bool { return c.i < len(c.b) && c.b[c.i] == b }

// digits takes one digit or more.
func (c *cursor) digits() {
	from := c.i
	for c.i < len(c.b) && isDigit(c.b[c.i]) {
		c.i++
	}
	c.bad = c.bad || c.i == from
}
